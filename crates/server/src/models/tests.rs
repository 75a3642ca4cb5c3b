use super::*;
use transom_engine::ChatPrompt;
use transom_engine::chat::Message;
use transom_library::test_support::{computer, install, library, mac};
use transom_library::{Catalog, Places};

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
        let found = models.find(name, None, None).await;
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

#[tokio::test]
async fn the_name_of_a_route_takes_a_loaded_model_whose_id_is_a_path() {
    let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    install(data.path(), "owner/tiny-GGUF", "tiny-Q4_K_M.gguf");
    let added = ["own", "more"].map(|name| {
        let repository = format!("owner/{name}-GGUF");
        install(other.path(), &repository, &format!("{name}-F16.gguf"))
    });
    let places = Places {
        data_folder: Some(data.path().to_owned()),
        added: added.to_vec(),
        ..Places::default()
    };
    let open = move || Library::new(Catalog::built_in(), places.clone(), mac(16));
    let library = open();
    let ids: Vec<String> = library
        .installed()
        .iter()
        .map(|it| library.id_of(it))
        .collect();
    // At least one of the paths is not the default model's.
    let n_paths = ids.iter().filter(|id| is_path(id)).count();
    assert_eq!((ids.len(), n_paths), (3, 2), "{ids:?}");
    let models = Models::new(Arc::new(open));
    for id in ids {
        let found = models.find("transom/code", Some(&id), None).await;
        let found = found.unwrap();
        assert_eq!((&found.spec.id, found.route), (&id, Route::Code));
        assert!(!is_path(&found.name));
        // A client can't name it so.
        let named = models.find(&id, None, None).await;
        assert_eq!(named.is_err(), is_path(&id));
    }
}

#[tokio::test]
async fn a_route_sets_no_temperature_where_the_model_reasons() {
    let data = tempfile::tempdir().unwrap();
    install(data.path(), "owner/tiny-GGUF", "tiny-Q4_K_M.gguf");
    let models = models(data.path());
    let found = models.find("tiny", None, None);
    let mut model = Model {
        route: Route::Translate,
        ..found.await.unwrap()
    };
    let prompt = |enable_thinking| {
        Prompt::Chat(ChatPrompt {
            messages: vec![Message::user("Guten Tag")],
            enable_thinking,
            ..ChatPrompt::default()
        })
    };
    let text = Prompt::Text("Guten Tag".to_owned());
    let temperatures = |model: &Model| {
        [None, Some(false), Some(true)].map(|thinking| model.route_temperature(&prompt(thinking)))
    };
    assert_eq!(temperatures(&model), [Some(0.2), Some(0.2), None]);
    let facts = Arc::make_mut(model.installed.facts.as_mut().unwrap());
    facts.chat_template = Some("<think>".to_owned());
    assert_eq!(temperatures(&model), [None, None, None]);
    assert_eq!(model.route_temperature(&text), Some(0.2));
}
