//! Measures the time from a key or click to a focused text field.
//!
//! The page records when its window has the focus and the field is active. The time starts before
//! xdotool is called.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::Figure;
use crate::app::App;
use crate::desktop::Desktop;
use crate::failure::{Failure, Outcome, until, until_within};
use crate::page::Page;

/// Longer than the app waits after the start until it makes the prompt's page.
const PREPARED: Duration = Duration::from_secs(30);

/// Records the time of the next focus in `window.__focusedAt`.
const WATCH: &str = "
window.__focusedAt = 0;
const note = () => {
  if (document.hasFocus() && document.activeElement?.matches('textarea, input'))
    window.__focusedAt ||= Date.now();
};
window.addEventListener('focus', () => queueMicrotask(note));
document.addEventListener('focusin', note);";

pub(super) async fn measure(n_rounds: usize) -> Outcome<Vec<Figure>> {
    let mut desktop = Desktop::start().await?;
    desktop.start_panel().await?;
    let app = App::open(&mut desktop).await?;
    let chat = app.window("chat").await?;
    hide(&desktop, &chat).await?;

    let mut clicks = Vec::new();
    for _ in 0..n_rounds {
        chat.run(WATCH, vec![]).await?;
        // Opening the menu is the system's work, so only the click on its first item is measured.
        desktop.open_tray_menu().await?;
        desktop.press("Down")?;
        let start = SystemTime::now();
        desktop.press("Return")?;
        clicks.push(focused_after(&chat, start).await?);
        hide(&desktop, &chat).await?;
    }

    // With 16 GB of memory, the page is made soon after the start.
    let prepared = until_within(PREPARED, "the prompt's page is made", async || {
        app.find_window("prompt").await
    });
    let is_prepared = prepared.await.is_ok();
    let start = SystemTime::now();
    desktop.press("ctrl+space")?;
    let prompt = app.window("prompt").await?;
    until("the prompt takes keys", async || {
        Ok(prompt.has_keyboard().await?.then_some(()))
    })
    .await?;
    let first = start.elapsed().unwrap_or_default();
    hide(&desktop, &prompt).await?;
    let mut keys = Vec::new();
    for _ in 0..n_rounds {
        prompt.run(WATCH, vec![]).await?;
        let start = SystemTime::now();
        desktop.press("ctrl+space")?;
        keys.push(focused_after(&prompt, start).await?);
        hide(&desktop, &prompt).await?;
    }
    let first = vec![first.as_secs_f64() * 1000.0];
    Ok(vec![
        Figure::new("click in the menu to the composer, warm", "ms", clicks),
        Figure::new(
            match is_prepared {
                true => "hotkey to the quick prompt, first time, page made before",
                false => "hotkey to the quick prompt, first time",
            },
            "ms",
            first,
        ),
        Figure::new("hotkey to the quick prompt, warm", "ms", keys),
    ])
}

async fn focused_after(page: &Page, start: SystemTime) -> Outcome<f64> {
    let at = until("the text field has the keyboard", async || {
        let at = page.run("return window.__focusedAt;", vec![]).await?;
        Ok(at.as_f64().filter(|at| *at > 0.0))
    })
    .await?;
    let start = start.duration_since(SystemTime::UNIX_EPOCH);
    let start = start.unwrap_or(Duration::ZERO).as_secs_f64() * 1000.0;
    Ok(at - start)
}

async fn hide(desktop: &Desktop, page: &Page) -> Outcome {
    until("the window is hidden", async || {
        if !page.has_keyboard().await? {
            return Ok(Some(()));
        }
        desktop.press("Escape")?;
        Err(Failure::Wrong("it has the keyboard".into()))
    })
    .await?;
    // Two presses within half a second count as one press that takes the focus and hides.
    page.run_until_done("setTimeout(() => done(null), 600);")
        .await
        .map(|_: Value| ())
}
