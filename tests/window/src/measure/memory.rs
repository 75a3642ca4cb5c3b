//! Measures the memory of the idle app and its pages as PSS: shared pages are divided among their
//! users. The processes of models, which the quick prompt starts, do not count.

use std::time::Duration;

use tokio::time::Instant;

use super::Figure;
use crate::desktop::Desktop;
use crate::failure::{Failure, Outcome, until, until_within};
use crate::processes;
use crate::programs;

/// Longer than the app waits after the start until it makes the quick prompt's page.
const PROMPT_PREPARED: Duration = Duration::from_secs(30);

/// Longer than the app keeps a hidden chat.
const CHAT_DESTROYED: Duration = Duration::from_secs(660);

pub(super) async fn measure() -> Outcome<Vec<Figure>> {
    let mut desktop = Desktop::start().await?;
    desktop.start_panel().await?;
    let program = programs::ours("transom-app")?;
    let mut app = desktop.command(&program);
    app.arg("--hidden");
    let app = desktop.start_child(app, "start the app")?;
    until("the icon is in the tray", async || {
        Ok(desktop.tray_items()?.filter(|&n_items| n_items > 0))
    })
    .await?;
    let mut figures = vec![figure(
        "no window was opened",
        settled(&desktop, app).await?,
    )];

    // Only with 16 GB of memory.
    let prepared = until_within(PROMPT_PREPARED, "the prompt's page is made", async || {
        let pages = desktop.processes_named("WebKitWebProces");
        Ok((!pages.is_empty()).then_some(()))
    });
    if prepared.await.is_ok() {
        let bytes = settled(&desktop, app).await?;
        figures.push(figure("the prompt's page was made", bytes));
    }

    desktop.follow("transom://chat").await?;
    until_front(&desktop).await?;
    figures.push(figure("the chat is open", settled(&desktop, app).await?));
    hide(&desktop).await?;
    figures.push(figure("the chat was hidden", settled(&desktop, app).await?));

    desktop.follow("transom://prompt").await?;
    until_front(&desktop).await?;
    hide(&desktop).await?;
    let both = settled(&desktop, app).await?;
    figures.push(figure("chat and prompt were hidden", both));

    desktop.follow("transom://settings").await?;
    until_front(&desktop).await?;
    figures.push(figure(
        "and the settings are open",
        settled(&desktop, app).await?,
    ));
    let window = visible(&desktop)?;
    desktop.output("xdotool", &["windowclose", window.trim()])?;
    let closed = settled(&desktop, app).await?;
    figures.push(figure("and the settings were closed", closed));

    // A hidden chat is kept for ten minutes; after that only the prompt is kept.
    until_within(CHAT_DESTROYED, "the chat window is destroyed", async || {
        let now = total(&desktop, app)?;
        let seen = Failure::Wrong(format!("{now} bytes"));
        (now < closed - closed / 8).then_some(Some(())).ok_or(seen)
    })
    .await?;
    let after = settled(&desktop, app).await?;
    figures.push(figure("ten minutes later", after));
    Ok(figures)
}

fn figure(state: &str, bytes: u64) -> Figure {
    #[expect(clippy::cast_precision_loss, reason = "memory is far below 2^52 bytes")]
    let mib = bytes as f64 / f64::from(1 << 20);
    Figure::new(format!("memory, {state}"), "MiB", vec![mib])
}

async fn until_front(desktop: &Desktop) -> Outcome {
    until("a window is shown", async || {
        Ok((!visible(desktop)?.is_empty()).then_some(()))
    })
    .await
}

async fn hide(desktop: &Desktop) -> Outcome {
    until("the window is hidden", async || {
        if visible(desktop)?.is_empty() {
            return Ok(Some(()));
        }
        desktop.press("Escape")?;
        Ok(None)
    })
    .await
}

/// Returns the app's visible windows.
fn visible(desktop: &Desktop) -> Outcome<String> {
    desktop.output(
        "xdotool",
        &["search", "--onlyvisible", "--class", "transom-app"],
    )
}

/// Returns the memory once it has changed by less than one percent for three seconds.
async fn settled(desktop: &Desktop, app: i32) -> Outcome<u64> {
    let (mut kept, mut since) = (0_u64, Instant::now());
    until_within(
        Duration::from_secs(90),
        "its memory is steady",
        async || {
            let now = total(desktop, app)?;
            if now.abs_diff(kept) > kept / 100 {
                (kept, since) = (now, Instant::now());
            }
            let is_steady = since.elapsed() > Duration::from_secs(3);
            is_steady
                .then_some(Some(now))
                .ok_or(Failure::Wrong(format!("{now} bytes")))
        },
    )
    .await
}

fn total(desktop: &Desktop, app: i32) -> Outcome<u64> {
    let tree = processes::tree(app, &desktop.processes());
    if tree.is_empty() {
        return Err(Failure::Wrong("the app has ended".into()));
    }
    let programs = tree.iter().filter(|one| one.name != "transom");
    let each = programs.filter_map(|one| processes::pss_bytes(one.pid));
    Ok(each.sum())
}
