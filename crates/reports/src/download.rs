//! A download as text: one line that is redrawn on a terminal, lines at each tenth elsewhere.

use std::mem::{Discriminant, discriminant};
use std::time::Duration;

use transom_hub::{Download, HubError, State};
use transom_terminal::{bar, disk_text, of_disk, percent_of, rough_time};

const BAR_WIDTH: usize = 16;

/// Returns the line of a download of `total_bytes`, if that is known. `name` is the model's, with its
/// number of several.
pub fn progress_line(name: String, download: &Download, total_bytes: Option<u64>) -> String {
    let done_bytes = download.done_bytes;
    let percent = total_bytes.and_then(|total| percent_of(done_bytes, total));
    let percentage = percent.map(|percent| format!("{percent:>3} %"));
    let sizes = match total_bytes {
        Some(total) => of_disk(done_bytes.min(total), total),
        None => disk_text(done_bytes),
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
    parts.join("  ")
}

/// The lines about one download where nothing can be redrawn.
#[derive(Debug, Default)]
pub struct ProgressLines {
    /// The last tenth that had a line.
    last_tenth: u64,
    last_state: Option<Discriminant<State>>,
}

impl ProgressLines {
    /// Returns a line if the state changed or another tenth is done.
    pub fn next(
        &mut self,
        name: &str,
        download: &Download,
        total_bytes: Option<u64>,
    ) -> Option<String> {
        let state = Some(discriminant(&download.state));
        let is_new = self.last_state != state;
        self.last_state = state;
        match &download.state {
            State::Downloading => {
                let (done_bytes, total_bytes) = (download.done_bytes, total_bytes.unwrap_or(0));
                let tenth = percent_of(done_bytes, total_bytes).unwrap_or(0) / 10;
                if tenth <= self.last_tenth {
                    return None;
                }
                self.last_tenth = tenth;
                let sizes = of_disk(done_bytes, total_bytes);
                Some(format!("{name}: {} %, {sizes}", tenth * 10))
            }
            State::Verifying { .. } if is_new => Some(format!("{name}: verifying")),
            State::Retrying { seconds, error } if is_new => {
                let wait = rough_time(Duration::from_secs(*seconds));
                Some(format!("{name}: {}; again in {wait}", short_reason(error)))
            }
            _ => None,
        }
    }
}

/// Returns that the download of `size_bytes` ended after `took`.
pub fn installed_text(name: &str, size_bytes: Option<u64>, took: Duration) -> String {
    let size = size_bytes.map(disk_text);
    let size = size.map_or(String::new(), |size| format!(", {size}"));
    let took = match took.as_secs() {
        0 => String::new(),
        _ => format!(" in {}", rough_time(took)),
    };
    format!("{name} is installed{size}{took}.")
}

/// Returns that the user stopped the download, and how to continue.
pub fn stopped_text(name: &str, done_bytes: u64) -> String {
    let stopped = match done_bytes {
        0 => "Stopped.".to_owned(),
        n => format!("Stopped; {} are kept.", disk_text(n)),
    };
    format!("{stopped} To continue: transom models install {name}")
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
