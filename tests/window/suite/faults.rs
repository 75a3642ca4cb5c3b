//! Crashes: of the engine, of the app; and a second start.

use std::time::{Duration, Instant};

use transom_window_tests::models;
use transom_window_tests::processes;
use transom_window_tests::programs::ours;
use transom_window_tests::{Failure, check, on_stage, until};

use crate::talk;

#[tokio::test]
async fn a_killed_engine_costs_no_word_and_trying_again_works() {
    on_stage("a_killed_engine", async |stage| {
        models::add(&stage.desktop)?;
        let chat = stage.open().await?;
        models::choose(&chat, models::TALKATIVE).await?;
        talk::ask(&chat, "Tell me a story.").await?;
        let before = talk::until_written(&chat, 80).await?;
        let engines = stage.app()?.engines(&stage.desktop);
        check(!engines.is_empty(), || "no engine runs".into())?;
        for engine in engines {
            processes::kill(engine.pid);
        }
        chat.until_says("The model stopped unexpectedly").await?;
        let shown = talk::last_answer(&chat).await?;
        talk::check_kept(&talk::first_half(&before), &shown)?;

        chat.click("button", "^Try Again").await?;
        let again = talk::until_written(&chat, 40).await?;
        check(!again.is_empty(), || "nothing was written".into())?;
        chat.click("button", "^Stop").await?;
        talk::until_ended(&chat).await
    })
    .await;
}

#[tokio::test]
async fn after_the_app_was_killed_the_history_has_question_and_partial_answer() {
    on_stage("the_app_was_killed", async |stage| {
        models::add(&stage.desktop)?;
        let chat = stage.open().await?;
        models::choose(&chat, models::TALKATIVE).await?;
        talk::ask(&chat, "Tell me a story.").await?;
        // What was seen at some moment must be kept when the app dies more than a second later.
        let seen = talk::until_written(&chat, 60).await?;
        let at = Instant::now();
        until("more than a second has been written on", async || {
            talk::last_answer(&chat).await?;
            Ok((at.elapsed() > Duration::from_millis(1_300)).then_some(()))
        })
        .await?;
        stage.kill().await?;

        let chat = stage.open().await?;
        if talk::questions(&chat).await?.is_empty() {
            talk::open_from_history(&chat, "Tell me a story").await?;
        }
        let kept = talk::until_written(&chat, 1).await?;
        talk::check_kept(&talk::first_half(&seen), &kept)?;
        check(kept.len() + 4 >= seen.len(), || {
            format!("`{seen}` was shown a second before, and `{kept}` was kept")
        })?;
        let questions = talk::questions(&chat).await?;
        check(questions == ["Tell me a story."], || {
            format!("these questions are kept: {questions:?}")
        })?;
        chat.until_says("Interrupted when Transom quit").await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_second_start_shows_the_window_of_the_first() {
    on_stage("a_second_start", async |stage| {
        let chat = stage.open().await?;
        stage.desktop.press("Escape")?;
        until("Esc hides the chat", async || {
            Ok((!chat.has_keyboard().await?).then_some(()))
        })
        .await?;
        let mut second = stage.desktop.command(ours("transom-app")?);
        let mut second = second
            .spawn()
            .map_err(Failure::doing("start it a second time"))?;
        until("the chat is back in front", async || {
            Ok(chat.has_keyboard().await?.then_some(()))
        })
        .await?;
        until("the second one has ended", async || {
            let ended = second.try_wait();
            Ok(ended.map_err(Failure::doing("wait for it"))?.map(drop))
        })
        .await?;
        let running = stage.desktop.processes_named("transom-app");
        check(running.len() == 1, || format!("these run: {running:?}"))
    })
    .await;
}
