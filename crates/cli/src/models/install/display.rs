//! Shows downloads: a progress bar on a terminal, a line at each tenth elsewhere, JSON for programs.

use std::mem::{Discriminant, discriminant};
use std::time::Duration;

use transom_hub::{Download, HubError, State};
use transom_library::download::Plan;

use crate::models::install::End;
use crate::output::{Progress, bar, disk_text, of_disk, percent_of, rough_time};
use crate::{Console, Result};

pub(super) struct Display<'a, 'c> {
    console: &'a mut Console<'c>,
    json: bool,
    /// Drawn only on a terminal.
    progress: Progress,
    /// The number of this download, and of how many.
    place: Option<(usize, usize)>,
    /// The last tenth that was written as a line.
    last_tenth: u64,
    last_state: Option<Discriminant<State>>,
    done_bytes: u64,
}

const BAR_WIDTH: usize = 16;

impl<'a, 'c> Display<'a, 'c> {
    /// Returns a display that shows nothing yet.
    pub(super) fn new(console: &'a mut Console<'c>, json: bool) -> Self {
        Self {
            progress: Progress::undimmed(console.progress_target()),
            console,
            json,
            place: None,
            last_tenth: 0,
            last_state: None,
            done_bytes: 0,
        }
    }

    pub(super) fn begin(&mut self, plan: &Plan, place: Option<(usize, usize)>) {
        self.place = place;
        self.last_tenth = 0;
        self.last_state = None;
        self.done_bytes = 0;
        if !self.json && !self.console.draws_progress() {
            self.console.note(&format!("{}: downloading", plan.name));
        }
    }

    pub(super) fn show(&mut self, plan: &Plan, download: &Download) -> Result {
        self.done_bytes = download.done_bytes;
        if self.json {
            return self.console.print_json(download);
        }
        let total_bytes = download.total_bytes.or(plan.size_bytes);
        let total_bytes = total_bytes.filter(|&total| total > 0);
        match self.console.draws_progress() {
            true => self.draw(plan, download, total_bytes),
            false => self.write_lines(plan, download, total_bytes),
        }
        Ok(())
    }

    fn draw(&self, plan: &Plan, download: &Download, total_bytes: Option<u64>) {
        let done_bytes = download.done_bytes;
        let percent = total_bytes.and_then(|total| percent_of(done_bytes, total));
        let percentage = percent.map(|percent| format!("{percent:>3} %"));
        let sizes = match total_bytes {
            Some(total) => of_disk(done_bytes.min(total), total),
            None => disk_text(done_bytes),
        };
        let name = match self.place {
            Some((number, of)) => format!("{} ({number} of {of})", plan.name),
            None => plan.name.clone(),
        };
        // On a narrow terminal the end of the line is cut off.
        let mut parts = vec![
            bar(percent.unwrap_or(0), 100, BAR_WIDTH),
            percentage.unwrap_or_default(),
            sizes,
            state_text(download),
            name,
        ];
        parts.retain(|part| !part.is_empty());
        self.progress.show(&parts.join("  "));
    }

    /// Writes a line if the state changed or another tenth is done.
    fn write_lines(&mut self, plan: &Plan, download: &Download, total_bytes: Option<u64>) {
        let name = &plan.name;
        let state = Some(discriminant(&download.state));
        let is_new = self.last_state != state;
        self.last_state = state;
        let line = match &download.state {
            State::Downloading => {
                let (done_bytes, total_bytes) = (download.done_bytes, total_bytes.unwrap_or(0));
                let tenth = percent_of(done_bytes, total_bytes).unwrap_or(0) / 10;
                if tenth <= self.last_tenth {
                    return;
                }
                self.last_tenth = tenth;
                let sizes = of_disk(done_bytes, total_bytes);
                format!("{name}: {} %, {sizes}", tenth * 10)
            }
            State::Verifying { .. } if is_new => format!("{name}: verifying"),
            State::Retrying { seconds, error } if is_new => {
                let wait = rough_time(Duration::from_secs(*seconds));
                format!("{name}: {}; again in {wait}", short_reason(error))
            }
            _ => return,
        };
        self.console.note(&line);
    }

    pub(super) fn end(&mut self, plan: &Plan, end: &End) {
        self.progress.clear();
        if self.json {
            return;
        }
        match end {
            End::Done { took } => {
                let size = plan.size_bytes.map(disk_text);
                let size = size.map_or(String::new(), |size| format!(", {size}"));
                let took = match took.as_secs() {
                    0 => String::new(),
                    _ => format!(" in {}", rough_time(*took)),
                };
                let text = format!("{} is installed{size}{took}.", plan.name);
                self.console.note(&text);
            }
            End::Failed(error) => {
                // The error of the only download is the command's own failure.
                if self.place.is_some() {
                    self.console.note(&format!("{}: {error}", plan.name));
                }
                if self.done_bytes > 0 {
                    let kept = disk_text(self.done_bytes);
                    let text = format!("{kept} are kept; the same command continues from there.");
                    self.console.note(&text);
                }
            }
        }
    }

    /// Shows that the user stopped the download, and how to continue.
    pub(super) fn show_stopped(&mut self, plan: &Plan, done_bytes: u64) {
        self.progress.clear();
        let kept = match done_bytes {
            0 => "Stopped.".to_owned(),
            n => format!("Stopped; {} are kept.", disk_text(n)),
        };
        let name = &plan.name;
        self.console.note(&format!(
            "{kept} To continue: transom models install {name}"
        ));
    }
}

/// Returns the state of a download, or its rate and the time left.
fn state_text(download: &Download) -> String {
    match &download.state {
        State::Downloading => {
            let rate = download.bytes_per_second;
            let rate = (rate > 0).then(|| format!("{}/s", disk_text(rate)));
            let left = download.seconds_left.map(Duration::from_secs);
            let left = left.map(|left| format!("{} left", rough_time(left)));
            let parts: Vec<String> = rate.into_iter().chain(left).collect();
            parts.join("  ")
        }
        State::Verifying { .. } => "verifying".to_owned(),
        State::Retrying { seconds, error } => {
            let wait = rough_time(Duration::from_secs(*seconds));
            format!("again in {wait} ({})", short_reason(error))
        }
        State::Queued | State::Paused | State::Done | State::Failed(_) => "waiting".to_owned(),
    }
}

/// Returns the reason for a retry in a few words. If the download fails, its whole error is shown.
fn short_reason(error: &HubError) -> &'static str {
    match error {
        HubError::Unreachable { .. } => "no connection",
        HubError::Silent { .. } => "the hub does not respond",
        HubError::Dropped { .. } => "connection lost",
        HubError::TooManyRequests { .. } => "too many requests",
        HubError::ServerTrouble { .. } => "error of the hub",
        HubError::WrongLength { .. } | HubError::WrongHash { .. } => "the file was damaged",
        HubError::ChangedMeanwhile { .. } => "it was changed on the hub",
        HubError::InUse { .. } => "another program downloads it",
        _ => "error",
    }
}
