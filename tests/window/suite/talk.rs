//! What a person does in the chat, in one place: where its parts are found is written here only.

use transom_window_tests::page::keys;
use transom_window_tests::{Failure, Outcome, Page, check, until};

/// The answers that are shown, as the page says them, oldest first.
pub(crate) async fn answers(chat: &Page) -> Outcome<Vec<String>> {
    chat.texts_of(ANSWERS).await
}

/// The text of an answer without what is around it.
const ANSWERS: &str = "article .answer > .prose";

/// The person's messages.
pub(crate) async fn questions(chat: &Page) -> Outcome<Vec<String>> {
    chat.texts_of("article .bubble").await
}

/// Types a message into the composer and sends it.
pub(crate) async fn ask(chat: &Page, text: &str) -> Outcome {
    let composer = chat.by("textbox", "^Message$").await?;
    composer.click().await?;
    composer.send_keys(text).await?;
    composer.send_keys(keys::ENTER).await?;
    Ok(())
}

/// Asks, waits for the end, and returns the answer.
pub(crate) async fn ask_to_the_end(chat: &Page, text: &str) -> Outcome<String> {
    let before = answers(chat).await?.len();
    ask(chat, text).await?;
    until("an answer begins", async || {
        Ok((answers(chat).await?.len() > before).then_some(()))
    })
    .await?;
    until_ended(chat).await?;
    last_answer(chat).await
}

/// Waits until nothing is written any more.
pub(crate) async fn until_ended(chat: &Page) -> Outcome {
    chat.by("button", "^Send").await.map(drop)
}

/// Waits until the last answer has at least so many characters, and returns it.
pub(crate) async fn until_written(chat: &Page, n_chars: usize) -> Outcome<String> {
    until("the answer grows", async || {
        let last = answers(chat).await?.pop().unwrap_or_default();
        Ok((last.chars().count() >= n_chars).then_some(last))
    })
    .await
}

/// The newest answer.
pub(crate) async fn last_answer(chat: &Page) -> Outcome<String> {
    let last = answers(chat).await?.pop();
    last.ok_or_else(|| Failure::Wrong("no answer is shown".into()))
}

/// Fails unless one text begins with the other, blanks aside: what is kept is what was there.
pub(crate) fn check_kept(before: &str, after: &str) -> Outcome {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (before, after) = (plain(before), plain(after));
    check(!before.is_empty() && after.starts_with(&before), || {
        format!("`{before}` was there, and later `{after}`")
    })
}

/// The first half of what was seen of an answer that was still being written: its end may be drawn
/// anew.
pub(crate) fn first_half(seen: &str) -> String {
    seen.chars().take(seen.chars().count() / 2).collect()
}

/// Opens the list of chats, if it is not open.
pub(crate) async fn show_history(chat: &Page) -> Outcome {
    if chat.find("textbox", "^Search$").await?.is_none() {
        chat.click("button", "^Show history").await?;
    }
    chat.by("textbox", "^Search$").await.map(drop)
}

/// Opens a chat from the list, by the beginning of its title.
pub(crate) async fn open_from_history(chat: &Page, title: &str) -> Outcome {
    show_history(chat).await?;
    until_listed(chat, title, true).await?;
    let body = "[...document.querySelectorAll(arguments[0])]
        .find((row) => row.innerText.trim().startsWith(arguments[1])).click();";
    let wanted = vec![ROWS.into(), title.into()];
    chat.run(body, wanted).await.map(drop)
}

/// The rows of the history; the same titles stand elsewhere too.
const ROWS: &str = "nav [data-row]";

/// Waits until the list has a chat whose title begins so, or has none.
pub(crate) async fn until_listed(chat: &Page, title: &str, is_listed: bool) -> Outcome {
    let not = if is_listed { "a" } else { "no" };
    until(&format!("the list has {not} chat `{title}`"), async || {
        let rows = chat.texts_of(ROWS).await?;
        let is_there = rows.iter().any(|row| row.trim().starts_with(title));
        let seen = Failure::Wrong(format!("{rows:?}"));
        (is_there == is_listed).then_some(Some(())).ok_or(seen)
    })
    .await
}
