//! Libraries for tests of all commands, and what they know of models.
//!
//! Rule: nothing depends on this machine, or on the models and lists of the person who runs the tests.

use std::fs;

use transom_catalog::test_support::TinyModel;

use super::*;
use crate::model_path;

/// A list of two entries, one of them in several variants.
pub(crate) const LIST: &str = r#"
[[model]]
id = "tiny"
name = "Tiny 1B"
licence = "MIT"
tags = ["chat"]
variant = [
  { format = "gguf", packing = "Q8_0", repository = "owner/tiny-GGUF", files = [
    { name = "tiny-Q8_0.gguf", size_bytes = 1_100_000_000 } ] },
  { format = "gguf", packing = "Q4_K_M", repository = "owner/tiny-GGUF", files = [
    { name = "tiny-Q4_K_M.gguf", size_bytes = 700_000_000 } ] },
  { format = "mlx", packing = "4-bit", repository = "owner/tiny-4bit", size_bytes = 650_000_000 },
]
architecture = { model_type = "llama", parameters = 1_000_000_000, layers = 16, heads = 32, kv_heads = 8, hidden_size = 2048, head_dim = 64, intermediate_size = 8192, vocabulary = 128_256, context_length = 131_072 }

[[model]]
id = "huge"
name = "Huge 400B"
description = "Too large for any laptop."
licence = "MIT"
tags = ["code"]
variant = [
  { format = "gguf", packing = "Q4_K_M", repository = "owner/huge-GGUF", files = [
    { name = "huge-Q4_K_M.gguf", size_bytes = 230_000_000_000 } ] },
]
architecture = { model_type = "llama", parameters = 400_000_000_000, layers = 126, heads = 128, kv_heads = 8, hidden_size = 16_384, head_dim = 128, intermediate_size = 53_248, vocabulary = 128_256, context_length = 131_072 }
"#;

const GIB: u64 = 1 << 30;

/// A computer of 16 GB without a GPU that shares them.
pub(crate) fn machine() -> Machine {
    Machine {
        working_set_bytes: None,
        ..Machine::with_memory(16 * GIB)
    }
}

/// The made-up list and nothing else, on `machine`, with the models below `data_folder`.
pub(crate) fn library(data_folder: &Path, machine: Machine) -> Library {
    let catalogue = Catalogue::default().merged_with(LIST, Path::new(FILE_NAME));
    let mut library = Library::new(
        Arc::new(catalogue.unwrap()),
        data_folder.to_owned(),
        machine,
        Vec::new(),
    );
    library.places.executable = None;
    library
}

/// A library of which nothing is here.
fn bare(machine: Machine) -> Library {
    library(Path::new("/nowhere"), machine)
}

/// Puts a small model where a download would.
pub(crate) fn install(data_folder: &Path, repository: &str, file: &str) -> PathBuf {
    let folder = data_folder.join(MODELS_FOLDER).join(repository);
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(file);
    TinyModel::default().write(&path);
    path
}

#[test]
fn a_model_is_known_by_its_repository_its_file_and_a_name_of_its_own() {
    let data = tempfile::tempdir().unwrap();
    let path = install(data.path(), "owner/other-GGUF", "other-F16.gguf");
    let library = library(data.path(), machine());
    for text in [
        "owner/other-GGUF",
        "owner/other-gguf:F16",
        "other-F16",
        "OTHER-f16",
    ] {
        let found = library.named(text);
        assert_eq!(found.len(), 1, "{text}");
        assert_eq!(found[0].id, path.canonicalize().unwrap(), "{text}");
    }
    assert!(library.named("owner/other-GGUF:Q8_0").is_empty());
    assert_eq!(library.name_of(&library.installed()[0]), "other-F16");
}

