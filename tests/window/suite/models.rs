//! Choosing a model, and giving its memory back.

use transom_window_tests::models;
use transom_window_tests::{Failure, check, on_stage, until};

use crate::talk;

#[tokio::test]
async fn another_model_answers_after_it_was_chosen() {
    on_stage("another_model", async |stage| {
        models::add(&stage.desktop)?;
        let chat = stage.open().await?;
        talk::ask_to_the_end(&chat, "What is the capital of France?").await?;
        models::choose(&chat, models::SECOND).await?;
        talk::ask_to_the_end(&chat, "What is the capital of Italy?").await?;
        chat.by("article", "^Response from Second").await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn ejecting_gives_the_memory_back_and_says_so() {
    on_stage("ejecting", async |stage| {
        let chat = stage.open().await?;
        talk::ask_to_the_end(&chat, "What is a haiku?").await?;
        let engines = stage.app()?.engines(&stage.desktop);
        check(engines.len() == 1, || format!("no engine: {engines:?}"))?;
        chat.click("button", "^Model: ").await?;
        chat.click("menuitem", "^Eject").await?;
        chat.until_says(r"Unloaded · \d[\d.,]*\s?.B freed").await?;
        until("the engine's process is gone", async || {
            let engines = stage.app()?.engines(&stage.desktop);
            let left = Failure::Wrong(format!("{engines:?}"));
            engines.is_empty().then_some(Some(())).ok_or(left)
        })
        .await
    })
    .await;
}
