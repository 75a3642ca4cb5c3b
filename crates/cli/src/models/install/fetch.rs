//! Fetches what was planned, one model after the other, and shows how far it is.
//!
//! Rule: Ctrl-C leaves what came, and says how to go on. One model that fails stops no other.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::timeout_at;
use transom_files::visible;
use transom_hub::{Download, DownloadId, Downloads, DownloadsOptions, Hub, HubError, State};
use transom_library::download::Plan;

use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::Link;
use crate::models::install::InstallArgs;
use crate::models::install::network::{NetworkWait, longest_wait};
use crate::output::json::write_line;
use crate::output::size::disk_text;
use crate::output::stats::rough_time;
use crate::output::transfer::{Step, Transfer};

/// How a fetch ended for one model.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum End {
    /// It is in its folder.
    Done {
        /// How long that took.
        took: Duration,
    },
    /// It is not, and why.
    Failed(HubError),
}

/// Fetches `plans` in their order, with parts in `parts_folder`. Gives each of them up that reaches
/// no network for as long as `args` say.
pub(super) fn fetch(
    plans: &[Plan],
    hub: Hub,
    parts_folder: &Path,
    args: &InstallArgs,
    link: &Link,
    console: &mut Console,
    interrupt: &Interrupt,
) -> Result<Vec<End>, Failure> {
    let pressed = Arc::new(Notify::new());
    let of_key = pressed.clone();
    let watch = interrupt.watch(move || of_key.notify_one());
    let options = DownloadsOptions {
        // The first is whole, and can be used, as early as can be.
        max_concurrent: 1,
        ..DownloadsOptions::in_folder(parts_folder)
    };
    let wait = longest_wait(args.wait, console.terminals.stderr && !args.json);
    let mut screen = Screen::new(console, args.json);
    let ends = link.runtime()?.block_on(async {
        let downloads = Downloads::start(hub, options).await?;
        let mut ends = Vec::new();
        for (index, plan) in plans.iter().enumerate() {
            let place = (plans.len() > 1).then_some((index + 1, plans.len()));
            screen.begin(plan, place);
            let began = Instant::now();
            let end = tokio::select! {
                end = one(&downloads, plan, wait, &mut screen) => end?,
                () = pressed.notified() => {
                    let done_bytes = stop(&downloads).await;
                    screen.stopped(plan, done_bytes);
                    return Err(Failure::Interrupted);
                }
            };
            let end = end.map_or_else(End::Failed, |()| End::Done {
                took: began.elapsed(),
            });
            screen.end(plan, &end);
            ends.push(end);
        }
        downloads.stop().await;
        Ok(ends)
    });
    drop(watch);
    ends
}

