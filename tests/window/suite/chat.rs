//! Asking, stopping, asking again: what becomes of an answer.

use transom_window_tests::models;
use transom_window_tests::page::keys;
use transom_window_tests::{Failure, Outcome, Page, check, on_stage, until};

use crate::talk;

#[tokio::test]
async fn the_chat_opens_with_the_focus_in_the_composer() {
    on_stage("the_chat_opens", async |stage| {
        let chat = stage.open().await?;
        until("the composer has the focus", async || {
            let focused = chat.focused().await?;
            let is_ready = focused == "textbox: Message" && chat.has_keyboard().await?;
            is_ready.then_some(Some(())).ok_or(Failure::Wrong(focused))
        })
        .await?;
        // And it is the window's, not only the page's: real keys arrive.
        stage.desktop.press("h")?;
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
async fn after_the_welcome_keys_go_to_the_composer_a_question_mark_too() {
    on_stage("after_the_welcome", async |stage| {
        let chat = stage.open_as_new().await?;
        chat.click("button", "^Get Started$").await?;
        until("the composer has the focus", async || {
            let focused = chat.focused().await?;
            let is_ready = focused == "textbox: Message" && chat.has_keyboard().await?;
            is_ready.then_some(Some(())).ok_or(Failure::Wrong(focused))
        })
        .await?;
        stage.desktop.press("question")?;
        stage.desktop.press("h")?;
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

/// Points that the transcript is scrolled down.
async fn scrolled(chat: &Page) -> Outcome<f64> {
    let top = chat
        .run("return document.querySelector('.view').scrollTop;", vec![])
        .await?;
    let wrong = || Failure::Wrong(format!("{top} is no place"));
    top.as_f64().ok_or_else(wrong)
}

#[tokio::test]
async fn whoever_scrolls_up_while_an_answer_streams_stays_there() {
    on_stage("scrolling_up", async |stage| {
        models::add(&stage.desktop)?;
        let chat = stage.open().await?;
        models::choose(&chat, models::TALKATIVE).await?;
        // Long enough to fill the window by itself.
        let question = format!("Tell me a story. {}", "It has a fox and a hen. ".repeat(55));
        talk::ask(&chat, &question).await?;
        talk::until_written(&chat, 1).await?;
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
        // By key: the answer may just have ended by itself.
        stage.desktop.press("ctrl+period")?;
        talk::until_ended(&chat).await?;

        // A new title is told to the whole window, which reads the chat again.
        chat.click("button", "^Tell me a story").await?;
        chat.type_text("A long one").await?;
        chat.type_text(keys::ENTER).await?;
        talk::show_history(&chat).await?;
        talk::until_listed(&chat, "A long one", true).await?;
        let top = scrolled(&chat).await?;
        check((top - 20.0).abs() < 2.0, || {
            format!("the reader was at 20 points and is at {top}")
        })
    })
    .await;
}

#[tokio::test]
async fn an_answer_streams_in_steps_and_is_there_at_the_end() {
    on_stage("an_answer_streams", async |stage| {
        models::add(&stage.desktop)?;
        let chat = stage.open().await?;
        models::choose(&chat, models::TALKATIVE).await?;
        talk::ask(&chat, "What is the capital of France?").await?;
        let mut steps = Vec::new();
        while steps.len() < 4 {
            let longer = steps
                .last()
                .map_or(1, |text: &String| text.chars().count() + 1);
            steps.push(talk::until_written(&chat, longer).await?);
        }
        check(chat.find("button", "^Stop").await?.is_some(), || {
            "it should still be writing".into()
        })?;
        chat.click("button", "^Stop").await?;
        talk::until_ended(&chat).await?;
        let answer = talk::last_answer(&chat).await?;
        talk::check_kept(&steps[0], &answer)
    })
    .await;
}

#[tokio::test]
async fn stopping_keeps_what_was_written() {
    on_stage("stopping_keeps", async |stage| {
        models::add(&stage.desktop)?;
        let chat = stage.open().await?;
        models::choose(&chat, models::TALKATIVE).await?;
        talk::ask(&chat, "Tell me a story.").await?;
        let before = talk::until_written(&chat, 60).await?;
        stage.desktop.press("ctrl+period")?;
        talk::until_ended(&chat).await?;
        let kept = talk::last_answer(&chat).await?;
        talk::check_kept(&talk::first_half(&before), &kept)?;
        chat.until_says(r"Stopped\.").await?;

        let kept = talk::last_answer(&chat).await?;
        let chat = stage.restart().await?;
        talk::open_from_history(&chat, "Tell me a story").await?;
        talk::check_kept(&kept, &talk::until_written(&chat, 1).await?)
    })
    .await;
}

#[tokio::test]
async fn answering_again_keeps_the_old_answer_as_a_branch() {
    on_stage("answering_again", async |stage| {
        let chat = stage.open().await?;
        let first = talk::ask_to_the_end(&chat, "What is a haiku?").await?;
        chat.click("button", "^Regenerate").await?;
        chat.until_says("2 ?(/|of) ?2").await?;
        talk::until_ended(&chat).await?;
        let second = talk::last_answer(&chat).await?;

        chat.click("button", "^Previous version").await?;
        chat.until_says("1 ?(/|of) ?2").await?;
        until("the first answer is back", async || {
            Ok((talk::last_answer(&chat).await? == first).then_some(()))
        })
        .await?;
        chat.click("button", "^Next version").await?;
        until("the second answer is back", async || {
            Ok((talk::last_answer(&chat).await? == second).then_some(()))
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn editing_a_message_makes_a_branch_with_an_answer_of_its_own() {
    on_stage("editing", async |stage| {
        let chat = stage.open().await?;
        talk::ask_to_the_end(&chat, "What is the capital of France?").await?;
        chat.click("button", "^Edit").await?;
        let editor = chat.by("textbox", "^Edit your message").await?;
        editor.clear().await?;
        editor.send_keys("What is the capital of Italy?").await?;
        editor.send_keys(keys::ENTER).await?;
        until("the new question is shown", async || {
            let questions = talk::questions(&chat).await?;
            Ok((questions == ["What is the capital of Italy?"]).then_some(()))
        })
        .await?;
        talk::until_written(&chat, 1).await?;
        talk::until_ended(&chat).await?;
        chat.click("button", "^Previous version").await?;
        until("the old question is back", async || {
            let questions = talk::questions(&chat).await?;
            Ok((questions == ["What is the capital of France?"]).then_some(()))
        })
        .await
    })
    .await;
}
