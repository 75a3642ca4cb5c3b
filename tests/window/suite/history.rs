//! Searching, renaming, pinning and deleting chats.

use transom_window_tests::page::keys;
use transom_window_tests::{Failure, Outcome, Page, TestSetup, check, run_test, until};

use crate::actions::{self, show_history};

/// Creates two chats and shows the newer one.
async fn two_chats(setup: &mut TestSetup) -> Outcome<Page> {
    let chat = setup.open().await?;
    actions::ask_to_the_end(&chat, "What is the capital of France?").await?;
    chat.click("button", "^New chat").await?;
    actions::ask_to_the_end(&chat, "How does a bicycle stay upright?").await?;
    show_history(&chat).await?;
    actions::until_listed(&chat, "How does", true).await?;
    Ok(chat)
}

#[tokio::test]
async fn search_finds_a_chat_by_a_word_in_it() {
    run_test("search", async |setup| {
        let chat = two_chats(setup).await?;
        let search = chat.by("textbox", "^Search$").await?;
        search.send_keys("france").await?;
        actions::until_listed(&chat, "How does", false).await?;
        actions::open_from_history(&chat, "What is the capital").await?;
        chat.until_says("capital of France").await?;
        show_history(&chat).await?;
        let search = chat.by("textbox", "^Search$").await?;
        search.clear().await?;
        search.send_keys("xylophone").await?;
        chat.until_says("No results for").await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn clearing_the_history_deletes_drafts() {
    run_test("clearing_the_history", async |setup| {
        let chat = setup.open().await?;
        actions::ask_to_the_end(&chat, "What is the capital of France?").await?;
        let composer = chat.by("textbox", "^Message$").await?;
        composer.send_keys("An unsent secret").await?;
        chat.run("document.activeElement.blur();", vec![]).await?;
        let kept = "return localStorage.getItem('transom.drafts') ?? '';";
        until("the draft is kept", async || {
            let kept = chat.run(kept, vec![]).await?;
            Ok(kept
                .as_str()
                .unwrap_or_default()
                .contains("secret")
                .then_some(()))
        })
        .await?;

        setup.desktop.follow("transom://settings").await?;
        let settings = setup.window("settings").await?;
        settings.click("tab", "^General$").await?;
        settings.click("button", "^Clear History").await?;
        settings.click("button", "^Delete All$").await?;
        settings.until_says("History cleared").await?;
        until("the chat is empty, and so is the composer", async || {
            let text = "return document.querySelector('textarea').value;";
            let text = chat.run(text, vec![]).await?;
            let questions = actions::questions(&chat).await?;
            let seen = Failure::Wrong(format!("{questions:?}, {text}"));
            let is_empty = questions.is_empty() && text == "";
            is_empty.then_some(Some(())).ok_or(seen)
        })
        .await?;
        let kept = chat.run(kept, vec![]).await?;
        check(kept == "[]", || format!("drafts are kept: {kept}"))
    })
    .await;
}

#[tokio::test]
async fn a_chat_is_renamed_pinned_and_deleted() {
    run_test("renamed_pinned_deleted", async |setup| {
        let chat = two_chats(setup).await?;
        actions::choose(&chat, "France", "^Rename").await?;
        let title = chat.by("textbox", "^Chat title").await?;
        // The whole old title is selected.
        title.send_keys("Cities").await?;
        title.send_keys(keys::ENTER).await?;
        actions::until_listed(&chat, "Cities", true).await?;

        actions::choose(&chat, "Cities", "^Pin").await?;
        chat.until_says("Pinned").await?;

        // Everything is kept after a restart.
        let chat = setup.restart().await?;
        show_history(&chat).await?;
        chat.until_says("Pinned\\s+Cities").await?;

        actions::choose(&chat, "Cities", "^Delete").await?;
        actions::until_listed(&chat, "Cities", false).await?;
        chat.click("button", "^Undo$").await?;
        actions::until_listed(&chat, "Cities", true).await?;
        actions::choose(&chat, "Cities", "^Delete").await?;
        actions::until_listed(&chat, "Cities", false).await?;
        // Quitting finishes the deletion.
        let chat = setup.restart().await?;
        show_history(&chat).await?;
        actions::until_listed(&chat, "How does", true).await?;
        actions::until_listed(&chat, "Cities", false).await
    })
    .await;
}

#[tokio::test]
async fn a_temporary_chat_ends_when_it_is_left() {
    run_test("temporary_chat", async |setup| {
        let chat = setup.open().await?;
        show_history(&chat).await?;
        chat.click("button", "^More options$").await?;
        chat.click("menuitem", "^New Temporary Chat$").await?;
        chat.until_says("Temporary chat").await?;
        actions::ask_to_the_end(&chat, "What is the capital of France?").await?;
        show_history(&chat).await?;
        chat.until_says("Your chats appear here").await?;
        chat.click("button", "^New chat$").await?;
        until("the temporary chat is gone", async || {
            let questions = actions::questions(&chat).await?;
            let seen = Failure::Wrong(format!("{questions:?}"));
            questions.is_empty().then_some(Some(())).ok_or(seen)
        })
        .await?;
        let chat = setup.restart().await?;
        show_history(&chat).await?;
        chat.until_says("Your chats appear here").await.map(drop)
    })
    .await;
}
