//! Tests of adding and forgetting models, and of damaged files.
//!
//! Rule: each test has its own data folder, and waits for results with a time limit.

use std::fs;
use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::installed::added::{FILE_NAME, add_paths, forget, read};

const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the data folder of `test_folder`, with this text in its file.
fn with_file(test_folder: &TestFolder, text: &str) -> PathBuf {
    let data = test_folder.path().join("data");
    fs::create_dir_all(&data).unwrap();
    // Replace the file in one step, as the program does.
    let fresh = data.join("fresh");
    fs::write(&fresh, text).unwrap();
    fs::rename(fresh, data.join(FILE_NAME)).unwrap();
    data
}

fn names(places: &Places) -> Vec<String> {
    let models = list(places).into_iter();
    models.map(|model| model.name().to_owned()).collect()
}

#[test]
fn an_added_model_is_listed_by_every_program_until_it_is_forgotten() {
    let test_folder = TestFolder::with(&[]);
    let path = test_folder.put_gguf("elsewhere/Mine.gguf");
    let places = test_folder.places(&[]);
    let added = add(&path, &places).unwrap();
    assert!(added.is_new);
    // Another program, which has read nothing yet.
    let other = test_folder.places(&[]);
    assert_eq!(list(&other), std::slice::from_ref(&added.model));
    assert_eq!(added.model.origin, Origin::Added { path: path.clone() });
    let data = test_folder.path().join("data");
    assert_eq!(read(&data).unwrap(), std::slice::from_ref(&path));
    assert!(forget(&data, &path).unwrap());
    assert_eq!(names(&other), Vec::<String>::new());
    assert!(path.is_file(), "its files are the user's");
    assert!(!forget(&data, &path).unwrap(), "it was already removed");
}

