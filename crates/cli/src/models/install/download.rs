//! Downloads the planned models one after the other.
//!
//! Rule: Ctrl-C keeps what was downloaded and shows how to continue. A model that fails does not stop
//! the others.

use std::time::{Duration, Instant};

use tokio::time::timeout_at;
use transom_hub::{Downloads, DownloadsOptions, Hub, HubError, NetworkWait, State};
use transom_library::download::Plan;

use crate::models::install::display::Display;
use crate::models::install::{End, InstallArgs};
use crate::{Client, Console, Failure, Result};

/// How long to wait for a network if no person at a terminal can stop the download.
const SCRIPT_LIMIT: Duration = Duration::from_secs(120);

pub(super) fn download_all(
    plans: &[Plan],
    hub: Hub,
    options: DownloadsOptions,
    args: &InstallArgs,
    client: &Client,
    console: &mut Console,
) -> Result<Vec<End>> {
    let is_interactive = console.terminals.stderr && !args.json;
    let wait = longest_wait(args.wait, is_interactive);
    let mut display = Display::new(console, args.json);
    let runtime = client.runtime()?;
    let downloads = runtime.block_on(Downloads::start(hub, options))?;
    let mut running = None;
    let ends = client.wait(async {
        let mut ends = Vec::new();
        for (index, plan) in plans.iter().enumerate() {
            running = Some(plan);
            display.begin(plan, (plans.len() > 1).then_some((index + 1, plans.len())));
            let began = Instant::now();
            let result = download(&downloads, plan, wait, &mut display).await?;
            let end = result.map(|()| began.elapsed());
            display.end(plan, &end);
            ends.push(end);
        }
        downloads.stop().await;
        Ok(ends)
    });
    if let (Err(Failure::Interrupted), Some(plan)) = (&ends, running) {
        let done_bytes = runtime.block_on(stop(&downloads));
        display.show_stopped(plan, done_bytes);
    }
    ends
}

/// Returns the longest wait for a network: the seconds that the user chose, else no limit on a terminal
/// and [`SCRIPT_LIMIT`] elsewhere.
fn longest_wait(chosen: Option<u64>, is_interactive: bool) -> Option<Duration> {
    let by_default = (!is_interactive).then_some(SCRIPT_LIMIT);
    chosen.map(Duration::from_secs).or(by_default)
}

/// Downloads one model. Fails if it reaches no network for as long as `wait`.
async fn download(
    downloads: &Downloads,
    plan: &Plan,
    wait: Option<Duration>,
    display: &mut Display<'_, '_>,
) -> Result<Result<(), HubError>> {
    let id = match downloads.add(plan.request.clone()).await {
        Ok(id) => id,
        Err(error) => return Ok(Err(error)),
    };
    let mut list = downloads.watch();
    let mut wait = NetworkWait::new(wait);
    loop {
        let download = list
            .borrow_and_update()
            .iter()
            .find(|download| download.id == id)
            .cloned();
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

/// Stops all downloads once their bytes are saved, and returns the number of bytes.
async fn stop(downloads: &Downloads) -> u64 {
    let list = downloads.watch().borrow().clone();
    downloads.stop().await;
    let kept = list.iter().filter(|download| !download.state.is_finished());
    kept.map(|download| download.done_bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_script_has_a_limit_by_default() {
        assert_eq!(longest_wait(None, true), None);
        assert_eq!(longest_wait(None, false), Some(SCRIPT_LIMIT));
        let chosen = Some(Duration::from_secs(5));
        assert_eq!(longest_wait(Some(5), true), chosen);
        assert_eq!(longest_wait(Some(5), false), chosen);
    }
}
