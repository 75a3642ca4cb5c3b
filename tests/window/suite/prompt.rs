//! The quick prompt: opened by a shortcut, responds in place, and restores the focus.

use transom_signals::Hardware;
use transom_signals::test_support::skipped;
use transom_window_tests::page::keys;
use transom_window_tests::{Failure, Outcome, Page, TestSetup, check, run_test, until};
use transom_window_tests::{models, processes};

use crate::actions;

/// The quick prompt's default shortcut on Linux.
const HOTKEY: &str = "ctrl+space";

/// A computer with at least this memory makes the page of the prompt before the first call.
const MEMORY_TO_PREPARE: u64 = 15 << 30;

/// Starts another program with a focused window, and returns the window.
async fn other_program(setup: &mut TestSetup) -> Outcome<String> {
    let before = setup.desktop.active_window()?;
    let program = setup.desktop.command("xev");
    setup
        .desktop
        .start_child(program, "start another program")?;
    until("another program has the focus", async || {
        let now = setup.desktop.active_window()?;
        Ok((!now.is_empty() && now != before).then_some(now))
    })
    .await
}

/// Presses the shortcut and waits for the prompt.
pub(crate) async fn open_prompt(setup: &TestSetup) -> Outcome<Page> {
    setup.desktop.press(HOTKEY)?;
    let prompt = setup.window("prompt").await?;
    until("the prompt takes keys", async || {
        let focused = prompt.focused().await?;
        let is_ready = focused.starts_with("textbox") && prompt.has_keyboard().await?;
        is_ready.then_some(Some(())).ok_or(Failure::Wrong(focused))
    })
    .await?;
    Ok(prompt)
}

/// Waits until the keys go to a page.
pub(crate) async fn until_keyboard(page: &Page) -> Outcome {
    until("the page has the keyboard", async || {
        Ok(page.has_keyboard().await?.then_some(()))
    })
    .await
}

async fn until_hidden(setup: &TestSetup, page: &Page) -> Outcome {
    until("the window is hidden", async || {
        let shown = page.run("return document.visibilityState;", vec![]).await?;
        let seen = Failure::Wrong(format!("{shown}, {}", setup.desktop.active_window()?));
        (shown == "hidden").then_some(Some(())).ok_or(seen)
    })
    .await
}

#[tokio::test]
async fn a_real_key_opens_the_quick_prompt_which_responds_in_place() {
    run_test("quick_prompt_answers", async |setup| {
        let chat = setup.open().await?;
        other_program(setup).await?;
        // Using another program hides the chat.
        until_hidden(setup, &chat).await?;
        let prompt = open_prompt(setup).await?;
        prompt.type_text("What is the capital of France?").await?;
        prompt.type_text(keys::ENTER).await?;
        prompt.until_says("Paris|capital of France is").await?;
        Ok(())
    })
    .await;
}

/// Returns the height of a window's page in points.
async fn height(page: &Page) -> Outcome<f64> {
    let height = page.run("return window.innerHeight;", vec![]).await?;
    let wrong = || Failure::Wrong(format!("{height} is no height"));
    height.as_f64().ok_or_else(wrong)
}

#[tokio::test]
async fn the_quick_prompt_fits_its_content() {
    run_test("quick_prompt_height", async |setup| {
        setup.open().await?;
        other_program(setup).await?;
        let prompt = open_prompt(setup).await?;
        let is_whole = async || {
            let script = "const part = document.querySelector('.view, .rest, .list');
                return part.firstElementChild.offsetHeight - part.clientHeight;";
            let missing = prompt.run(script, vec![]).await?.as_f64();
            let seen = Failure::Wrong(format!("{missing:?} points are missing"));
            let is_whole = missing.is_some_and(|missing| missing.abs() <= 1.0);
            is_whole.then_some(Some(())).ok_or(seen)
        };
        until("the prompt is as tall as its line", async || {
            is_whole().await?;
            let now = height(&prompt).await?;
            let seen = Failure::Wrong(format!("it is {now} points tall"));
            (now < 70.0).then_some(Some(())).ok_or(seen)
        })
        .await?;
        let at_rest = height(&prompt).await?;
        prompt.type_text("What is the capital of France?").await?;
        prompt.type_text(keys::ENTER).await?;
        prompt.until_says("Paris|capital of France is").await?;
        until("the answer is wholly seen", is_whole).await?;
        let with_answer = height(&prompt).await?;
        check(with_answer > at_rest, || {
            format!("a short answer takes {with_answer} points, the line {at_rest}")
        })
    })
    .await;
}

