//! A made-up library for tests of other crates.
//!
//! Rule: nothing depends on this machine, or on the models and catalogs of the person who runs tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use transom_catalog::entries::FILE_NAME;
use transom_catalog::estimate::AvailableMemory;
use transom_catalog::installed::MODELS_FOLDER;
use transom_catalog::machine::Machine;
use transom_catalog::test_support::TinyModel;
use transom_catalog::{Catalog, Places};

use crate::diagnostics::LOG_FILE;
use crate::{Library, ThisMachine};

const GIB: u64 = 1 << 30;

/// Words that must not be in a report: those of [`folder_with_private_log`], and names of folders.
pub const SECRETS: [&str; 7] = [
    "maria.private",
    "Divorce",
    "hf_abcdefghijklmnopqrstuvwxyz",
    "sk-abcdefghijklmnop",
    "dear diary",
    "Backup Disk",
    "Secret Project",
];

const PRIVATE_LOG: &str = "\
2026-11-26T21:00:00Z  INFO transom_app::start: opened /people/maria.private/Library/x
2026-11-26T21:00:01Z  WARN transom_hub::token: the token hf_abcdefghijklmnopqrstuvwxyz is refused
2026-11-26T21:00:02Z DEBUG transom_chat: dear diary
2026-11-26T21:00:03Z  INFO hyper::client: dear diary
dear diary, a second line
2026-11-26T21:00:04Z ERROR transom_supervisor: key=sk-abcdefghijklmnop at /Volumes/Backup Disk/a.gguf
2026-11-26T21:00:05Z  INFO transom_engine_mlx: model loaded model=\"Qwen3\"
2026-11-26T21:00:06Z  WARN transom_catalog: can't read path=/srv/Secret Project/a.gguf
";

/// A catalog of two entries, one of them in several variants.
pub const CATALOG: &str = r#"
[[model]]
id = "tiny"
name = "Tiny 1B"
license = "MIT"
tags = ["chat"]
variant = [
  { format = "gguf", quantization = "Q8_0", repository = "owner/tiny-GGUF", files = [
    { name = "tiny-Q8_0.gguf", size_bytes = 1_100_000_000 } ] },
  { format = "gguf", quantization = "Q4_K_M", repository = "owner/tiny-GGUF", files = [
    { name = "tiny-Q4_K_M.gguf", size_bytes = 700_000_000 } ] },
  { format = "mlx", quantization = "4-bit", repository = "owner/tiny-4bit", size_bytes = 650_000_000 },
]
architecture = { model_type = "llama", parameters = 1_000_000_000, layers = 16, heads = 32, kv_heads = 8, hidden_size = 2048, head_dim = 64, intermediate_size = 8192, vocabulary = 128_256, context_length = 131_072 }

[[model]]
id = "huge"
name = "Huge 400B"
description = "Too large for any laptop."
license = "MIT"
tags = ["code"]
variant = [
  { format = "gguf", quantization = "Q4_K_M", repository = "owner/huge-GGUF", files = [
    { name = "huge-Q4_K_M.gguf", size_bytes = 230_000_000_000 } ] },
]
architecture = { model_type = "llama", parameters = 400_000_000_000, layers = 126, heads = 128, kv_heads = 8, hidden_size = 16_384, head_dim = 128, intermediate_size = 53_248, vocabulary = 128_256, context_length = 131_072 }
"#;

/// Returns a computer with 16 GB of memory and no GPU with unified memory.
pub fn computer() -> Machine {
    Machine {
        working_set_bytes: None,
        ..Machine::with_memory(16 * GIB)
    }
}

/// Returns a Mac with this much memory that runs nothing else.
pub fn mac(gigabytes: u64) -> ThisMachine {
    ThisMachine::simulated(Machine::with_memory(gigabytes * GIB))
}

/// Returns this machine with this memory for models.
pub fn with_available_memory(mut machine: ThisMachine, available: AvailableMemory) -> ThisMachine {
    machine.set_available_memory(available);
    machine
}

/// Returns the made-up catalog on `machine`, with the models that are installed in `data_folder`.
pub fn library(data_folder: &Path, machine: Machine) -> Library {
    let catalog = Catalog::default().merged_with(CATALOG, Path::new(FILE_NAME));
    let places = Places {
        data_folder: Some(data_folder.to_owned()),
        ..Places::default()
    };
    let catalog = catalog.expect("the made-up catalog is right");
    Library::new(Arc::new(catalog), places, ThisMachine::simulated(machine))
}

/// Creates a small model in the place of a download.
pub fn install(data_folder: &Path, repository: &str, file: &str) -> PathBuf {
    let folder = data_folder.join(MODELS_FOLDER).join(repository);
    std::fs::create_dir_all(&folder).expect("a folder for the model");
    let path = folder.join(file);
    TinyModel::default().write(&path);
    path
}

/// Returns a data folder with a log of the app that contains paths, tokens and text of a chat.
///
/// # Panics
/// If it cannot be written.
pub fn folder_with_private_log() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = folder.path().join(LOG_FILE);
    std::fs::create_dir(log.with_file_name("")).expect("a folder");
    std::fs::write(log, PRIVATE_LOG).expect("a file");
    folder
}
