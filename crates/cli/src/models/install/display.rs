//! Shows downloads: a progress bar on a terminal, a line at each tenth elsewhere, JSON for programs.

use std::time::Duration;

use indicatif::ProgressBar;
use transom_files::visible;
use transom_hub::{Download, HubError, State};
use transom_library::download::Plan;

use crate::models::install::download::End;
use crate::output::progress::bar;
use crate::output::text::{disk_text, of_disk, rough_time};
use crate::{Console, Result};

/// Shows one download after the other.
pub(super) struct Display<'a, 'c> {
    console: &'a mut Console<'c>,
    json: bool,
    /// Drawn only on a terminal.
    bar: ProgressBar,
    /// The number of this download, and of how many.
    place: Option<(usize, usize)>,
    /// The last tenth and the last state that were written as a line.
    last_line: (u64, &'static str),
    done_bytes: u64,
}

impl<'a, 'c> Display<'a, 'c> {
    /// Returns a display that shows nothing yet.
    pub(super) fn new(console: &'a mut Console<'c>, json: bool) -> Self {
        Self {
            bar: bar(TEMPLATE, console.progress_target()),
            console,
            json,
            place: None,
            last_line: (0, ""),
            done_bytes: 0,
        }
    }

    fn is_drawn(&self) -> bool {
        self.console.draws_progress()
    }

    /// Starts to show the next download.
    pub(super) fn begin(&mut self, plan: &Plan, place: Option<(usize, usize)>) {
        self.place = place;
        self.last_line = (0, "");
        self.done_bytes = 0;
        if !self.json && !self.is_drawn() {
            self.console.note(&format!("{}: downloading", plan.name));
        }
    }

    /// Shows the progress of a download.
    pub(super) fn show(&mut self, plan: &Plan, download: &Download) -> Result {
        self.done_bytes = download.done_bytes;
        if self.json {
            return self.console.print_json(download);
        }
        let total_bytes = download.total_bytes.or(plan.size_bytes);
        match self.is_drawn() {
            true => self.draw(plan, download, total_bytes),
            false => self.write_lines(plan, download, total_bytes),
        }
        Ok(())
    }

    fn draw(&self, plan: &Plan, download: &Download, total_bytes: Option<u64>) {
        let done_bytes = download.done_bytes;
        let total_bytes = total_bytes.filter(|&total| total > 0);
        let percent = total_bytes.map(|total| percent_of(done_bytes, total));
        let sizes = match total_bytes {
            Some(total) => of_disk(done_bytes.min(total), total),
            None => disk_text(done_bytes),
        };
        let name = match self.place {
            Some((number, of)) => format!("{} ({number} of {of})", plan.name),
            None => plan.name.clone(),
        };
        let percentage = percent.map(|percent| format!("{percent:>3} %"));
        let parts = [
            percentage.unwrap_or_default(),
            sizes,
            state_text(download),
            name,
        ];
        let parts = parts.iter().filter(|part| !part.is_empty());
        let message = parts.map(String::as_str).collect::<Vec<_>>().join("  ");
        self.bar.set_message(visible(&message).into_owned());
        if self.bar.is_finished() {
            self.bar.reset();
        }
        self.bar.update(|state| {
            state.set_len(100);
            state.set_pos(percent.unwrap_or(0));
        });
    }

    /// Writes a line if the state changed or another tenth is done.
    fn write_lines(&mut self, plan: &Plan, download: &Download, total_bytes: Option<u64>) {
        let name = &plan.name;
        let (last_tenth, last_state) = self.last_line;
        let (state, line) = match &download.state {
            State::Downloading => ("downloading", None),
            State::Verifying { .. } => ("verifying", Some(format!("{name}: verifying"))),
            State::Retrying { seconds, error } => {
                let wait = rough_time(Duration::from_secs(*seconds));
                let line = format!("{name}: {}; again in {wait}", short_reason(error));
                ("retrying", Some(line))
            }
            _ => ("waiting", None),
        };
        if let Some(line) = line.filter(|_| state != last_state) {
            self.console.note(&line);
        }
        self.last_line.1 = state;
        let done_bytes = download.done_bytes;
        if let Some(total) = total_bytes.filter(|&total| total > 0 && state == "downloading") {
            let tenth = percent_of(done_bytes, total) / 10;
            if tenth > last_tenth {
                let sizes = of_disk(done_bytes, total);
                self.console
                    .note(&format!("{name}: {} %, {sizes}", tenth * 10));
                self.last_line.0 = tenth;
            }
        }
    }

    /// Shows how the download ended.
    pub(super) fn end(&mut self, plan: &Plan, end: &End) {
        self.bar.finish_and_clear();
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
        self.bar.finish_and_clear();
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

/// The line of a download. On a narrow terminal its end is cut off.
const TEMPLATE: &str = "{bar:16}  {wide_msg}";

/// Returns how much is done, rounded down.
fn percent_of(done_bytes: u64, total_bytes: u64) -> u64 {
    let percent = u128::from(done_bytes.min(total_bytes)) * 100 / u128::from(total_bytes);
    u64::try_from(percent).unwrap_or(100)
}

/// Returns the state of a download, or its rate and the time left.
fn state_text(download: &Download) -> String {
    match &download.state {
        State::Downloading => {
            let rate = Some(download.bytes_per_second).filter(|&rate| rate > 0);
            let rate = rate.map(|rate| format!("{}/s", disk_text(rate)));
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
