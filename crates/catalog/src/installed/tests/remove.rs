//! Tests of deleting models.
//!
//! Rule: every test checks the files on the disk afterwards.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use super::super::{RemoveError, removal, remove};
use super::{App, Format, InstalledModel, Origin, Places, TestFolder, list};

/// Returns the model whose path ends with `end`.
fn model(places: &Places, end: &str) -> InstalledModel {
    let models = list(places);
    let found = models.iter().find(|model| model.id.ends_with(end));
    found
        .unwrap_or_else(|| panic!("no {end} in {models:?}"))
        .clone()
}

/// Returns every file and folder in the models folder.
fn left(test_folder: &TestFolder) -> Vec<String> {
    fn walk(folder: &Path, root: &Path, all: &mut Vec<String>) {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            all.push(path.strip_prefix(root).unwrap().display().to_string());
            if path.is_dir() && !path.is_symlink() {
                walk(&path, root, all);
            }
        }
    }
    let root = test_folder.path().join("data/models");
    let mut all = Vec::new();
    walk(&root, &root, &mut all);
    all.sort();
    all
}

fn blocks(paths: &[&Path]) -> u64 {
    let bytes = paths
        .iter()
        .map(|path| path.symlink_metadata().unwrap().blocks() * 512);
    bytes.sum()
}

#[test]
fn a_folder_is_deleted_completely_and_its_freed_bytes_are_returned() {
    let test_folder = TestFolder::with(&["data/models/o/M/original/README.md"]);
    let folder = test_folder.put_folder("data/models/o/M");
    test_folder.put_folder("data/models/o/Other");
    fs::write(folder.join("model.safetensors"), vec![1; 100_000]).unwrap();
    let files =
        ["config.json", "model.safetensors", "tokenizer.json"].map(|name| folder.join(name));
    let files: Vec<&Path> = files.iter().map(|path| &**path).collect();
    let bytes = blocks(&files) + blocks(&[&folder.join("original/README.md")]);
    assert!(bytes >= 100_000);
    let places = test_folder.places(&[]);
    let model = model(&places, "o/M");
    let before = removal(&model, &places).unwrap();
    assert_eq!(
        (before.bytes, before.files.len(), model.name()),
        (bytes, 4, "M")
    );
    assert!(
        before.files[0].ends_with("model.safetensors"),
        "weights first"
    );
    assert_eq!(remove(&model, &places).unwrap(), bytes);
    let other = [
        "o",
        "o/Other",
        "o/Other/config.json",
        "o/Other/model.safetensors",
        "o/Other/tokenizer.json",
    ];
    assert_eq!(left(&test_folder), other);
    let again = remove(&model, &places).unwrap_err();
    assert!(matches!(again, RemoveError::Gone { .. }), "{again}");
}

#[test]
fn a_split_model_is_deleted_with_all_parts_and_others_stay_in_the_folder() {
    let test_folder = TestFolder::with(&[
        "data/models/o/M-GGUF/README.md",
        "data/models/o/M-GGUF/M-00001-of-00002.gguf",
        "data/models/o/M-GGUF/M-00002-of-00002.gguf",
        "data/models/o/M-GGUF/M-Q8_0.gguf",
    ]);
    let places = test_folder.places(&[]);
    remove(&model(&places, "M-00001-of-00002.gguf"), &places).unwrap();
    let kept = [
        "o",
        "o/M-GGUF",
        "o/M-GGUF/M-Q8_0.gguf",
        "o/M-GGUF/README.md",
    ];
    assert_eq!(left(&test_folder), kept);
    // With the last model, the files that were downloaded with it are deleted.
    test_folder.put("data/models/o/M-GGUF/mmproj-M.gguf");
    test_folder.put("data/models/o/M-GGUF/.DS_Store");
    remove(&model(&places, "M-Q8_0.gguf"), &places).unwrap();
    assert_eq!(left(&test_folder), Vec::<String>::new());
}

#[test]
fn files_of_the_user_next_to_a_model_stay() {
    let test_folder = TestFolder::with(&[
        "data/models/o/M/M.gguf",
        "data/models/o/M/notes.txt",
        "data/models/o/M/README.md",
    ]);
    let places = test_folder.places(&[]);
    remove(&model(&places, "M.gguf"), &places).unwrap();
    assert_eq!(
        left(&test_folder),
        ["o", "o/M", "o/M/README.md", "o/M/notes.txt"]
    );
    let test_folder = TestFolder::with(&["data/models/M.gguf", "data/models/README.md"]);
    let places = test_folder.places(&[]);
    remove(&model(&places, "M.gguf"), &places).unwrap();
    assert_eq!(
        left(&test_folder),
        ["README.md"],
        "and the models folder itself"
    );
}

#[test]
fn two_variants_in_one_folder_are_deleted_together() {
    let test_folder = TestFolder::with(&["data/models/o/M/other-model.gguf"]);
    test_folder.put_folder("data/models/o/M");
    test_folder.put_gguf("data/models/o/M/M.gguf");
    // Neither the folder's header nor the file's says how many heads its keys have.
    let places = test_folder.places(&[]);
    let model = model(&places, "o/M");
    assert_eq!(model.files.paths.len(), 2, "{model:?}");
    assert_eq!(model.formats(), [Format::Safetensors, Format::Gguf]);
    remove(&model, &places).unwrap();
    assert_eq!(left(&test_folder), ["o", "o/M", "o/M/other-model.gguf"]);
}

