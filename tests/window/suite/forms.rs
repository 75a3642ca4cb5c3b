//! The chat as a popover and as an ordinary window: changing the form, resizing and maximizing.

use std::fs;

use transom_window_tests::page::keys;
use transom_window_tests::{Failure, Outcome, Page, TestSetup, check, run_test, until};

use crate::actions;

/// The button that only the popover has, and the one that only the ordinary window has.
const IN_POPOVER: &str = "^Open in window";
const IN_WINDOW: &str = "^Open as popover";

/// Waits until the chat has the keyboard in the form with this button.
async fn until_moved(setup: &TestSetup, button: &str) -> Outcome<Page> {
    until("the chat has the other form", async || {
        let Some(chat) = setup.app()?.find_window("chat").await? else {
            return Ok(None);
        };
        let is_other = chat.find("button", button).await?.is_some();
        let is_ready = is_other && chat.has_keyboard().await?;
        Ok(is_ready.then_some(chat))
    })
    .await
}

/// Opens the chat as an ordinary window.
async fn open_in_window(setup: &mut TestSetup) -> Outcome<Page> {
    setup.open().await?;
    setup.desktop.press("ctrl+shift+o")?;
    until_moved(setup, IN_WINDOW).await
}

#[tokio::test]
async fn the_chat_moves_to_an_ordinary_window_and_back() {
    run_test("the_chat_in_a_window", async |setup| {
        let chat = setup.open().await?;
        actions::ask_to_the_end(&chat, "What is the capital of France?").await?;
        for button in [IN_WINDOW, IN_POPOVER] {
            setup.desktop.press("ctrl+shift+o")?;
            let chat = until_moved(setup, button).await?;
            chat.until_says("capital of France").await?;
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_form_chosen_in_the_settings_moves_the_open_chat_with_unsaved_text() {
    run_test("the_form_in_the_settings", async |setup| {
        let chat = open_in_window(setup).await?;
        actions::ask_to_the_end(&chat, "What is the capital of France?").await?;
        let composer = chat.by("textbox", "^Message$").await?;
        composer.send_keys("Not sent yet").await?;
        chat.click("button", "^Edit$").await?;
        let editor = chat.by("textbox", "^Edit your message").await?;
        editor.send_keys(" And of Italy?").await?;

        setup.desktop.follow("transom://settings").await?;
        let settings = setup.window("settings").await?;
        settings.click("tab", "^General$").await?;
        let switch = "^Open the chat in a window";
        settings.click("switch|checkbox", switch).await?;
        let chat = until_moved(setup, IN_POPOVER).await?;
        until("the unsaved texts are there", async || {
            let values = "return [...document.querySelectorAll('textarea')].map((e) => e.value);";
            let values = chat.run(values, vec![]).await?.to_string();
            let has_draft = values.contains("Not sent yet");
            let has_edit = values.contains("capital of France? And of Italy?");
            let seen = Failure::Wrong(values);
            (has_draft && has_edit).then_some(Some(())).ok_or(seen)
        })
        .await?;
        let editor = chat.by("textbox", "^Edit your message").await?;
        editor.send_keys(keys::ESCAPE).await?;
        chat.until_gone("textbox", "^Edit your message").await
    })
    .await;
}

/// Waits until the page is as wide as `is_right` says, and returns its width.
async fn until_wide(chat: &Page, is_right: impl Fn(u64) -> bool) -> Outcome<u64> {
    until("the window has its size", async || {
        let width = chat.run("return innerWidth;", vec![]).await?;
        let width = width.as_u64().unwrap_or_default();
        let seen = Failure::Wrong(format!("{width} points"));
        is_right(width).then_some(Some(width)).ok_or(seen)
    })
    .await
}

/// Hides the chat, and waits until its frame is stored with this text.
async fn hide_and_store(setup: &TestSetup, stored: &str) -> Outcome {
    setup.desktop.press("ctrl+w")?;
    let file = setup.desktop.data().join("windows.json");
    until("the frame is stored", async || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let is_stored = text.contains(stored);
        is_stored.then_some(Some(())).ok_or(Failure::Wrong(text))
    })
    .await
}

#[tokio::test]
async fn a_resized_or_maximized_window_returns_as_it_was() {
    run_test("the_frame_of_a_window", async |setup| {
        let chat = open_in_window(setup).await?;
        let resize = ["getactivewindow", "windowsize", "900", "600"];
        setup.desktop.output("xdotool", &resize)?;
        until_wide(&chat, |width| width == 900).await?;
        hide_and_store(setup, "[900.0,600.0,").await?;

        setup.restart().await?;
        let chat = until_moved(setup, IN_WINDOW).await?;
        until_wide(&chat, |width| width == 900).await?;
        setup.desktop.press("super+m")?;
        until_wide(&chat, |width| width > 1200).await?;
        hide_and_store(setup, r#""maximized":["chat_window"]"#).await?;

        setup.restart().await?;
        let chat = until_moved(setup, IN_WINDOW).await?;
        until_wide(&chat, |width| width > 1200).await?;
        setup.desktop.press("super+m")?;
        let width = until_wide(&chat, |width| width <= 1200).await?;
        check(width == 900, || format!("it returned to {width} points"))
    })
    .await;
}
