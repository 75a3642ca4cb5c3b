//! A model that is named by its path.
//!
//! Rule: it is the one that stands in the list, with the same name, origin and repository, whichever
//! place it lies in.

use super::*;

#[test]
fn a_model_at_a_path_is_the_one_in_the_list() {
    let shelf = Shelf::with(&[]);
    shelf.put_starter("assets/starter");
    shelf.put_gguf("data/models/Bare.gguf");
    shelf.put_gguf("data/models/own/M-GGUF/M-Q8_0.gguf");
    shelf.put_folder("data/models/own/N-4bit");
    shelf.put_folder("theirs/own/L-4bit");
    // What the user added counts before what an app has.
    shelf.put_folder("theirs/own/K-4bit");
    shelf.put_folder("hub/models--own--M-4bit/snapshots/main");
    shelf.put_gguf("mine/Mine.gguf");
    shelf.put_gguf("others/Other.gguf");
    let app = |app, folder: &str| Elsewhere {
        app,
        folder: shelf.path().join(folder),
    };
    let places = Places {
        elsewhere: vec![app(App::LmStudio, "theirs"), app(App::HuggingFace, "hub")],
        ..shelf.places(&["mine/Mine.gguf", "others", "theirs/own/K-4bit"])
    };
    let listed = list(&places);
    assert_eq!(listed.len(), 9, "{listed:#?}");
    for model in listed {
        assert_eq!(Installed::of_places(&model.id, &places).unwrap(), model);
    }
}

#[test]
fn a_path_in_no_place_is_a_model_of_its_own() {
    let shelf = Shelf::with(&[]);
    let path = shelf.put_gguf("anywhere/Some.gguf");
    let model = Installed::of_places(&path, &shelf.places(&[])).unwrap();
    assert_eq!(model.name(), "Some");
    assert_eq!(model.origin, Origin::Added { path });
    let gone = Installed::of_places(Path::new("/nowhere/gone.gguf"), &shelf.places(&[]));
    assert!(gone.unwrap().facts.is_err());
}
