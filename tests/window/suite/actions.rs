//! Actions of a user in the chat. Only this file knows the selectors of its parts.

use transom_window_tests::page::keys;
use transom_window_tests::{Failure, Outcome, Page, check, until};

/// Returns the texts of all visible responses, oldest first.
pub(crate) async fn answers(chat: &Page) -> Outcome<Vec<String>> {
    chat.texts_of(ANSWERS).await
}

/// The text of a response without its surroundings.
const ANSWERS: &str = "article .answer > .prose";

/// Returns the user's messages.
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

/// Asks, waits for the end, and returns the response.
pub(crate) async fn ask_to_the_end(chat: &Page, text: &str) -> Outcome<String> {
    let before = answers(chat).await?.len();
    ask(chat, text).await?;
    until("a response starts", async || {
        Ok((answers(chat).await?.len() > before).then_some(()))
    })
    .await?;
    until_ended(chat).await?;
    last_answer(chat).await
}

/// Waits until no response is running.
pub(crate) async fn until_ended(chat: &Page) -> Outcome {
    chat.by("button", "^Send").await.map(drop)
}

/// Waits until the last response has at least this many characters, and returns it.
pub(crate) async fn until_written(chat: &Page, n_chars: usize) -> Outcome<String> {
    until("the response grows", async || {
        let last = answers(chat).await?.pop().unwrap_or_default();
        Ok((last.chars().count() >= n_chars).then_some(last))
    })
    .await
}

/// Returns the newest response.
pub(crate) async fn last_answer(chat: &Page) -> Outcome<String> {
    let last = answers(chat).await?.pop();
    last.ok_or_else(|| Failure::Wrong("no response is shown".into()))
}

/// Fails unless `after` starts with `before`, ignoring whitespace.
pub(crate) fn check_kept(before: &str, after: &str) -> Outcome {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (before, after) = (plain(before), plain(after));
    check(!before.is_empty() && after.starts_with(&before), || {
        format!("`{before}` was there, and later `{after}`")
    })
}

/// Returns the first half of a running response, because its end may be drawn differently later.
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

/// Opens a chat from the list, by the start of its title.
pub(crate) async fn open_from_history(chat: &Page, title: &str) -> Outcome {
    show_history(chat).await?;
    until_listed(chat, title, true).await?;
    let body = "[...document.querySelectorAll(arguments[0])]
        .find((row) => row.innerText.trim().startsWith(arguments[1])).click();";
    let wanted = vec![ROWS.into(), title.into()];
    chat.run(body, wanted).await.map(drop)
}

/// The rows of the history; other places show the same titles.
const ROWS: &str = "nav [data-row]";

/// Waits until the list contains, or does not contain, a chat whose title starts with `title`.
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

/// Opens the menu of the chat whose title contains `title`, and waits for an item of the menu.
pub(crate) async fn open_menu(chat: &Page, title: &str, item: &str) -> Outcome {
    show_history(chat).await?;
    chat.click("button", &format!("^Actions for .*{title}"))
        .await?;
    chat.by("menuitem", item).await.map(drop)
}

/// Chooses an item in the menu of a chat.
pub(crate) async fn choose(chat: &Page, title: &str, item: &str) -> Outcome {
    open_menu(chat, title, item).await?;
    chat.click("menuitem", item).await
}