/// Waits for the end of one.
async fn one(
    downloads: &Downloads,
    plan: &Plan,
    wait: Option<Duration>,
    screen: &mut Screen<'_, '_>,
) -> Result<Result<(), HubError>, Failure> {
    let id = match downloads.add(plan.wanted.clone()).await {
        Ok(id) => id,
        Err(error) => return Ok(Err(error)),
    };
    let mut list = downloads.watch();
    let mut wait = NetworkWait::new(wait);
    loop {
        let now = find(&list.borrow_and_update(), id);
        match now.as_ref().map(|download| &download.state) {
            Some(State::Done) => return Ok(Ok(())),
            Some(State::Failed(error)) => return Ok(Err(error.clone())),
            _ => {}
        }
        if let Some(download) = &now {
            screen.show(plan, download)?;
            wait.look(download, Instant::now());
        }
        let changed = match wait.end() {
            Some((end, error)) => match timeout_at(end.into(), list.changed()).await {
                Ok(changed) => changed,
                Err(_) => {
                    // What came is kept, and the next is not held up.
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

/// Stops what runs, once all that came is safe on the disk, and says how many bytes that are.
async fn stop(downloads: &Downloads) -> u64 {
    let list = downloads.watch().borrow().clone();
    downloads.stop().await;
    let kept = list.iter().filter(|download| !download.state.is_finished());
    kept.map(|download| download.done_bytes).sum()
}

/// What a person or a program sees of it.
pub(super) struct Screen<'a, 'c> {
    console: &'a mut Console<'c>,
    json: bool,
    place: Option<(usize, usize)>,
    /// The tenth, and the state, that were told last where no line can be drawn anew.
    told: (Option<u64>, &'static str),
    shown: Option<String>,
    /// Of the present one, as it was told last.
    done_bytes: u64,
}

impl<'a, 'c> Screen<'a, 'c> {
    pub(super) fn new(console: &'a mut Console<'c>, json: bool) -> Self {
        Self {
            console,
            json,
            place: None,
            told: (None, ""),
            shown: None,
            done_bytes: 0,
        }
    }

    fn is_drawn(&self) -> bool {
        self.console.terminals.stderr && self.console.colour
    }

    pub(super) fn begin(&mut self, plan: &Plan, place: Option<(usize, usize)>) {
        self.place = place;
        self.told = (None, "");
        self.done_bytes = 0;
        if !self.json && !self.is_drawn() {
            self.console.note(&format!("{}: fetching", plan.name));
        }
    }

    pub(super) fn show(&mut self, plan: &Plan, download: &Download) -> Result<(), Failure> {
        self.done_bytes = download.done_bytes;
        if self.json {
            return write_line(self.console.out, download).map_err(Failure::Output);
        }
        let transfer = transfer(plan, download, self.place);
        if self.is_drawn() {
            let width = (self.console.columns)().saturating_sub(1);
            self.redraw(Some(transfer.line(width)));
            return Ok(());
        }
        let word = word(&transfer.step);
        if word != self.told.1 {
            self.told.1 = word;
            if let Some(line) = said(&plan.name, &transfer.step) {
                self.console.note(&line);
            }
        }
        if transfer.step == Step::Fetching
            && let Some((tenth, line)) = transfer.milestone()
            && tenth > 0
            && self.told.0.is_none_or(|told| tenth > told)
        {
            self.told.0 = Some(tenth);
            self.console.note(&line);
        }
        Ok(())
    }

    /// Puts `line` in the place of the one before; with none the line is gone.
    fn redraw(&mut self, line: Option<String>) {
        if line == self.shown {
            return;
        }
        let text = match &line {
            Some(line) => format!("\r\x1b[2K{}", visible(line)),
            None => "\r\x1b[2K".to_owned(),
        };
        self.console.ask(&text);
        self.shown = line;
    }

    pub(super) fn end(&mut self, plan: &Plan, end: &End) {
        self.redraw(None);
        if self.json {
            return;
        }
        match end {
            End::Done { took } => {
                let size = plan
                    .size_bytes
                    .map(|bytes| format!(", {}", disk_text(bytes)));
                let took = match took.as_secs() {
                    0 => String::new(),
                    _ => format!(" in {}", rough_time(*took)),
                };
                let size = size.unwrap_or_default();
                let text = format!("{} is installed{size}{took}.", plan.name);
                self.console.note(&text);
            }
            // Of the only one the command's own failure tells.
            End::Failed(error) if self.place.is_some() => {
                self.console.note(&format!("{}: {error}", plan.name));
            }
            End::Failed(_) => {}
        }
        if matches!(end, End::Failed(_)) && self.done_bytes > 0 {
            let kept = disk_text(self.done_bytes);
            let text = format!("{kept} are kept; the same command goes on from there.");
            self.console.note(&text);
        }
    }

    fn stopped(&mut self, plan: &Plan, done_bytes: u64) {
        self.redraw(None);
        let kept = match done_bytes {
            0 => "Stopped.".to_owned(),
            n => format!("Stopped; {} are kept.", disk_text(n)),
        };
        self.console.note(&format!(
            "{kept} To go on: transom models install {}",
            plan.name
        ));
    }
}

/// The download as a line shows it. Bytes that are being checked count as here.
fn transfer(plan: &Plan, download: &Download, place: Option<(usize, usize)>) -> Transfer {
    let step = match &download.state {
        State::Downloading => Step::Fetching,
        State::Verifying { .. } => Step::Verifying,
        State::Retrying {
            seconds,
            error: because,
        } => Step::Retrying {
            after: Duration::from_secs(*seconds),
            because: in_short(because).to_owned(),
        },
        State::Queued | State::Paused | State::Done | State::Failed(_) => Step::Waiting,
    };
    Transfer {
        name: match place {
            Some((number, of)) => format!("{} ({number} of {of})", plan.name),
            None => plan.name.clone(),
        },
        step,
        done_bytes: download.done_bytes,
        total_bytes: download.total_bytes.or(plan.size_bytes),
        bytes_per_second: Some(download.bytes_per_second).filter(|&rate| rate > 0),
        left: download.seconds_left.map(Duration::from_secs),
    }
}

/// A trouble that is waited out, in a few words; if it stays, its whole sentence is told.
fn in_short(error: &HubError) -> &'static str {
    match error {
        HubError::Unreachable { .. } => "no connection",
        HubError::Silent { .. } => "the hub is silent",
        HubError::Dropped { .. } => "connection lost",
        HubError::TooManyRequests { .. } => "the hub asks for a pause",
        HubError::ServerTrouble { .. } => "the hub has trouble",
        HubError::WrongLength { .. } | HubError::WrongHash { .. } => "it came damaged",
        HubError::ChangedMeanwhile { .. } => "it was changed on the hub",
        HubError::InUse { .. } => "another program fetches it",
        _ => "trouble",
    }
}

fn word(step: &Step) -> &'static str {
    match step {
        Step::Waiting => "waiting",
        Step::Fetching => "fetching",
        Step::Verifying => "verifying",
        Step::Retrying { .. } => "retrying",
    }
}

/// A step as a line of its own, where it is worth one.
fn said(name: &str, step: &Step) -> Option<String> {
    match step {
        Step::Waiting | Step::Fetching => None,
        Step::Verifying => Some(format!("{name}: verifying")),
        Step::Retrying { after, because } => Some(format!(
            "{name}: {because}; again in {}",
            rough_time(*after)
        )),
    }
}
