//! The quick prompt: a key anywhere, an answer in place, and back to where one was.

use transom_window_tests::page::keys;
use transom_window_tests::{Failure, Outcome, Page, Stage, check, on_stage, until};
use transom_window_tests::{models, processes};

use crate::talk;

/// The shortcut of the quick prompt where Option-Space is not usual.
const HOTKEY: &str = "ctrl+space";

/// Another program with a window that has the focus; returns the window.
async fn other_program(stage: &mut Stage) -> Outcome<String> {
    let before = stage.desktop.active_window()?;
    let program = stage.desktop.command("xev");
    stage
        .desktop
        .start_child(program, "start another program")?;
    until("another program has the focus", async || {
        let now = stage.desktop.active_window()?;
        Ok((!now.is_empty() && now != before).then_some(now))
    })
    .await
}

/// Presses the shortcut and waits for the prompt.
async fn open_prompt(stage: &Stage) -> Outcome<Page> {
    stage.desktop.press(HOTKEY)?;
    let prompt = stage.window("prompt").await?;
    until("the prompt takes keys", async || {
        let focused = prompt.focused().await?;
        let is_ready = focused.starts_with("textbox") && prompt.has_keyboard().await?;
        is_ready.then_some(Some(())).ok_or(Failure::Wrong(focused))
    })
    .await?;
    Ok(prompt)
}

async fn until_hidden(stage: &Stage, page: &Page) -> Outcome {
    until("the window is hidden", async || {
        let shown = page.run("return document.visibilityState;", vec![]).await?;
        let seen = Failure::Wrong(format!("{shown}, {}", stage.desktop.active_window()?));
        (shown == "hidden").then_some(Some(())).ok_or(seen)
    })
    .await
}

#[tokio::test]
async fn a_real_key_opens_the_quick_prompt_and_it_answers_in_place() {
    on_stage("quick_prompt_answers", async |stage| {
        let chat = stage.open().await?;
        other_program(stage).await?;
        // Whoever goes on in another program is done with the chat.
        until_hidden(stage, &chat).await?;
        let prompt = open_prompt(stage).await?;
        prompt.type_text("What is the capital of France?").await?;
        prompt.type_text(keys::ENTER).await?;
        prompt.until_says("Paris|capital of France is").await?;
        Ok(())
    })
    .await;
}

/// Points from the upper to the lower edge of a window's page.
async fn height(page: &Page) -> Outcome<f64> {
    let height = page.run("return window.innerHeight;", vec![]).await?;
    let wrong = || Failure::Wrong(format!("{height} is no height"));
    height.as_f64().ok_or_else(wrong)
}

#[tokio::test]
async fn the_quick_prompt_is_as_high_as_what_it_shows() {
    on_stage("quick_prompt_height", async |stage| {
        stage.open().await?;
        other_program(stage).await?;
        let prompt = open_prompt(stage).await?;
        let is_whole = async || {
            let script = "const part = document.querySelector('.view, .rest, .list');
                return part.firstElementChild.offsetHeight - part.clientHeight;";
            let missing = prompt.run(script, vec![]).await?.as_f64();
            let seen = Failure::Wrong(format!("{missing:?} points are missing"));
            let is_whole = missing.is_some_and(|missing| missing.abs() <= 1.0);
            is_whole.then_some(Some(())).ok_or(seen)
        };
        until("the saved prompts are wholly seen", is_whole).await?;
        let at_rest = height(&prompt).await?;
        prompt.type_text("What is the capital of France?").await?;
        prompt.type_text(keys::ENTER).await?;
        prompt.until_says("Paris|capital of France is").await?;
        until("the answer is wholly seen", is_whole).await?;
        let with_answer = height(&prompt).await?;
        check(with_answer < at_rest, || {
            format!("a short answer takes {with_answer} points, the list of prompts {at_rest}")
        })
    })
    .await;
}

#[tokio::test]
async fn the_quick_prompt_hands_off_to_the_chat() {
    on_stage("quick_prompt_hands_off", async |stage| {
        let chat = stage.open().await?;
        other_program(stage).await?;
        let prompt = open_prompt(stage).await?;
        prompt.type_text("What is the capital of France?").await?;
        prompt.type_text(keys::ENTER).await?;
        prompt.until_says("Paris|capital of France is").await?;
        // By key: the driver's click waits for the next frame of a page that is hidden by it.
        stage.desktop.press("ctrl+Return")?;
        until("the chat shows the exchange", async || {
            let questions = talk::questions(&chat).await?;
            let seen = Failure::Wrong(format!("{questions:?}"));
            let is_shown = questions == ["What is the capital of France?"];
            is_shown.then_some(Some(())).ok_or(seen)
        })
        .await?;
        until("the chat has the keyboard", async || {
            Ok(chat.has_keyboard().await?.then_some(()))
        })
        .await?;
        until_hidden(stage, &prompt).await
    })
    .await;
}

