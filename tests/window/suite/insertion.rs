//! A response of the quick prompt goes into another program: a browser with a text field.

use std::fs;

use transom_window_tests::page::keys;
use transom_window_tests::{Failure, Outcome, Page, TestSetup, check, programs, run_test, until};
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt};

use crate::prompt::{open_prompt, until_keyboard};

/// The text at the start.
const TEXT: &str = "alpha beta";

/// A text field whose text and number of selected characters are in the title of the window. It copies
/// bold text as HTML too, and pastes bold text with stars.
/// Control-Z undoes, as in every browser but this small one.
const PAGE: &str = r#"<!doctype html>
<meta charset="utf-8">
<textarea rows="12" cols="60">alpha beta</textarea>
<script>
  const area = document.querySelector("textarea");
  const tell = () => {
    const selected = area.selectionEnd - area.selectionStart;
    document.title = `selected:${selected} text:${JSON.stringify(area.value)}`;
  };
  addEventListener("keydown", (event) => {
    if (!event.ctrlKey || event.key !== "z") return;
    event.preventDefault();
    document.execCommand("undo");
    tell();
  });
  document.addEventListener("selectionchange", tell);
  area.addEventListener("select", tell);
  area.addEventListener("input", tell);
  area.addEventListener("copy", (event) => {
    event.preventDefault();
    event.clipboardData.setData("text/plain", area.value);
    event.clipboardData.setData("text/html", `<b>${area.value}</b>`);
  });
  area.addEventListener("paste", (event) => {
    if (!/<b[ >]/.test(event.clipboardData.getData("text/html"))) return;
    event.preventDefault();
    document.execCommand("insertText", false, `*${event.clipboardData.getData("text/plain")}*`);
  });
  area.focus();
  tell();
</script>
"#;

/// Opens the text field in a focused window.
async fn open_field(setup: &mut TestSetup) -> Outcome {
    let path = setup.desktop.home().join("field.html");
    fs::write(&path, PAGE).map_err(Failure::doing("write a page"))?;
    let mut browser = setup.desktop.command(programs::mini_browser()?);
    browser.arg(format!("file://{}", path.display()));
    setup.desktop.start_child(browser, "start a browser")?;
    until_field(setup, |text, _| text == TEXT).await.map(drop)
}

/// Waits until the focused window is the text field, and its text and number of selected characters
/// are as wanted. Returns the text.
async fn until_field(
    setup: &TestSetup,
    is_wanted: impl Fn(&str, usize) -> bool,
) -> Outcome<String> {
    until("the text field is as it should be", async || {
        let title = setup
            .desktop
            .output("xdotool", &["getactivewindow", "getwindowname"])?;
        let seen = || Failure::Wrong(format!("the focused window is {title:?}"));
        let state = title.trim().strip_prefix("selected:");
        let (selected, text) = state
            .and_then(|state| state.split_once(" text:"))
            .ok_or_else(seen)?;
        let selected = selected.parse().map_err(|_| seen())?;
        let text: String = serde_json::from_str(text).map_err(|_| seen())?;
        match is_wanted(&text, selected) {
            true => Ok(Some(text)),
            false => Err(seen()),
        }
    })
    .await
}

/// Selects the whole text, and waits until other programs can read the selection.
async fn select_all(setup: &TestSetup) -> Outcome {
    setup.desktop.press("ctrl+a")?;
    until_field(setup, |text, selected| selected == text.len()).await?;
    until("the selection can be read", async || {
        let failed = |error: &dyn std::fmt::Display| Failure::setup("find the selection", error);
        let (connection, _) =
            x11rb::connect(Some(setup.desktop.display())).map_err(|error| failed(&error))?;
        let owner = connection
            .get_selection_owner(AtomEnum::PRIMARY.into())
            .map_err(|error| failed(&error))?
            .reply()
            .map_err(|error| failed(&error))?;
        Ok((owner.owner != x11rb::NONE).then_some(()))
    })
    .await
}

