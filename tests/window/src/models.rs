//! Models for tests in addition to the starter: copies of it in the data folder.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::desktop::Desktop;
use crate::failure::{Failure, Outcome};
use crate::page::Page;
use crate::programs::checkout;

/// A plain copy of the starter model.
pub const SECOND: &str = "Second";

/// The starter model without an end token: its responses are long enough to be stopped, killed and
/// observed.
pub const TALKATIVE: &str = "Talkative";

/// A token of the starter model that it does not generate in the tests, as the end of text of
/// [`TALKATIVE`]: it would soon generate every special token.
const NEVER_GENERATED: (u32, &str) = (16_383, "\u{120}locally");

/// Adds [`SECOND`] and [`TALKATIVE`] to the data folder.
///
/// # Errors
/// If a file cannot be copied.
pub fn add(desktop: &Desktop) -> Outcome {
    let starter = checkout().join("assets/starter");
    for name in [SECOND, TALKATIVE] {
        let folder = desktop.data().join("models").join(name);
        copy(&starter, &folder).map_err(Failure::doing("copy the starter model"))?;
    }
    let folder = desktop.data().join("models").join(TALKATIVE);
    let (id, token) = NEVER_GENERATED;
    for (file, field, value) in [
        ("config.json", "eos_token_id", json!([id])),
        ("generation_config.json", "eos_token_id", json!([id])),
        ("special_tokens_map.json", "eos_token", json!(token)),
        ("tokenizer_config.json", "eos_token", json!(token)),
    ] {
        set_field(&folder.join(file), field, value)
            .map_err(Failure::doing("make the model talkative"))?;
    }
    Ok(())
}

/// Copies only the MLX files of a model, which decodes slowly enough to observe.
///
/// # Errors
/// If a file cannot be copied.
pub fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path: PathBuf = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if let (Some("json" | "safetensors"), Some(name)) = (extension, path.file_name()) {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

fn set_field(file: &Path, field: &str, value: Value) -> std::io::Result<()> {
    let mut contents: Value = serde_json::from_slice(&fs::read(file)?)?;
    contents[field] = value;
    fs::write(file, serde_json::to_vec_pretty(&contents)?)
}

/// Selects a model in the menu of the chat.
///
/// # Errors
/// If it is not listed, or is not selected afterwards.
pub async fn choose(chat: &Page, name: &str) -> Outcome {
    chat.click("button", "^Model: |^Choose a model").await?;
    chat.click("menuitemradio|menuitem|option", name).await?;
    chat.by("button", &format!("^Model: {name}")).await?;
    Ok(())
}