#[test]
fn a_file_with_another_name_elsewhere_frees_nothing() {
    let test_folder = TestFolder::with(&[]);
    let file = test_folder.put_gguf("data/models/o/M/M.gguf");
    fs::write(&file, vec![1; 50_000]).unwrap();
    let both = [file.as_path()];
    let bytes = blocks(&both);
    fs::hard_link(&file, test_folder.path().join("kept.gguf")).unwrap();
    let places = test_folder.places(&[]);
    let hard = model(&places, "M.gguf");
    assert_eq!(remove(&hard, &places).unwrap(), 0);
    assert_eq!(
        test_folder
            .path()
            .join("kept.gguf")
            .metadata()
            .unwrap()
            .len(),
        50_000
    );
    // Two names inside of the model are one file, and both are deleted.
    let folder = test_folder.put_folder("data/models/o/N");
    fs::write(folder.join("model.safetensors"), vec![1; 50_000]).unwrap();
    fs::hard_link(folder.join("model.safetensors"), folder.join("again.bin")).unwrap();
    let freed = remove(&model(&places, "o/N"), &places).unwrap();
    assert!((bytes..2 * bytes).contains(&freed), "{freed} of {bytes}");
}

#[test]
fn links_out_of_the_models_folder_are_never_followed() {
    let test_folder = TestFolder::with(&["outside/kept.txt"]);
    let outside = test_folder.put_folder("outside/M");
    let file = test_folder.put_gguf("outside/file.gguf");
    let models = test_folder.path().join("data/models");
    let own = test_folder.put_folder("data/models/o/Own");
    symlink(&outside, models.join("linked")).unwrap();
    symlink(&file, models.join("linked.gguf")).unwrap();
    symlink(test_folder.path().join("outside"), own.join("assets")).unwrap();
    symlink(outside.join("config.json"), own.join("more.json")).unwrap();
    let places = test_folder.places(&[]);
    let linked = remove(&model(&places, "outside/M"), &places).unwrap_err();
    assert!(linked.to_string().contains("only a link to it"), "{linked}");
    assert_eq!(remove(&model(&places, "linked.gguf"), &places).unwrap(), 0);
    remove(&model(&places, "o/Own"), &places).unwrap();
    assert_eq!(left(&test_folder), ["linked"]);
    for kept in [
        "outside/kept.txt",
        "outside/M/config.json",
        "outside/M/model.safetensors",
        "outside/file.gguf",
    ] {
        assert!(test_folder.path().join(kept).is_file(), "{kept}");
    }
}

#[test]
fn models_that_are_not_ours_are_refused_each_with_its_own_message() {
    let test_folder = TestFolder::with(&["assets/starter/config.json"]);
    test_folder.put_gguf("elsewhere/A.gguf");
    test_folder.put_gguf("lms/o/E/E.gguf");
    let mut places = test_folder.places(&["elsewhere"]);
    places.app_folders = test_folder.of_app(App::LmStudio, "lms").app_folders;
    let said = |end: &str| {
        remove(&model(&places, end), &places)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        said("starter"),
        "starter came with the program and stays with it"
    );
    let added = said("A.gguf");
    assert!(
        added.starts_with("A is in ") && added.contains("which you added"),
        "{added}"
    );
    assert_eq!(said("E.gguf"), "E belongs to LM Studio; remove it there");
    // An origin that claims to be the models folder is not sufficient.
    let mut false_one = model(&places, "A.gguf");
    false_one.origin = Origin::ModelsFolder;
    let error = remove(&false_one, &places).unwrap_err();
    assert!(matches!(error, RemoveError::Outside { .. }), "{error}");
    assert!(test_folder.path().join("elsewhere/A.gguf").is_file());
    assert_eq!(list(&places).len(), 3);
}

#[test]
fn a_file_that_cannot_be_deleted_is_named_and_the_rest_can_be_deleted_later() {
    use std::os::unix::fs::PermissionsExt;
    let test_folder = TestFolder::with(&["data/models/o/M/sub/more.bin"]);
    test_folder.put_folder("data/models/o/M");
    let places = test_folder.places(&[]);
    let sub = test_folder.path().join("data/models/o/M/sub");
    fs::set_permissions(&sub, fs::Permissions::from_mode(0o500)).unwrap();
    // The superuser can write everywhere.
    let is_locked = fs::write(sub.join("x"), "").is_err();
    let first = remove(&model(&places, "o/M"), &places);
    if is_locked {
        fs::set_permissions(&sub, fs::Permissions::from_mode(0o700)).unwrap();
        let error = first.unwrap_err();
        assert!(
            error.to_string().contains("more.bin could not be removed"),
            "{error}"
        );
        assert!(sub.join("more.bin").is_file());
    } else {
        first.unwrap();
        assert_eq!(left(&test_folder), Vec::<String>::new());
    }
}
