//! Asking, stopping, regenerating and editing.

use transom_window_tests::models;
use transom_window_tests::page::keys;
use transom_window_tests::{Failure, Outcome, Page, check, run_test, until};

use crate::actions;

#[tokio::test]
async fn the_chat_opens_with_the_focus_in_the_composer() {
    run_test("the_chat_opens", async |setup| {
        let chat = setup.open().await?;
        until("the composer has the focus", async || {
            let focused = chat.focused().await?;
            let is_ready = focused == "textbox: Message" && chat.has_keyboard().await?;
            is_ready.then_some(Some(())).ok_or(Failure::Wrong(focused))
        })
        .await?;
        // Real keys arrive too, so the window has the focus, not only the page.
        setup.desktop.press("h")?;
        until("a real key arrives in the composer", async || {
            let typed = chat
                .run("return document.activeElement.value;", vec![])
                .await?;
            Ok((typed == "h").then_some(()))
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn keys_go_to_the_composer_after_the_welcome() {
    run_test("after_the_welcome", async |setup| {
        let chat = setup.open_as_new().await?;
        chat.click("button", "^Try the Tiny Demo Model$").await?;
        until("the composer has the focus", async || {
            let focused = chat.focused().await?;
            let is_ready = focused == "textbox: Message" && chat.has_keyboard().await?;
            is_ready.then_some(Some(())).ok_or(Failure::Wrong(focused))
        })
        .await?;
        setup.desktop.press("question")?;
        setup.desktop.press("h")?;
        until("what is typed is in the composer", async || {
            let typed = chat
                .run("return document.activeElement.value;", vec![])
                .await?;
            let seen = Failure::Wrong(format!("{typed}"));
            (typed == "?h").then_some(Some(())).ok_or(seen)
        })
        .await?;
        check(chat.find("dialog", "").await?.is_none(), || {
            "a question mark opened a dialog".into()
        })
    })
    .await;
}

/// Returns the scroll position of the transcript.
async fn scrolled(chat: &Page) -> Outcome<f64> {
    let top = chat
        .run("return document.querySelector('.view').scrollTop;", vec![])
        .await?;
    let wrong = || Failure::Wrong(format!("{top} is no place"));
    top.as_f64().ok_or_else(wrong)
}

#[tokio::test]
async fn scrolling_up_during_a_response_keeps_the_position() {
    run_test("scrolling_up", async |setup| {
        models::add(&setup.desktop)?;
        let chat = setup.open().await?;
        models::choose(&chat, models::TALKATIVE).await?;
        // Long enough to fill the window by itself.
        let question = format!("Tell me a story. {}", "It has a fox and a hen. ".repeat(55));
        actions::ask(&chat, &question).await?;
        actions::until_written(&chat, 1).await?;
        until("the chat is longer than the window", async || {
            let more = "const view = document.querySelector('.view');
                return view ? view.scrollHeight - view.clientHeight : 0;";
            let more = chat.run(more, vec![]).await?.as_f64().unwrap_or_default();
            let seen = Failure::Wrong(format!("{more} points more"));
            (more > 100.0).then_some(Some(())).ok_or(seen)
        })
        .await?;
        let up = "document.querySelector('.view').scrollTop = 20;";
        chat.run(up, vec![]).await?;
        chat.by("button", "^Jump to latest").await?;
        // By key, because the response may just have ended.
        setup.desktop.press("ctrl+period")?;
        actions::until_ended(&chat).await?;

        // A new title makes the whole window reload the chat.
        chat.click("button", "^Tell me a story").await?;
        chat.type_text("A long one").await?;
        chat.type_text(keys::ENTER).await?;
        actions::show_history(&chat).await?;
        actions::until_listed(&chat, "A long one", true).await?;
        let top = scrolled(&chat).await?;
        check((top - 20.0).abs() < 2.0, || {
            format!("the reader was at 20 points and is at {top}")
        })
    })
    .await;
}

#[tokio::test]
async fn a_response_streams_in_steps_and_is_complete_at_the_end() {
    run_test("an_answer_streams", async |setup| {
        models::add(&setup.desktop)?;
        let chat = setup.open().await?;
        models::choose(&chat, models::TALKATIVE).await?;
        actions::ask(&chat, "What is the capital of France?").await?;
        let mut steps = Vec::new();
        while steps.len() < 4 {
            let longer = steps
                .last()
                .map_or(1, |text: &String| text.chars().count() + 1);
            steps.push(actions::until_written(&chat, longer).await?);
        }
        check(chat.find("button", "^Stop").await?.is_some(), || {
            "it should still be writing".into()
        })?;
        chat.click("button", "^Stop").await?;
        actions::until_ended(&chat).await?;
        let answer = actions::last_answer(&chat).await?;
        actions::check_kept(&steps[0], &answer)
    })
    .await;
}

#[tokio::test]
async fn stopping_keeps_the_text() {
    run_test("stopping_keeps", async |setup| {
        models::add(&setup.desktop)?;
        let chat = setup.open().await?;
        models::choose(&chat, models::TALKATIVE).await?;
        actions::ask(&chat, "Tell me a story.").await?;
        let before = actions::until_written(&chat, 60).await?;
        setup.desktop.press("ctrl+period")?;
        actions::until_ended(&chat).await?;
        let kept = actions::last_answer(&chat).await?;
        actions::check_kept(&actions::first_half(&before), &kept)?;
        chat.until_says(r"Stopped\.").await?;

        let kept = actions::last_answer(&chat).await?;
        let chat = setup.restart().await?;
        actions::open_from_history(&chat, "Tell me a story").await?;
        actions::check_kept(&kept, &actions::until_written(&chat, 1).await?)
    })
    .await;
}

#[tokio::test]
async fn regenerating_keeps_the_old_response_as_a_branch() {
    run_test("answering_again", async |setup| {
        let chat = setup.open().await?;
        let first = actions::ask_to_the_end(&chat, "What is a haiku?").await?;
        chat.click("button", "^Regenerate$").await?;
        chat.until_says("2 ?(/|of) ?2").await?;
        actions::until_ended(&chat).await?;
        let second = actions::last_answer(&chat).await?;

        chat.click("button", "^Previous version").await?;
        chat.until_says("1 ?(/|of) ?2").await?;
        until("the first answer is back", async || {
            Ok((actions::last_answer(&chat).await? == first).then_some(()))
        })
        .await?;
        chat.click("button", "^Next version").await?;
        until("the second answer is back", async || {
            Ok((actions::last_answer(&chat).await? == second).then_some(()))
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn editing_a_message_creates_a_branch_with_a_response() {
    run_test("editing", async |setup| {
        let chat = setup.open().await?;
        actions::ask_to_the_end(&chat, "What is the capital of France?").await?;
        chat.click("button", "^Edit$").await?;
        let editor = chat.by("textbox", "^Edit your message").await?;
        editor.clear().await?;
        editor.send_keys("What is the capital of Italy?").await?;
        editor.send_keys(keys::ENTER).await?;
        until("the new question is shown", async || {
            let questions = actions::questions(&chat).await?;
            Ok((questions == ["What is the capital of Italy?"]).then_some(()))
        })
        .await?;
        actions::until_written(&chat, 1).await?;
        actions::until_ended(&chat).await?;
        chat.click("button", "^Previous version").await?;
        until("the old question is back", async || {
            let questions = actions::questions(&chat).await?;
            Ok((questions == ["What is the capital of France?"]).then_some(()))
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn the_find_bar_marks_a_match_and_the_zoom_is_remembered() {
    run_test("find_and_zoom", async |setup| {
        let chat = setup.open().await?;
        actions::ask_to_the_end(&chat, "What is the capital of France?").await?;
        setup.desktop.press("ctrl+f")?;
        until("the find bar has the focus", async || {
            let focused = chat.focused().await?;
            let is_ready = focused == "textbox: Find in chat";
            is_ready.then_some(Some(())).ok_or(Failure::Wrong(focused))
        })
        .await?;
        chat.type_text("capital of").await?;
        chat.until_says("1 of [1-9]").await?;
        setup.desktop.press("Escape")?;
        chat.until_gone("textbox", "^Find in chat").await?;
        let width = "return innerWidth;";
        let before = chat.run(width, vec![]).await?;
        setup.desktop.press("ctrl+equal")?;
        until("the page is larger", async || {
            Ok((chat.run(width, vec![]).await? != before).then_some(()))
        })
        .await?;
        let larger = chat.run(width, vec![]).await?;
        let chat = setup.restart().await?;
        until("the page is larger after a restart", async || {
            let now = chat.run(width, vec![]).await?;
            let seen = Failure::Wrong(format!("{now} instead of {larger}"));
            (now == larger).then_some(Some(())).ok_or(seen)
        })
        .await
    })
    .await;
}
