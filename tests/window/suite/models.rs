//! Selecting and unloading models.

use transom_window_tests::models;
use transom_window_tests::{Failure, check, run_test, until};

use crate::actions;

#[tokio::test]
async fn a_selected_model_writes_the_next_response() {
    run_test("another_model", async |setup| {
        models::add(&setup.desktop)?;
        let chat = setup.open().await?;
        actions::ask_to_the_end(&chat, "What is the capital of France?").await?;
        models::choose(&chat, models::SECOND).await?;
        actions::ask_to_the_end(&chat, "What is the capital of Italy?").await?;
        chat.by("article", "^Response from Second").await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn ejecting_frees_the_memory_and_says_so() {
    run_test("ejecting", async |setup| {
        let chat = setup.open().await?;
        actions::ask_to_the_end(&chat, "What is a haiku?").await?;
        let engines = setup.app()?.engines(&setup.desktop);
        check(engines.len() == 1, || format!("no engine: {engines:?}"))?;
        chat.click("button", "^Model: ").await?;
        chat.click("menuitem", "^Eject").await?;
        chat.until_says(r"Unloaded · \d[\d.,]*\s?.B freed").await?;
        until("the engine's process is gone", async || {
            let engines = setup.app()?.engines(&setup.desktop);
            let left = Failure::Wrong(format!("{engines:?}"));
            engines.is_empty().then_some(Some(())).ok_or(left)
        })
        .await
    })
    .await;
}