#[tokio::test]
async fn the_quick_prompt_continues_in_the_chat() {
    run_test("quick_prompt_hands_off", async |setup| {
        let chat = setup.open().await?;
        other_program(setup).await?;
        let prompt = open_prompt(setup).await?;
        prompt.type_text("What is the capital of France?").await?;
        prompt.type_text(keys::ENTER).await?;
        prompt.until_says("Paris|capital of France is").await?;
        // By key, because the driver's click waits for the next frame of a page that the click
        // hides.
        setup.desktop.press("ctrl+Return")?;
        until("the chat shows the exchange", async || {
            let questions = actions::questions(&chat).await?;
            let seen = Failure::Wrong(format!("{questions:?}"));
            let is_shown = questions == ["What is the capital of France?"];
            is_shown.then_some(Some(())).ok_or(seen)
        })
        .await?;
        until_keyboard(&chat).await?;
        until_hidden(setup, &prompt).await
    })
    .await;
}

#[tokio::test]
async fn a_pinned_quick_prompt_leaves_the_keyboard_to_the_chat() {
    run_test("quick_prompt_pinned_hands_off", async |setup| {
        let chat = setup.open().await?;
        other_program(setup).await?;
        let prompt = open_prompt(setup).await?;
        setup.desktop.press("ctrl+shift+p")?;
        prompt.by("button", "^Unpin window$").await?;
        setup.desktop.press("ctrl+Return")?;
        until_hidden(setup, &prompt).await?;
        until_keyboard(&chat).await?;
        setup.desktop.press("x")?;
        until("the key arrives in the chat", async || {
            let script = "return document.querySelector('textarea').value;";
            let typed = chat.run(script, vec![]).await?;
            let seen = Failure::Wrong(format!("{typed} is typed"));
            (typed == "x").then_some(Some(())).ok_or(seen)
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn a_retry_in_the_quick_prompt_stores_the_question_once() {
    run_test("quick_prompt_tries_again", async |setup| {
        models::add(&setup.desktop)?;
        let chat = setup.open().await?;
        models::choose(&chat, models::TALKATIVE).await?;
        other_program(setup).await?;
        let prompt = open_prompt(setup).await?;
        prompt.type_text("Tell me a story.").await?;
        prompt.type_text(keys::ENTER).await?;
        let answer = "return document.querySelector('.view .prose')?.innerText.length ?? 0;";
        let is_written = async || {
            let written = prompt.run(answer, vec![]).await?.as_u64();
            Ok(written.is_some_and(|written| written > 20).then_some(()))
        };
        until("a response is written", is_written).await?;
        for engine in setup.app()?.engines(&setup.desktop) {
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
        setup.desktop.press("ctrl+period")?;
        prompt.by("button", "^Copy").await?;

        setup.desktop.press("ctrl+Return")?;
        chat.until_says("2 ?(/|of) ?2").await?;
        let questions = actions::questions(&chat).await?;
        check(questions == ["Tell me a story."], || {
            format!("these questions are stored: {questions:?}")
        })
    })
    .await;
}

#[tokio::test]
async fn the_quick_prompt_shows_its_last_exchange_again() {
    run_test("quick_prompt_shows_again", async |setup| {
        setup.open().await?;
        let other = other_program(setup).await?;
        let prompt = open_prompt(setup).await?;
        prompt.type_text("What is the capital of France?").await?;
        prompt.type_text(keys::ENTER).await?;
        prompt.until_says("Paris|capital of France is").await?;
        prompt.by("button", "^Copy").await?;
        setup.desktop.press("Escape")?;
        until("the other program has the focus again", async || {
            let now = setup.desktop.active_window()?;
            (now == other)
                .then_some(Some(()))
                .ok_or(Failure::Wrong(now))
        })
        .await?;
        until_hidden(setup, &prompt).await?;
        let prompt = open_prompt(setup).await?;
        prompt.until_says("Paris|capital of France is").await?;
        prompt.type_text("And of Italy?").await?;
        prompt.type_text(keys::ENTER).await?;
        prompt.until_says("And of Italy").await?;
        prompt.by("button", "^Copy").await?;
        setup.desktop.press("ctrl+Return")?;
        let chat = setup.window("chat").await?;
        until("both questions are in one chat", async || {
            let questions = actions::questions(&chat).await?;
            let is_both = questions == ["What is the capital of France?", "And of Italy?"];
            let seen = Failure::Wrong(format!("{questions:?}"));
            is_both.then_some(Some(())).ok_or(seen)
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn calling_the_quick_prompt_loads_the_model() {
    run_test("quick_prompt_loads", async |setup| {
        setup.open().await?;
        let engines = setup.app()?.engines(&setup.desktop);
        check(engines.is_empty(), || format!("{engines:?} run already"))?;
        open_prompt(setup).await?;
        until("the model has a process", async || {
            let engines = setup.app()?.engines(&setup.desktop);
            Ok((!engines.is_empty()).then_some(()))
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn a_pinned_quick_prompt_stays_when_another_program_gets_the_focus() {
    run_test("quick_prompt_pinned", async |setup| {
        let chat = setup.open().await?;
        let prompt = open_prompt(setup).await?;
        setup.desktop.press("ctrl+shift+p")?;
        prompt.by("button", "^Unpin window$").await?;
        setup.desktop.follow("transom://chat").await?;
        until_keyboard(&chat).await?;
        other_program(setup).await?;
        // The chat lost the focus after the prompt, so the prompt would be hidden too.
        until_hidden(setup, &chat).await?;
        let shown = prompt
            .run("return document.visibilityState;", vec![])
            .await?;
        check(shown == "visible", || format!("the prompt is {shown}"))?;

        setup.desktop.follow("transom://prompt").await?;
        until_keyboard(&prompt).await?;
        setup.desktop.press("ctrl+shift+p")?;
        prompt.by("button", "^Pin window$").await?;
        other_program(setup).await?;
        until_hidden(setup, &prompt).await
    })
    .await;
}

#[tokio::test]
async fn the_page_of_the_quick_prompt_is_made_before_the_first_call() {
    if Hardware::detect().memory_bytes < MEMORY_TO_PREPARE {
        return skipped("the page of the quick prompt is made ahead only with 16 GB of memory");
    }
    run_test("quick_prompt_made_ahead", async |setup| {
        let chat = setup.open().await?;
        until_keyboard(&chat).await?;
        let prompt = setup.window("prompt").await?;
        until_hidden(setup, &prompt).await?;
        let has_keyboard = chat.has_keyboard().await?;
        check(has_keyboard, || "it took the keyboard".into())?;
        open_prompt(setup).await.map(drop)
    })
    .await;
}

#[tokio::test]
async fn escape_returns_the_focus_to_the_previous_window() {
    run_test("escape_gives_back", async |setup| {
        setup.open().await?;
        let other = other_program(setup).await?;
        for _ in 0..3 {
            let prompt = open_prompt(setup).await?;
            until(
                "the prompt has the focus as well as the keyboard",
                async || {
                    let now = setup.desktop.active_window()?;
                    Ok((now != other).then_some(()))
                },
            )
            .await?;
            setup.desktop.press("Escape")?;
            until("the other program has the focus again", async || {
                let now = setup.desktop.active_window()?;
                (now == other)
                    .then_some(Some(()))
                    .ok_or(Failure::Wrong(now))
            })
            .await?;
            until_hidden(setup, &prompt).await?;
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn escape_returns_the_focus_next_to_a_pinned_chat() {
    run_test("escape_beside_a_pinned_chat", async |setup| {
        let chat = setup.open().await?;
        chat.click("button", "^Pin window").await?;
        // Until the setting is stored, the chat hides when another program gets the focus.
        chat.by("button", "^Unpin window$").await?;
        let other = other_program(setup).await?;
        let prompt = open_prompt(setup).await?;
        setup.desktop.press("Escape")?;
        until_hidden(setup, &prompt).await?;
        until("the other program has the focus again", async || {
            let now = setup.desktop.active_window()?;
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
