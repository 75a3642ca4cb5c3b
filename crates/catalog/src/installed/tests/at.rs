//! Tests of models that are named by path.
//!
//! Rule: such a model equals the listed one, with the same name, origin and repository, in every
//! place.

use super::*;

#[test]
fn a_model_at_a_path_is_the_listed_one() {
    let test_folder = TestFolder::with(&[]);
    test_folder.put_starter("assets/starter");
    test_folder.put_gguf("data/models/Bare.gguf");
    test_folder.put_gguf("data/models/own/M-GGUF/M-Q8_0.gguf");
    test_folder.put_folder("data/models/own/N-4bit");
    test_folder.put_folder("theirs/own/L-4bit");
    // A model that the user added counts before a model of another app.
    test_folder.put_folder("theirs/own/K-4bit");
    test_folder.put_folder("hub/models--own--M-4bit/snapshots/main");
    test_folder.put_gguf("mine/Mine.gguf");
    test_folder.put_gguf("others/Other.gguf");
    let app = |app, folder: &str| AppFolder {
        app,
        folder: test_folder.path().join(folder),
    };
    let places = Places {
        app_folders: vec![app(App::LmStudio, "theirs"), app(App::HuggingFace, "hub")],
        ..test_folder.places(&["mine/Mine.gguf", "others", "theirs/own/K-4bit"])
    };
    let listed = list(&places);
    assert_eq!(listed.len(), 9, "{listed:#?}");
    for model in listed {
        assert_eq!(
            InstalledModel::of_places(&model.id, &places).unwrap(),
            model
        );
    }
}

#[test]
fn a_path_outside_of_all_places_is_an_added_model() {
    let test_folder = TestFolder::with(&[]);
    let path = test_folder.put_gguf("anywhere/Some.gguf");
    let model = InstalledModel::of_places(&path, &test_folder.places(&[])).unwrap();
    assert_eq!(model.name(), "Some");
    assert_eq!(model.origin, Origin::Added { path });
    let gone = InstalledModel::of_places(Path::new("/nowhere/gone.gguf"), &test_folder.places(&[]));
    assert!(gone.unwrap().facts.is_err());
}
