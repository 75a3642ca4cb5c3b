//! Tests of folders with files that block, never end or are far too long.
//!
//! Rule: such a model is listed at once, with its problem. A test that fails here does not end.

use std::os::unix::fs::symlink;
use std::process::Command;

use super::*;

fn put_fifo(path: &Path) {
    let _ = fs::remove_file(path);
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

/// Creates a FIFO, a link to an endless device, and a sparse file of one terabyte.
fn put_bad_files(path: &Path, mut check: impl FnMut(&str)) {
    put_fifo(path);
    check("is not a regular file");
    fs::remove_file(path).unwrap();
    symlink("/dev/zero", path).unwrap();
    check("is not a regular file");
    fs::remove_file(path).unwrap();
    fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
    check("the limit is");
}

#[test]
fn a_folder_with_an_unreadable_file_is_listed_with_its_problem() {
    for name in [
        "config.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "model.safetensors",
    ] {
        let test_folder = TestFolder::with(&[]);
        let folder = test_folder.put_folder("data/models/bad");
        put_bad_files(&folder.join(name), |reason| {
            let problem = InstalledModel::at(&folder, Origin::ModelsFolder)
                .unwrap()
                .facts;
            let problem = problem.unwrap_err();
            // An empty header is a bad header.
            let reason = match (name, reason) {
                ("model.safetensors", "the limit is") => "a bad header",
                _ => reason,
            };
            let text = problem.to_string();
            assert!(text.contains(name) && text.contains(reason), "{text}");
            let listed = list(&test_folder.places(&[]));
            if let [listed] = &*listed {
                assert_eq!(listed.facts.as_ref().unwrap_err(), &problem);
            } else {
                // Without a configuration a folder is no model.
                assert!(listed.is_empty() && name == "config.json", "{listed:?}");
            }
        });
    }
}

#[test]
fn a_gguf_file_that_is_not_regular_is_refused() {
    let test_folder = TestFolder::with(&[]);
    let file = test_folder.path().join("a.gguf");
    put_fifo(&file);
    let problem = InstalledModel::at(&file, Origin::ModelsFolder)
        .unwrap()
        .facts;
    let problem = problem.unwrap_err().to_string();
    assert!(problem.ends_with("is not a regular file"), "{problem}");
}

#[test]
fn an_unreadable_list_of_added_models_hides_no_others() {
    let test_folder = TestFolder::with(&[]);
    test_folder.put_folder("data/models/good");
    let data_folder = test_folder.path().join("data");
    put_bad_files(&data_folder.join(ADDED_FILE), |reason| {
        let error = read_added(&data_folder).unwrap_err().to_string();
        assert!(error.contains(ADDED_FILE), "{error}");
        assert!(error.contains(reason), "{error}");
        assert_eq!(test_folder.list(&[]), ["good: data/models/good"]);
    });
}

#[test]
fn caches_of_other_apps_with_bad_files_are_skipped() {
    let test_folder = TestFolder::with(&[]);
    let repository = "hub/models--o--n";
    let folder = test_folder.put_folder(&format!("{repository}/snapshots/c"));
    fs::create_dir_all(test_folder.path().join(repository).join("refs")).unwrap();
    put_fifo(&test_folder.path().join(repository).join("refs/main"));
    let places = test_folder.of_app(App::HuggingFace, "hub");
    assert_eq!(list(&places).len(), 1);
    put_bad_files(&folder.join("model.safetensors.index.json"), |_| {
        assert!(list(&places).is_empty(), "it may be incomplete");
    });
    let files: Vec<String> = (0..=crate::safetensors::MAX_WEIGHT_FILES)
        .map(|n| format!(r#""{n}": "{n}""#))
        .collect();
    let index = folder.join("model.safetensors.index.json");
    fs::write(
        &index,
        format!(r#"{{"weight_map": {{{}}}}}"#, files.join(",")),
    )
    .unwrap();
    let error = crate::safetensors::indexed_files(&folder).unwrap_err();
    let reason = error.fault.to_string();
    assert!(reason.contains("names more than 10000 files"), "{error}");
}