#[test]
fn a_listed_model_is_not_added_again_by_any_path() {
    let test_folder = TestFolder::with(&[]);
    let ours = test_folder.put_gguf("data/models/Ours.gguf");
    let folder = test_folder.put_folder("elsewhere/Folder");
    let places = test_folder.places(&[]);
    let added = add(&ours, &places).unwrap();
    assert!(!added.is_new && added.model.origin == Origin::ModelsFolder);
    assert!(add(&folder, &places).unwrap().is_new);
    assert!(!add(&folder, &places).unwrap().is_new, "twice");
    #[cfg(unix)]
    {
        let link = test_folder.path().join("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        let added = add(&link, &places).unwrap();
        assert!(!added.is_new && added.model.id == folder.canonicalize().unwrap());
    }
    let paths = read(&test_folder.path().join("data")).unwrap();
    assert_eq!(paths, [folder]);
}

#[test]
fn an_unusable_model_is_refused_with_the_reason_and_nothing_changes() {
    let test_folder = TestFolder::with(&["a.gguf", "two/b.gguf", "two/c.gguf", "notes/README.md"]);
    let places = test_folder.places(&[]);
    let refused = |path: &str| {
        let error = add(&test_folder.path().join(path), &places).unwrap_err();
        assert!(matches!(error, AddedError::NoModel { .. }), "{error:?}");
        error.to_string()
    };
    assert!(refused("a.gguf").contains("a.gguf"));
    assert!(refused("two").ends_with("name one of them: b.gguf, c.gguf"));
    assert!(refused("notes").contains("config.json"));
    assert!(refused("gone.gguf").contains("gone.gguf"));
    assert!(!test_folder.path().join("data").exists());
}

#[test]
fn a_damaged_file_is_reported_with_its_position_and_never_overwritten() {
    for (text, place) in [
        (
            "{ \"version\": 1,\n  \"paths\": [",
            "line 2, column 12: EOF",
        ),
        (
            "{ \"version\": 1, \"paths\": \"/a\" }",
            "line 1, column 29: ",
        ),
        ("{ \"paths\": [] }", "missing field `version`"),
        ("\0\0\0\0", "line 1, column 1: expected value"),
        ("", "EOF"),
    ] {
        let test_folder = TestFolder::with(&[]);
        let model = test_folder.put_gguf("elsewhere/Mine.gguf");
        let ours = test_folder.put_gguf("data/models/Ours.gguf");
        let data = with_file(&test_folder, text);
        let message = read(&data).unwrap_err().to_string();
        assert!(
            message.contains(place) && message.contains("fix the file"),
            "{message}"
        );
        let places = test_folder.places(&[]);
        assert_eq!(names(&places), ["Ours"], "the others are listed");
        for refused in [
            add(&model, &places).map(drop),
            forget(&data, &model).map(drop),
            add_paths(&data, std::slice::from_ref(&ours)).map(drop),
        ] {
            assert_eq!(refused.unwrap_err().to_string(), message);
        }
        assert_eq!(fs::read_to_string(data.join(FILE_NAME)).unwrap(), text);
    }
}

#[test]
fn a_file_of_a_newer_version_is_not_changed() {
    let test_folder = TestFolder::with(&[]);
    let text = r#"{ "version": 2, "paths": { "/a": {} } }"#;
    let data = with_file(&test_folder, text);
    let error = read(&data).unwrap_err();
    assert!(
        matches!(error, AddedError::Newer { version: 2, .. }),
        "{error:?}"
    );
    assert_eq!(add_paths(&data, &["/b".into()]).unwrap_err(), error);
    assert_eq!(fs::read_to_string(data.join(FILE_NAME)).unwrap(), text);
}

#[test]
fn concurrent_changes_of_several_programs_are_all_kept() {
    const PROGRAMS: usize = 4;
    const MODELS: usize = 8;
    let test_folder = TestFolder::with(&[]);
    let data = test_folder.path().join("data");
    let path = |program: usize, model: usize| PathBuf::from(format!("/{program}/{model}.gguf"));
    std::thread::scope(|scope| {
        for program in 0..PROGRAMS {
            let data = &data;
            scope.spawn(move || {
                for model in 0..MODELS {
                    add_paths(data, &[path(program, model)]).unwrap();
                }
            });
        }
    });
    let mut paths = read(&data).unwrap();
    paths.sort();
    let all = (0..PROGRAMS).flat_map(|program| (0..MODELS).map(move |model| path(program, model)));
    assert_eq!(paths, all.collect::<Vec<_>>());
}

#[cfg(unix)]
#[test]
fn a_path_that_is_not_utf8_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let test_folder = TestFolder::with(&[]);
    let path = Path::new(std::ffi::OsStr::from_bytes(b"/models/\xff.gguf"));
    let error = add_paths(&test_folder.path().join("data"), &[path.to_owned()]).unwrap_err();
    assert!(matches!(error, AddedError::NotText { .. }), "{error:?}");
}

#[cfg(unix)]
#[test]
fn the_data_folder_is_created_for_this_user_only() {
    use std::os::unix::fs::PermissionsExt;
    let test_folder = TestFolder::with(&[]);
    let data = test_folder.path().join("new/data");
    add_paths(&data, &["/a".into()]).unwrap();
    assert_eq!(data.metadata().unwrap().permissions().mode() & 0o077, 0);
    let file = data.join(FILE_NAME).metadata().unwrap();
    assert_eq!(file.permissions().mode() & 0o077, 0);
}

#[test]
fn a_change_by_another_program_is_noticed_and_an_equal_file_is_not() {
    let test_folder = TestFolder::with(&[]);
    let data = test_folder.path().join("data");
    let (heard, changes) = mpsc::channel();
    let folder = data.clone();
    let watch = AddedModelsWatcher::start(data.clone(), move || {
        // The list at the time of the notification.
        let _ = heard.send(read(&folder));
    });
    let next = || changes.recv_timeout(PATIENCE).expect("a change is noticed");
    add_paths(&data, &["/a".into()]).unwrap();
    assert_eq!(next().unwrap(), [PathBuf::from("/a")]);
    // The same content, formatted differently.
    with_file(&test_folder, r#"{"paths":["/a"],"version":1}"#);
    with_file(&test_folder, "oops");
    // The next notification is the damage, so the equal file caused none.
    assert!(next().is_err());
    drop(watch);
    assert!(changes.try_recv().is_err());
}
