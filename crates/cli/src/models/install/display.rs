//! Shows downloads: a progress bar on a terminal, a line at each tenth elsewhere, JSON for programs.

use transom_hub::Download;
use transom_library::download::Plan;
use transom_reports::download::{ProgressLines, installed_text, progress_line, stopped_text};

use crate::models::install::End;
use crate::output::{Progress, disk_text};
use crate::{Console, Result};

pub(super) struct Display<'a, 'c> {
    console: &'a mut Console<'c>,
    json: bool,
    /// Drawn only on a terminal.
    progress: Progress,
    /// Written elsewhere.
    lines: ProgressLines,
    /// The number of this download, and of how many.
    place: Option<(usize, usize)>,
    done_bytes: u64,
}

impl<'a, 'c> Display<'a, 'c> {
    /// Returns a display that shows nothing yet.
    pub(super) fn new(console: &'a mut Console<'c>, json: bool) -> Self {
        Self {
            progress: Progress::undimmed(console.progress_target()),
            console,
            json,
            lines: ProgressLines::default(),
            place: None,
            done_bytes: 0,
        }
    }

    pub(super) fn begin(&mut self, plan: &Plan, place: Option<(usize, usize)>) {
        self.place = place;
        self.lines = ProgressLines::default();
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
        if self.console.draws_progress() {
            let name = match self.place {
                Some((number, of)) => format!("{} ({number} of {of})", plan.name),
                None => plan.name.clone(),
            };
            self.progress
                .show(&progress_line(name, download, total_bytes));
        } else if let Some(line) = self.lines.next(&plan.name, download, total_bytes) {
            self.console.note(&line);
        }
        Ok(())
    }

    pub(super) fn end(&mut self, plan: &Plan, end: &End) {
        self.progress.clear();
        if self.json {
            return;
        }
        match end {
            Ok(took) => {
                let text = installed_text(&plan.name, plan.size_bytes, *took);
                self.console.note(&text);
            }
            Err(error) => {
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

    pub(super) fn show_stopped(&mut self, plan: &Plan, done_bytes: u64) {
        self.progress.clear();
        self.console.note(&stopped_text(&plan.name, done_bytes));
    }
}