#[test]
fn a_model_goes_by_the_name_of_the_windows_too_whoever_loads_it() {
    let data = tempfile::tempdir().unwrap();
    let path = install(data.path(), "owner/tiny-GGUF", "tiny-Q8_0.gguf");
    fs::write(data.path().join(FILE_NAME), LIST).unwrap();
    let library = library(data.path(), machine());
    assert_eq!(library.named("tiny 1b · q8_0").len(), 1);
    assert_eq!(library.name_of(&library.installed()[0]), "tiny");
    for text in ["tiny", path.to_str().unwrap()] {
        let library = || Ok(library.read_again());
        let found = model_path::find(Some(Path::new(text)), None, None, library);
        assert_eq!(title_of(&found.unwrap(), data.path()), "Tiny 1B · Q8_0");
    }
}

#[test]
fn the_variant_for_a_machine_is_in_its_form_and_fits() {
    let chosen = |machine: Machine, id: &str| {
        let library = bare(machine);
        let entry = library.catalogue.find(id).unwrap();
        let variant = library.variant_for(entry).unwrap();
        form_text(variant.format, &variant.packing)
    };
    assert_eq!(chosen(machine(), "tiny"), "GGUF Q4_K_M");
    assert_eq!(chosen(Machine::with_memory(16 * GIB), "tiny"), "MLX 4-bit");
    assert_eq!(chosen(machine(), "huge"), "GGUF Q4_K_M", "the only one");
}

#[test]
fn a_named_variant_is_taken_and_an_unknown_one_refused_with_those_there_are() {
    let library = bare(machine());
    let entry = library.catalogue.find("tiny").unwrap();
    let packing = |named| {
        library
            .variant_named(entry, named)
            .map(|v| v.packing.clone())
    };
    assert_eq!(packing("q8_0").unwrap(), "Q8_0");
    assert_eq!(packing("mlx").unwrap(), "4-bit");
    assert_eq!(packing("gguf").unwrap(), "Q4_K_M");
    let failure = packing("3-bit").unwrap_err();
    assert_eq!(
        failure.to_string(),
        "tiny is not there as 3-bit; there is Q8_0, Q4_K_M, 4-bit"
    );
}

#[test]
fn what_is_not_here_is_told_with_the_way_to_it() {
    let library = bare(machine());
    let told = |text: &str| {
        let failure = library.forms(text).unwrap_err();
        assert_eq!(failure.exit_code(), 3);
        failure.to_string()
    };
    assert_eq!(
        told("tiny"),
        "Tiny 1B is not installed; `transom models install tiny` fetches it"
    );
    assert!(told("owner/name").contains("`transom models install owner/name`"));
    assert!(told("nothing").contains("`transom models search nothing`"));
}

#[test]
fn a_mistake_in_the_users_list_leaves_the_built_in_list_in_force() {
    let data = tempfile::tempdir().unwrap();
    let (whole, none) = catalogue(data.path());
    assert_eq!(none, None, "no file is no mistake");
    fs::write(data.path().join(FILE_NAME), "[[model]]\nid = 3\n").unwrap();
    let (kept, mistake) = catalogue(data.path());
    assert_eq!(kept, whole);
    let mistake = mistake.unwrap();
    assert!(mistake.contains("models.toml:1:1: "), "{mistake}");
    fs::write(data.path().join(FILE_NAME), LIST).unwrap();
    let (merged, none) = catalogue(data.path());
    assert_eq!(none, None);
    assert!(merged.find("tiny").is_some() && merged.entries.len() > whole.entries.len());
}

#[test]
fn text_is_taken_for_a_path_only_where_it_can_be_nothing_else() {
    for text in ["/a", "./a", "../a/b", "~/a", "a/b/c", "a.gguf", "a/b.GGUF"] {
        assert!(is_path(Path::new(text)), "{text}");
    }
    for text in [
        "qwen3-4b",
        "owner/name",
        "qwen3-4b@8-bit",
        "owner/name:Q8_0",
    ] {
        assert!(!is_path(Path::new(text)), "{text}");
    }
    assert!(is_repository("Qwen/Qwen3-4B-GGUF"));
    for text in ["a", "a/b/c", "/a", "a/", "../a", "a b/c", "ä/b"] {
        assert!(!is_repository(text), "{text}");
    }
}
