//! Compares the decode speed of one model in the app and on the command line, alternating, and
//! measures the CPU time of app and page.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use super::Figure;
use crate::app::App;
use crate::desktop::Desktop;
use crate::failure::{Failure, Outcome, until_within};
use crate::models;
use crate::page::{Page, keys};
use crate::processes;
use crate::programs;

/// The question for both.
const QUESTION: &str = "Tell me a story.";

pub(super) async fn measure(n_rounds: usize) -> Outcome<Vec<Figure>> {
    let mut desktop = Desktop::start().await?;
    models::add(&desktop)?;
    let app = App::open(&mut desktop).await?;
    let chat = app.window("chat").await?;
    models::choose(&chat, models::TALKATIVE).await?;
    let (mut windows, mut lines) = (Vec::new(), Vec::new());
    let mut costs = Vec::new();
    for _ in 0..n_rounds {
        let before = cpu(&desktop, &app);
        let (speed, n_tokens) = in_the_window(&chat).await?;
        windows.push(speed);
        costs.push((cpu(&desktop, &app) - before) * 1000.0 / n_tokens);
        lines.push(on_the_command_line(&desktop)?);
    }
    // Compared round by round, because other programs affect both in the same way.
    let pairs = windows.iter().zip(&lines);
    let ratios = pairs.map(|(window, line)| window / line).collect();
    Ok(vec![
        Figure::new("decode in the window", "tokens/s", windows),
        Figure::new("decode on the command line", "tokens/s", lines),
        Figure::new("window against command line", "times", ratios),
        Figure::new("app and pages, for 1,000 tokens of it", "ms of CPU", costs),
    ])
}

/// Returns the CPU time of the app and its pages in milliseconds, without the engine.
fn cpu(desktop: &Desktop, app: &App) -> f64 {
    let tree = app.tree(desktop);
    let own = tree.iter().filter(|process| process.name != "transom");
    let times = own.filter_map(|process| processes::cpu_time(process.pid));
    times.map(|time| time.as_secs_f64() * 1000.0).sum()
}

/// Asks in a new chat, and reads speed and length from the response's statistics.
async fn in_the_window(chat: &Page) -> Outcome<(f64, f64)> {
    // Until the new chat exists, the newest chat is the previous one.
    let before = chat.run_until_done(STATS).await?["chat"].take();
    chat.click("button", "^New chat").await?;
    chat.by("textbox", "^Message$").await?.click().await?;
    chat.type_text(QUESTION).await?;
    chat.type_text(keys::ENTER).await?;
    let timeout = Duration::from_secs(180);
    // Rarely, because reading is work for the app and its page.
    let mut interval = tokio::time::interval(Duration::from_secs(3));
    interval.tick().await;
    until_within(timeout, "the answer has ended", async || {
        interval.tick().await;
        let stats = chat.run_until_done(STATS).await?;
        let number = |name: &str| stats[name].as_f64();
        match (number("tokens_per_second"), number("generated_tokens")) {
            (Some(speed), Some(n_tokens)) if stats["chat"] != before => Ok(Some((speed, n_tokens))),
            _ => Err(Failure::Wrong(stats.to_string())),
        }
    })
    .await
}

/// The newest chat and the statistics of its last response, read like the page does.
const STATS: &str = "
const call = window.__TAURI_INTERNALS__.invoke;
(async () => {
  const [newest] = await call('conversations', { search: '', isArchived: false, offset: 0, limit: 1 });
  if (!newest) return {};
  const chat = newest.conversation.id;
  const { messages } = await call('open_conversation', { id: chat });
  const [last] = await call('messages', { ids: [messages.at(-1).id] });
  return { chat, ...(last.ending.ending === 'writing' ? {} : last.stats) };
})().then(done, (e) => done({ error: JSON.stringify(e) }));";

/// Asks with `transom ask` and a separate data folder, so that it loads its own model.
fn on_the_command_line(desktop: &Desktop) -> Outcome<f64> {
    let doing = "ask on the command line";
    let own = desktop.home().join("line");
    fs::create_dir_all(&own).map_err(Failure::doing(doing))?;
    let model = desktop.data().join("models").join(models::TALKATIVE);
    let mut command = desktop.command(programs::ours("transom")?);
    let output = command
        .args(["ask", "--json", "--model"])
        .arg(model)
        .arg(QUESTION)
        .env("TRANSOM_DATA", own)
        .stdout(std::process::Stdio::piped())
        .output()
        .map_err(Failure::doing(doing))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let events = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut stats = events.filter_map(|event| {
        let number = |name: &str| event["stats"][name].as_f64();
        Some((number("generated_tokens")?, number("decode_time_seconds")?))
    });
    match stats.next_back() {
        // The first token belongs to prefill.
        Some((n_tokens, seconds)) if seconds > 0.0 => Ok((n_tokens - 1.0) / seconds),
        _ => Err(Failure::setup(doing, format!("it said {text}"))),
    }
}
