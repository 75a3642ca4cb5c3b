//! Downloads the planned models one after the other.
//!
//! Rule: Ctrl-C keeps what was downloaded and shows how to continue. A model that fails does not stop
//! the others.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::timeout_at;
use transom_hub::{Download, DownloadId, Downloads, DownloadsOptions, Hub, HubError, State};
use transom_library::download::Plan;

use crate::models::install::InstallArgs;
use crate::models::install::display::Display;
use crate::models::install::network::{NetworkWait, longest_wait};
use crate::{Client, Console, Failure, Result};

/// How the download of one model ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum End {
    /// The model is installed.
    Done {
        /// How long the download took.
        took: Duration,
    },
    /// The download failed.
    Failed(HubError),
}

/// Downloads `plans` in their order, with part files in `parts_folder`.
pub(super) fn download_all(
    plans: &[Plan],
    hub: Hub,
    parts_folder: &Path,
    args: &InstallArgs,
    client: &Client,
    console: &mut Console,
) -> Result<Vec<End>> {
    let key = Arc::new(Notify::new());
    let pressed = key.clone();
    let _watch = client.interrupt.watch(move || pressed.notify_one());
    let options = DownloadsOptions {
        // The first model is complete, and usable, as early as possible.
        max_concurrent: 1,
        ..DownloadsOptions::in_folder(parts_folder)
    };
    let wait = longest_wait(args.wait, console.terminals.stderr && !args.json);
    let mut display = Display::new(console, args.json);
    client.runtime()?.block_on(async {
        let downloads = Downloads::start(hub, options).await?;
        let mut ends = Vec::new();
        for (index, plan) in plans.iter().enumerate() {
            display.begin(plan, (plans.len() > 1).then_some((index + 1, plans.len())));
            let began = Instant::now();
            let result = tokio::select! {
                result = download(&downloads, plan, wait, &mut display) => result?,
                () = key.notified() => {
                    let done_bytes = stop(&downloads).await;
                    display.show_stopped(plan, done_bytes);
                    return Err(Failure::Interrupted);
                }
            };
            let end = result.map_or_else(End::Failed, |()| End::Done {
                took: began.elapsed(),
            });
            display.end(plan, &end);
            ends.push(end);
        }
        downloads.stop().await;
        Ok(ends)
    })
}

/// Downloads one model. Fails if it reaches no network for as long as `wait`.
async fn download(
    downloads: &Downloads,
    plan: &Plan,
    wait: Option<Duration>,
    display: &mut Display<'_, '_>,
) -> Result<Result<(), HubError>> {
    let id = match downloads.add(plan.wanted.clone()).await {
        Ok(id) => id,
        Err(error) => return Ok(Err(error)),
    };
    let mut list = downloads.watch();
    let mut wait = NetworkWait::new(wait);
    loop {
        let download = find(&list.borrow_and_update(), id);
        if let Some(download) = &download {
            match &download.state {
                State::Done => return Ok(Ok(())),
                State::Failed(error) => return Ok(Err(error.clone())),
                _ => {}
            }
            display.show(plan, download)?;
            wait.observe(download, Instant::now());
        }
        let changed = match wait.end() {
            Some((end, error)) => match timeout_at(end.into(), list.changed()).await {
                Ok(changed) => changed,
                Err(_) => {
                    // The part files are kept, and the next download can start.
                    downloads.pause(id).await.ok();
                    return Ok(Err(error));
                }
            },
            None => list.changed().await,
        };
        if changed.is_err() {
            return Ok(Err(HubError::Stopped));
        }
    }
}

fn find(list: &[Download], id: DownloadId) -> Option<Download> {
    list.iter().find(|download| download.id == id).cloned()
}

/// Stops all downloads once their bytes are saved, and returns the number of bytes.
async fn stop(downloads: &Downloads) -> u64 {
    let list = downloads.watch().borrow().clone();
    downloads.stop().await;
    let kept = list.iter().filter(|download| !download.state.is_finished());
    kept.map(|download| download.done_bytes).sum()
}
