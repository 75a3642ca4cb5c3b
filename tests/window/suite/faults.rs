//! Crashes of the engine and of the app, and a second start.

use std::time::{Duration, Instant};

use transom_window_tests::models;
use transom_window_tests::processes;
use transom_window_tests::programs::ours;
use transom_window_tests::{Failure, check, run_test, until};

use crate::actions;

#[tokio::test]
async fn a_killed_engine_loses_no_text_and_a_retry_works() {
    run_test("a_killed_engine", async |setup| {
        models::add(&setup.desktop)?;
        let chat = setup.open().await?;
        models::choose(&chat, models::TALKATIVE).await?;
        actions::ask(&chat, "Tell me a story.").await?;
        let before = actions::until_written(&chat, 80).await?;
        let engines = setup.app()?.engines(&setup.desktop);
        check(!engines.is_empty(), || "no engine runs".into())?;
        for engine in engines {
            processes::kill(engine.pid);
        }
        chat.until_says("The model stopped unexpectedly").await?;
        let shown = actions::last_answer(&chat).await?;
        actions::check_kept(&actions::first_half(&before), &shown)?;

        chat.click("button", "^Try Again").await?;
        let again = actions::until_written(&chat, 40).await?;
        check(!again.is_empty(), || "nothing was written".into())?;
        chat.click("button", "^Stop").await?;
        actions::until_ended(&chat).await
    })
    .await;
}

#[tokio::test]
async fn a_killed_app_keeps_the_question_and_the_partial_response() {
    run_test("the_app_was_killed", async |setup| {
        models::add(&setup.desktop)?;
        let chat = setup.open().await?;
        models::choose(&chat, models::TALKATIVE).await?;
        actions::ask(&chat, "Tell me a story.").await?;
        // Text that was visible must be stored if the app dies more than a second later.
        let seen = actions::until_written(&chat, 60).await?;
        let at = Instant::now();
        until("more than a second has been written on", async || {
            actions::last_answer(&chat).await?;
            Ok((at.elapsed() > Duration::from_millis(1_300)).then_some(()))
        })
        .await?;
        setup.kill().await?;

        let chat = setup.open().await?;
        if actions::questions(&chat).await?.is_empty() {
            actions::open_from_history(&chat, "Tell me a story").await?;
        }
        let kept = actions::until_written(&chat, 1).await?;
        actions::check_kept(&actions::first_half(&seen), &kept)?;
        check(kept.len() + 4 >= seen.len(), || {
            format!("`{seen}` was shown a second before, and `{kept}` was kept")
        })?;
        let questions = actions::questions(&chat).await?;
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
    run_test("a_second_start", async |setup| {
        let chat = setup.open().await?;
        setup.desktop.press("Escape")?;
        until("Esc hides the chat", async || {
            Ok((!chat.has_keyboard().await?).then_some(()))
        })
        .await?;
        let mut second = setup.desktop.command(ours("transom-app")?);
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
        let running = setup.desktop.processes_named("transom-app");
        check(running.len() == 1, || format!("these run: {running:?}"))
    })
    .await;
}
