//! One line on standard error that shows what a program waits for.
//!
//! Rule: it is gone when the wait ends.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use transom_files::visible;

/// The line. It must be cleared before anything else is written to the terminal; dropping clears it.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Returns a dimmed line, which shows nothing yet.
    pub fn new(target: ProgressDrawTarget) -> Self {
        Self::with_template("{wide_msg:.dim}", target)
    }

    /// Returns a line like [`Self::new`] that is not dimmed.
    pub fn undimmed(target: ProgressDrawTarget) -> Self {
        Self::with_template("{wide_msg}", target)
    }

    fn with_template(template: &str, target: ProgressDrawTarget) -> Self {
        let style = ProgressStyle::with_template(template);
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Self {
            bar: ProgressBar::with_draw_target(None, target).with_style(style),
        }
    }

    /// Replaces the line. On a narrow terminal its end is cut off.
    pub fn show(&self, text: &str) {
        let text = visible(text).into_owned();
        if self.bar.is_finished() {
            self.bar.reset();
        } else if self.bar.message() == text {
            return;
        }
        self.bar.set_message(text);
        // Drawn even if indicatif's rate limit would skip it: no other change may follow.
        self.bar.force_draw();
    }

    /// Removes the line.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// Returns how much is done, in percent and rounded down; `None` if there is nothing to do.
pub fn percent_of(done_bytes: u64, total_bytes: u64) -> Option<u64> {
    let hundredfold = u128::from(done_bytes.min(total_bytes)) * 100;
    let percent = hundredfold.checked_div(total_bytes.into())?;
    u64::try_from(percent).ok()
}
