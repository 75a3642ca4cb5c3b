//! The model and settings of single chats, assistants, and printing.

use serde_json::json;
use transom_window_tests::models;
use transom_window_tests::page::keys;
use transom_window_tests::{Failure, Outcome, Page, check, run_test, until};

use crate::actions;
use crate::prompt::open_prompt;

const INSTRUCTIONS: &str = "Always answer in one word.";

/// Opens the settings of the chat, and returns its instructions.
async fn open_panel(chat: &Page) -> Outcome<String> {
    chat.click("button", "^Chat settings").await?;
    let field = chat.by("textbox", "^Instructions$").await?;
    Ok(field.prop("value").await?.unwrap_or_default())
}

/// Closes the settings of the chat with a key.
async fn close_panel(chat: &Page) -> Outcome {
    let field = chat.by("textbox", "^Instructions$").await?;
    field.send_keys(keys::ESCAPE).await?;
    chat.until_gone("dialog", "^Chat settings").await
}

/// Regenerates the response as its `version`, and returns the number of tokens in the prompt.
async fn prompt_tokens(chat: &Page, version: u32) -> Outcome<u64> {
    chat.click("button", "^Regenerate$").await?;
    chat.until_says(&format!("{version} ?(/|of) ?{version}"))
        .await?;
    actions::until_ended(chat).await?;
    chat.click("button", "^Details$").await?;
    let says = chat.until_says(r"\d+ prompt tokens").await?;
    let before = says.split(" prompt tokens").next().unwrap_or_default();
    let digits = before
        .rsplit(|letter: char| !letter.is_ascii_digit())
        .next();
    let digits = digits.unwrap_or_default();
    digits.parse().map_err(Failure::doing("read a number"))
}

/// Checks the settings of the two chats of the test below.
async fn check_both(chat: &Page) -> Outcome {
    actions::open_from_history(chat, "What is the capital").await?;
    chat.by("button", &format!("^Model: {}", models::SECOND))
        .await?;
    let kept = open_panel(chat).await?;
    close_panel(chat).await?;
    check(kept == INSTRUCTIONS, || {
        format!("the instructions are `{kept}`")
    })?;
    actions::open_from_history(chat, "How does").await?;
    chat.by("button", "^Model: Starter").await?;
    chat.by("button", "^Chat settings$").await.map(drop)
}

#[tokio::test]
async fn a_chat_keeps_its_model_and_its_instructions() {
    run_test("chat_settings", async |setup| {
        models::add(&setup.desktop)?;
        let chat = setup.open().await?;
        actions::ask_to_the_end(&chat, "What is the capital of France?").await?;
        let before = prompt_tokens(&chat, 2).await?;
        open_panel(&chat).await?;
        let field = chat.by("textbox", "^Instructions$").await?;
        field.send_keys(INSTRUCTIONS).await?;
        close_panel(&chat).await?;
        chat.by("button", r"^Chat settings \(changed\)$").await?;
        let after = prompt_tokens(&chat, 3).await?;
        check(after > before, || {
            format!("the prompt had {before} tokens, and {after} with instructions")
        })?;

        models::choose(&chat, models::SECOND).await?;
        chat.click("button", "^New chat$").await?;
        chat.by("button", "^Chat settings$").await?;
        models::choose(&chat, "Starter").await?;
        actions::ask_to_the_end(&chat, "How does a bicycle stay upright?").await?;

        check_both(&chat).await?;
        let chat = setup.restart().await?;
        check_both(&chat).await
    })
    .await;
}

#[tokio::test]
async fn an_assistant_responds_in_the_quick_prompt() {
    run_test("assistant", async |setup| {
        let chat = setup.open().await?;
        setup.desktop.follow("transom://settings").await?;
        let settings = setup.window("settings").await?;
        settings.click("tab", "^General$").await?;
        settings.click("button", "^Add Assistant$").await?;
        let field = settings.by("textbox", "^Instructions$").await?;
        field.send_keys(INSTRUCTIONS).await?;
        // Leaving the field saves it.
        let leave = "document.activeElement.blur(); window.dispatchEvent(new Event('blur'));";
        settings.run(leave, vec![]).await?;

        let prompt = open_prompt(setup).await?;
        until("the quick prompt offers the assistant", async || {
            let choose = "const menu = document.querySelector('.assistant select');
                if (!menu) return '';
                menu.value = arguments[0];
                menu.dispatchEvent(new Event('change', { bubbles: true }));
                return menu.value;";
            let chosen = prompt.run(choose, vec![json!("New assistant")]).await?;
            Ok((chosen == "New assistant").then_some(()))
        })
        .await?;
        prompt.css("textarea").await?.click().await?;
        prompt.type_text("What is the capital of France?").await?;
        prompt.type_text(keys::ENTER).await?;
        prompt.by("button", "^Copy").await?;
        setup.desktop.press("ctrl+Return")?;
        until("the chat shows the exchange", async || {
            let questions = actions::questions(&chat).await?;
            let seen = Failure::Wrong(format!("{questions:?}"));
            let is_shown = questions == ["What is the capital of France?"];
            is_shown.then_some(Some(())).ok_or(seen)
        })
        .await?;
        let instructions = open_panel(&chat).await?;
        check(instructions == INSTRUCTIONS, || {
            format!("the instructions are `{instructions}`")
        })
    })
    .await;
}

#[tokio::test]
async fn a_chat_is_printed_as_a_whole() {
    run_test("printing", async |setup| {
        let chat = setup.open().await?;
        actions::ask_to_the_end(&chat, "What is the capital of France?").await?;
        let before = setup.desktop.active_window()?;
        setup.desktop.press("ctrl+p")?;
        until("the whole chat is drawn for the printer", async || {
            let parts = "return document.querySelectorAll('.print-view section').length;";
            Ok((chat.run(parts, vec![]).await? == 2).then_some(()))
        })
        .await?;
        until("the dialog of the system is open", async || {
            let now = setup.desktop.active_window()?;
            Ok((!now.is_empty() && now != before).then_some(()))
        })
        .await?;
        setup.desktop.press("Escape")?;
        until("the chat has the keyboard again", async || {
            Ok(chat.has_keyboard().await?.then_some(()))
        })
        .await?;
        setup.desktop.press("h")?;
        until("the page is as before", async || {
            let view = "return document.querySelector('.print-view');";
            Ok(chat.run(view, vec![]).await?.is_null().then_some(()))
        })
        .await
    })
    .await;
}
