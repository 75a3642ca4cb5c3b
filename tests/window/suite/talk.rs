//! What a person does in the chat, in one place: where its parts are found is written here only.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use transom_window_tests::page::keys;
use transom_window_tests::programs::checkout;
use transom_window_tests::{Desktop, Failure, Outcome, Page, check, until};

/// The starter model, told that nothing ends an answer: what it writes is long enough to be
/// stopped, killed and watched.
pub(crate) const TALKATIVE: &str = "Talkative";

/// The answers that are shown, as the page says them, oldest first.
pub(crate) async fn answers(chat: &Page) -> Outcome<Vec<String>> {
    chat.texts_of(ANSWERS).await
}

/// The text of an answer without what is around it.
const ANSWERS: &str = "article[data-speaker=assistant] .blocks";

/// The person's messages.
pub(crate) async fn questions(chat: &Page) -> Outcome<Vec<String>> {
    chat.texts_of("article[data-speaker=user] .text").await
}

/// Types a message into the composer and sends it.
pub(crate) async fn ask(chat: &Page, text: &str) -> Outcome {
    let composer = chat.by("textbox", "^Message$").await?;
    composer.click().await?;
    composer.send_keys(text).await?;
    composer.send_keys(keys::ENTER).await?;
    Ok(())
}

/// Asks, waits for the end, and returns the answer.
pub(crate) async fn ask_to_the_end(chat: &Page, text: &str) -> Outcome<String> {
    let before = answers(chat).await?.len();
    ask(chat, text).await?;
    until("an answer begins", async || {
        Ok((answers(chat).await?.len() > before).then_some(()))
    })
    .await?;
    until_ended(chat).await?;
    last_answer(chat).await
}

/// Waits until nothing is written any more.
pub(crate) async fn until_ended(chat: &Page) -> Outcome {
    chat.by("button", "^Send").await.map(drop)
}

/// Waits until the last answer has at least so many characters, and returns it.
pub(crate) async fn until_written(chat: &Page, n_chars: usize) -> Outcome<String> {
    until("the answer grows", async || {
        let last = answers(chat).await?.pop().unwrap_or_default();
        Ok((last.chars().count() >= n_chars).then_some(last))
    })
    .await
}

/// The newest answer.
pub(crate) async fn last_answer(chat: &Page) -> Outcome<String> {
    let last = answers(chat).await?.pop();
    last.ok_or_else(|| Failure::Wrong("no answer is shown".into()))
}

/// Fails unless one text begins with the other, blanks aside: what is kept is what was there.
pub(crate) fn check_kept(before: &str, after: &str) -> Outcome {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (before, after) = (plain(before), plain(after));
    check(!before.is_empty() && after.starts_with(&before), || {
        format!("`{before}` was there, and later `{after}`")
    })
}

/// Puts copies of the starter model into the data folder: a plain one called `Second`, and
/// [`TALKATIVE`].
pub(crate) fn add_models(desktop: &Desktop) -> Outcome {
    let starter = checkout().join("assets/starter");
    for name in ["Second", TALKATIVE] {
        let folder = desktop.data().join("models").join(name);
        copy_model(&starter, &folder).map_err(Failure::doing("copy the starter model"))?;
    }
    let folder = desktop.data().join("models").join(TALKATIVE);
    for (file, field, value) in [
        ("config.json", "eos_token_id", json!([0])),
        ("generation_config.json", "eos_token_id", json!([0])),
        (
            "special_tokens_map.json",
            "eos_token",
            json!("<|endoftext|>"),
        ),
        ("tokenizer_config.json", "eos_token", json!("<|endoftext|>")),
    ] {
        set_field(&folder.join(file), field, value)
            .map_err(Failure::doing("make the model talkative"))?;
    }
    Ok(())
}

/// The form for MLX only: it writes at a pace at which one can watch.
fn copy_model(from: &Path, to: &Path) -> std::io::Result<()> {
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

/// Chooses a model in the menu of the chat.
pub(crate) async fn choose_model(chat: &Page, name: &str) -> Outcome {
    chat.click("button", "^Model: |^Choose a model").await?;
    chat.click("(menuitemradio|menuitem|option)", name).await?;
    chat.by("button", &format!("^Model: {name}")).await?;
    Ok(())
}