#[tokio::test]
async fn trying_again_in_the_quick_prompt_asks_no_second_time() {
    on_stage("quick_prompt_tries_again", async |stage| {
        models::add(&stage.desktop)?;
        let chat = stage.open().await?;
        models::choose(&chat, models::TALKATIVE).await?;
        other_program(stage).await?;
        let prompt = open_prompt(stage).await?;
        prompt.type_text("Tell me a story.").await?;
        prompt.type_text(keys::ENTER).await?;
        let answer = "return document.querySelector('.view .prose')?.innerText.length ?? 0;";
        let is_written = async || {
            let written = prompt.run(answer, vec![]).await?.as_u64();
            Ok(written.is_some_and(|written| written > 20).then_some(()))
        };
        until("an answer is written", is_written).await?;
        for engine in stage.app()?.engines(&stage.desktop) {
            processes::kill(engine.pid);
        }
        prompt.until_says("The model stopped unexpectedly").await?;
        prompt.click("button", "^Try Again$").await?;
        until("the failure is gone", async || {
            let is_shown = "return document.querySelector('.view .failure') !== null;";
            Ok((prompt.run(is_shown, vec![]).await? == false).then_some(()))
        })
        .await?;
        until("another answer is written", is_written).await?;
        stage.desktop.press("ctrl+period")?;
        prompt.by("button", "^Copy").await?;

        stage.desktop.press("ctrl+Return")?;
        chat.until_says("2 ?(/|of) ?2").await?;
        let questions = talk::questions(&chat).await?;
        check(questions == ["Tell me a story."], || {
            format!("these questions are stored: {questions:?}")
        })
    })
    .await;
}

#[tokio::test]
async fn the_quick_prompt_shows_its_exchange_again() {
    on_stage("quick_prompt_shows_again", async |stage| {
        stage.open().await?;
        let other = other_program(stage).await?;
        let prompt = open_prompt(stage).await?;
        prompt.type_text("What is the capital of France?").await?;
        prompt.type_text(keys::ENTER).await?;
        prompt.until_says("Paris|capital of France is").await?;
        prompt.by("button", "^Copy").await?;
        stage.desktop.press("Escape")?;
        until("the other program has the focus again", async || {
            let now = stage.desktop.active_window()?;
            (now == other)
                .then_some(Some(()))
                .ok_or(Failure::Wrong(now))
        })
        .await?;
        until_hidden(stage, &prompt).await?;
        let prompt = open_prompt(stage).await?;
        prompt.until_says("Paris|capital of France is").await?;
        prompt.type_text("And of Italy?").await?;
        prompt.type_text(keys::ENTER).await?;
        prompt.until_says("And of Italy").await?;
        prompt.by("button", "^Copy").await?;
        stage.desktop.press("ctrl+Return")?;
        let chat = stage.window("chat").await?;
        until("both questions are in one chat", async || {
            let questions = talk::questions(&chat).await?;
            let is_both = questions == ["What is the capital of France?", "And of Italy?"];
            let seen = Failure::Wrong(format!("{questions:?}"));
            is_both.then_some(Some(())).ok_or(seen)
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn escape_gives_the_focus_back_to_the_window_that_had_it() {
    on_stage("escape_gives_back", async |stage| {
        stage.open().await?;
        let other = other_program(stage).await?;
        for _ in 0..3 {
            let prompt = open_prompt(stage).await?;
            until(
                "the prompt has the focus as well as the keyboard",
                async || {
                    let now = stage.desktop.active_window()?;
                    Ok((now != other).then_some(()))
                },
            )
            .await?;
            stage.desktop.press("Escape")?;
            until("the other program has the focus again", async || {
                let now = stage.desktop.active_window()?;
                (now == other)
                    .then_some(Some(()))
                    .ok_or(Failure::Wrong(now))
            })
            .await?;
            until_hidden(stage, &prompt).await?;
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn beside_a_pinned_chat_escape_gives_the_focus_back_too() {
    on_stage("escape_beside_a_pinned_chat", async |stage| {
        let chat = stage.open().await?;
        chat.click("button", "^Pin window").await?;
        let other = other_program(stage).await?;
        let prompt = open_prompt(stage).await?;
        stage.desktop.press("Escape")?;
        until_hidden(stage, &prompt).await?;
        until("the other program has the focus again", async || {
            let now = stage.desktop.active_window()?;
            (now == other)
                .then_some(Some(()))
                .ok_or(Failure::Wrong(now))
        })
        .await?;
        let shown = chat.run("return document.visibilityState;", vec![]).await?;
        check(shown == "visible", || format!("the chat is {shown}"))
    })
    .await;
}