/// Opens the quick prompt, asks, and waits for the end of the response.
async fn ask(setup: &TestSetup) -> Outcome<Page> {
    let prompt = open_prompt(setup).await?;
    prompt.type_text("What is the capital of France?").await?;
    prompt.type_text(keys::ENTER).await?;
    prompt.until_says("Paris|capital of France is").await?;
    prompt.by("button", "^Insert").await?;
    Ok(prompt)
}

#[tokio::test]
async fn a_response_replaces_the_selection_of_another_program_and_can_be_undone_there() {
    run_test("prompt_replaces", async |setup| {
        setup.open().await?;
        open_field(setup).await?;
        select_all(setup).await?;
        setup.desktop.press("ctrl+c")?;
        let prompt = open_prompt(setup).await?;
        // The selection was read when the shortcut was pressed.
        setup.desktop.press("ctrl+e")?;
        prompt.until_says("10 characters").await?;
        prompt.type_text("What is the capital of France?").await?;
        prompt.type_text(keys::ENTER).await?;
        prompt.by("button", "^Replace").await?;
        setup.desktop.press("ctrl+r")?;
        until_field(setup, |text, _| !text.is_empty() && !text.contains(TEXT)).await?;
        setup.desktop.press("ctrl+z")?;
        until_field(setup, |text, _| text == TEXT).await?;

        let prompt = open_prompt(setup).await?;
        until("the clipboard has its earlier text", async || {
            setup.desktop.press("ctrl+shift+v")?;
            let chip = prompt.text_of(".chip").await?.unwrap_or_default();
            let is_restored = chip.contains(TEXT);
            is_restored.then_some(Some(())).ok_or(Failure::Wrong(chip))
        })
        .await?;
        setup.desktop.press("Escape")?;
        until_field(setup, |text, _| text == TEXT).await?;
        setup.desktop.press("ctrl+v")?;
        let bold = format!("*{TEXT}*");
        until_field(setup, |text, _| text.contains(&bold))
            .await
            .map(drop)
    })
    .await;
}

#[tokio::test]
async fn a_response_is_inserted_at_the_cursor_of_another_program() {
    run_test("prompt_inserts", async |setup| {
        setup.open().await?;
        open_field(setup).await?;
        setup.desktop.press("ctrl+End")?;
        let prompt = ask(setup).await?;
        let replace = prompt.find("button", "^Replace").await?;
        check(replace.is_none(), || "there is nothing to replace".into())?;
        setup.desktop.press("ctrl+i")?;
        let text = until_field(setup, |text, _| text.len() > TEXT.len()).await?;
        check(text.starts_with(TEXT), || format!("the text is {text:?}"))?;
        // The exchange comes back, and can be inserted once more.
        let prompt = open_prompt(setup).await?;
        prompt.until_says("Paris|capital of France is").await?;
        setup.desktop.press("ctrl+i")?;
        until_field(setup, |twice, _| twice.len() > text.len()).await?;
        setup.desktop.press("ctrl+z")?;
        until_field(setup, |now, _| now == text).await?;
        setup.desktop.press("ctrl+z")?;
        until_field(setup, |now, _| now == TEXT).await.map(drop)
    })
    .await;
}

#[tokio::test]
async fn nothing_is_inserted_into_a_window_of_the_app() {
    run_test("prompt_inserts_nothing", async |setup| {
        let chat = setup.open().await?;
        until_keyboard(&chat).await?;
        let prompt = open_prompt(setup).await?;
        prompt.type_text("What is the capital of France?").await?;
        prompt.type_text(keys::ENTER).await?;
        prompt.by("button", "^Copy").await?;
        let insert = prompt.find("button", "^Insert").await?;
        check(insert.is_none(), || "a response can be inserted".into())?;
        setup.desktop.press("ctrl+i")?;
        prompt.until_says("There is no other app").await.map(drop)
    })
    .await;
}

#[tokio::test]
async fn a_response_is_inserted_after_the_selection_of_another_program() {
    run_test("prompt_inserts_after", async |setup| {
        setup.open().await?;
        open_field(setup).await?;
        select_all(setup).await?;
        ask(setup).await?;
        setup.desktop.press("ctrl+i")?;
        let text = until_field(setup, |text, _| text.len() > TEXT.len()).await?;
        check(text.starts_with(TEXT), || format!("the text is {text:?}"))
    })
    .await;
}
