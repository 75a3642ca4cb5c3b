use super::*;
use transom_library::test_support::{computer, install, library};

fn models(data: &std::path::Path) -> Models {
    let data = data.to_owned();
    Models::new(Arc::new(move || library(&data, computer())))
}

#[tokio::test]
async fn a_model_is_found_by_its_names_and_never_by_a_path() {
    let data = tempfile::tempdir().unwrap();
    let path = install(data.path(), "owner/tiny-GGUF", "tiny-Q4_K_M.gguf");
    let models = models(data.path());
    let find = async |name: &str| {
        let found = models.find(name, None, LoadSettings::default()).await;
        found.map(|model| model.name)
    };
    let id = find("tiny").await.unwrap();
    for name in [&*id, "TINY", "tiny:latest", "tiny@Q4_K_M"] {
        assert_eq!(find(name).await, Ok(id.clone()), "{name}");
    }
    let path = path.to_string_lossy().into_owned();
    for name in [
        &*path,
        "",
        ":latest",
        "other",
        "../tiny",
        "https://example.org/tiny",
        "huge",
    ] {
        let error = find(name).await.unwrap_err();
        assert_eq!(error.code, Some("model_not_found"), "{name}");
        assert_eq!(error.status.as_u16(), 404);
    }
}

#[tokio::test]
async fn a_model_that_was_just_installed_is_found() {
    let data = tempfile::tempdir().unwrap();
    let models = models(data.path());
    assert!(models.listed("tiny").await.is_err());
    install(data.path(), "owner/tiny-GGUF", "tiny-Q4_K_M.gguf");
    let listed = models.listed("tiny").await.unwrap();
    assert_eq!(models.list().await.unwrap(), std::slice::from_ref(&listed));
    assert!(!listed.name.starts_with('/'));
    assert_eq!(listed.format, "gguf");
}
