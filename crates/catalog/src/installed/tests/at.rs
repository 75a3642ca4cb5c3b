//! Tests of models that are named by path.
//!
//! Rule: such a model equals the listed one, with the same name, origin and repository, in every
//! place.

use super::*;

#[test]
fn a_model_at_a_path_is_the_listed_one() {
    let folder_of_models = TestFolder::with(&[]);
    folder_of_models.put_starter("assets/starter");
    folder_of_models.put_gguf("data/models/Bare.gguf");
    folder_of_models.put_gguf("data/models/own/M-GGUF/M-Q8_0.gguf");
    folder_of_models.put_folder("data/models/own/N-4bit");
    folder_of_models.put_folder("theirs/own/L-4bit");
    // A model that the user added counts before a model of another app.
    folder_of_models.put_folder("theirs/own/K-4bit");
    folder_of_models.put_folder("hub/models--own--M-4bit/snapshots/main");
    folder_of_models.put_gguf("mine/Mine.gguf");
    folder_of_models.put_gguf("others/Other.gguf");
    let app = |app, folder: &str| AppFolder {
        app,
        folder: folder_of_models.path().join(folder),
    };
    let places = Places {
        app_folders: vec![app(App::LmStudio, "theirs"), app(App::HuggingFace, "hub")],
        ..folder_of_models.places(&["mine/Mine.gguf", "others", "theirs/own/K-4bit"])
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
    let folder_of_models = TestFolder::with(&[]);
    let path = folder_of_models.put_gguf("anywhere/Some.gguf");
    let model = InstalledModel::of_places(&path, &folder_of_models.places(&[])).unwrap();
    assert_eq!(model.name(), "Some");
    assert_eq!(model.origin, Origin::Added { path });
    let gone = InstalledModel::of_places(
        Path::new("/nowhere/gone.gguf"),
        &folder_of_models.places(&[]),
    );
    assert!(gone.unwrap().facts.is_err());
}
