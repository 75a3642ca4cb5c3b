//! Tests that find the catalog entry of a model on the disk.
//!
//! Rule: a name alone is never sufficient.

use std::path::Path;

use super::{App, InstalledModel, Places, TestFolder, list};
use crate::entries::Catalog;

const LIST: &str = r#"[[model]]
id = "m"
name = "M"
[model.architecture]
model_type = "qwen3"
parameters = 1_000_000
layers = 2
hidden_size = 64
heads = 4
kv_heads = 4
head_dim = 16
intermediate_size = 128
vocabulary = 1000
context_length = 2048
[[model.variant]]
format = "mlx"
quantization = "4-bit"
repository = "Own/M-4bit"
[[model.variant]]
format = "gguf"
quantization = "Q4_K_M"
repository = "own/M-GGUF"
files = [ { name = "M-Q4_K_M.gguf" } ]
[[model.variant]]
format = "gguf"
quantization = "Q8_0"
repository = "own/M-GGUF"
"#;

fn catalog() -> Catalog {
    Catalog::read(LIST, Path::new("models.toml")).unwrap()
}

/// Returns the quantization of the model's catalog variant; empty if only its entry is known.
fn quantization(model: &InstalledModel) -> Option<String> {
    let catalog = catalog();
    let (entry, variant) = model.entry(&catalog)?;
    assert_eq!(entry.id, "m");
    Some(
        variant
            .map(|variant| variant.quantization.clone())
            .unwrap_or_default(),
    )
}

fn quantizations(places: &Places) -> Vec<Option<String>> {
    list(places).iter().map(quantization).collect()
}

#[test]
fn a_model_in_the_folders_of_its_repository_is_identified_by_them() {
    let test_folder = TestFolder::with(&[]);
    test_folder.put_folder("data/models/own/m-4bit");
    test_folder.put_gguf("data/models/own/M-GGUF/M-Q4_K_M.gguf");
    test_folder.put_gguf("data/models/own/M-GGUF/M-Q8_0.gguf");
    test_folder.put_gguf("data/models/own/M-GGUF/M-Q6_K.gguf");
    test_folder.put_gguf("data/models/other/M-GGUF/M-Q8_0.gguf");
    let models = list(&test_folder.places(&[]));
    let known =
        |end: &str| quantization(models.iter().find(|model| model.id.ends_with(end)).unwrap());
    assert_eq!(known("own/m-4bit").as_deref(), Some("4-bit"));
    assert_eq!(known("own/M-GGUF/M-Q4_K_M.gguf").as_deref(), Some("Q4_K_M"));
    assert_eq!(known("own/M-GGUF/M-Q8_0.gguf").as_deref(), Some("Q8_0"));
    assert_eq!(
        known("M-Q6_K.gguf").as_deref(),
        Some(""),
        "a quantization that is not listed"
    );
    assert_eq!(known("other/M-GGUF/M-Q8_0.gguf"), None);
    let is_there = |n: usize| {
        let catalog = catalog();
        let variant = &catalog.entries[0].variants[n];
        models
            .iter()
            .filter(|model| {
                let found = model.entry(&catalog).and_then(|(_, its)| its);
                found == Some(variant)
            })
            .count()
    };
    assert_eq!((is_there(0), is_there(1), is_there(2)), (1, 1, 1));
}

#[test]
fn a_model_of_another_app_is_identified_in_its_cache() {
    let test_folder = TestFolder::with(&["cache/manifest=own=M-GGUF=latest.json"]);
    test_folder.put_gguf("cache/own_M-GGUF_M-Q4_K_M.gguf");
    let places = test_folder.of_app(App::LlamaCpp, "cache");
    assert_eq!(quantizations(&places), [Some("Q4_K_M".to_owned())]);
    let test_folder = TestFolder::with(&[]);
    test_folder.put_folder("hub/models--own--M-4bit/snapshots/abc");
    let places = test_folder.of_app(App::HuggingFace, "hub");
    assert_eq!(quantizations(&places), [Some("4-bit".to_owned())]);
}

#[test]
fn outside_the_models_folder_a_model_is_identified_by_its_name_and_its_numbers() {
    let test_folder = TestFolder::with(&["elsewhere/broken/M-Q4_K_M.gguf"]);
    test_folder.put_gguf("elsewhere/m-q4_k_m.gguf");
    test_folder.put_folder("elsewhere/M-4bit");
    test_folder.put_gguf("elsewhere/called-otherwise.gguf");
    std::fs::write(
        test_folder.path().join("elsewhere/M-Q8_0.gguf"),
        super::gguf("llama"),
    )
    .unwrap();
    let models = list(&test_folder.places(&["elsewhere"]));
    let known =
        |end: &str| quantization(models.iter().find(|model| model.id.ends_with(end)).unwrap());
    assert_eq!(known("elsewhere/m-q4_k_m.gguf").as_deref(), Some("Q4_K_M"));
    assert_eq!(known("elsewhere/M-4bit").as_deref(), Some("4-bit"));
    assert_eq!(known("called-otherwise.gguf"), None, "no name");
    assert_eq!(known("M-Q8_0.gguf"), None, "other numbers");
    assert_eq!(known("broken/M-Q4_K_M.gguf"), None, "no numbers");
}

#[test]
fn the_starter_is_the_entry_that_comes_with_the_program() {
    let test_folder = TestFolder::with(&["assets/starter/config.json"]);
    let models = list(&test_folder.places(&[]));
    let built_in = Catalog::built_in();
    let entry = models[0].entry(&built_in).map(|(entry, _)| &*entry.id);
    assert_eq!(entry, Some("starter"));
    assert_eq!(models[0].entry(&catalog()), None);
}

#[test]
fn a_model_has_its_title_from_the_catalog_else_its_own_name() {
    let test_folder = TestFolder::with(&[
        "assets/starter/config.json",
        "data/models/broken/M-Q8_0.gguf",
    ]);
    test_folder.put_folder("data/models/own/M-4bit");
    test_folder.put_gguf("data/models/own/M-GGUF/M-Q6_K.gguf");
    test_folder.put_gguf("data/models/Mine.gguf");
    let models = list(&test_folder.places(&[]));
    let titles =
        |of: &Catalog| -> Vec<String> { models.iter().map(|model| model.title(of)).collect() };
    assert_eq!(
        titles(&catalog()),
        ["starter", "M · 4-bit", "M · F32", "M-Q8_0", "Mine"]
    );
    assert_eq!(titles(&Catalog::built_in())[0], "Starter");
}
