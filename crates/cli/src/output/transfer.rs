//! A download in one line: how far, how fast, how long it still takes.
//!
//! Rule: the line fits its width, and its parts keep their places while figures change. What there
//! is no room for goes in this order: the name, the rate, the sizes, the bar.

use std::time::Duration;

use unicode_width::UnicodeWidthStr;

use crate::output::rows::bar;
use crate::output::size::{disk_text, of_disk};
use crate::output::stats::rough_time;

/// A download at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Transfer {
    /// What people call it.
    pub(crate) name: String,
    /// What it is at.
    pub(crate) step: Step,
    /// Bytes that are here.
    pub(crate) done_bytes: u64,
    /// Bytes in all, once they are known.
    pub(crate) total_bytes: Option<u64>,
    /// Bytes a second, as measured a moment ago.
    pub(crate) bytes_per_second: Option<u64>,
    /// How long it still takes at that rate.
    pub(crate) left: Option<Duration>,
}

/// What a download is at.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Others are first, or the hub has not answered yet.
    Waiting,
    /// Bytes come in.
    Fetching,
    /// Bytes are compared with what the hub said of them.
    Verifying,
    /// A fault is waited out.
    Retrying {
        /// Until when.
        after: Duration,
        /// What happened.
        because: String,
    },
}

/// Columns of the longest and the shortest bar.
const BAR: (usize, usize) = (24, 8);

/// Blanks between two parts.
const GAP: &str = "  ";

impl Transfer {
    /// The line, at most `width` columns wide.
    pub(crate) fn line(&self, width: usize) -> String {
        let tails = [
            (true, self.tail(true, true)),
            (false, self.tail(true, true)),
            (false, self.tail(true, false)),
            (false, self.tail(false, false)),
        ];
        for (has_name, tail) in &tails {
            let name = if *has_name { self.name.as_str() } else { "" };
            let taken = tail.width() + GAP.len() + name.width();
            let taken = taken + if name.is_empty() { 0 } else { GAP.len() };
            if taken + BAR.1 <= width {
                let bar = self.bar((width - taken).min(BAR.0));
                let parts = [name, &bar, tail];
                let parts = parts.into_iter().filter(|part| !part.is_empty());
                return parts.collect::<Vec<_>>().join(GAP);
            }
        }
        let [.., (_, shortest)] = tails;
        cut(&shortest, width)
    }

    /// What stands to the right of the bar.
    fn tail(&self, has_sizes: bool, has_rate: bool) -> String {
        let percent = self.percent();
        let mut parts: Vec<String> = Vec::new();
        parts.extend(percent.map(|percent| format!("{percent:>3} %")));
        if has_sizes {
            parts.push(match self.total_bytes {
                Some(total) => of_disk(self.done_bytes.min(total), total),
                None => disk_text(self.done_bytes),
            });
        }
        match &self.step {
            Step::Waiting => parts.push("waiting".to_owned()),
            Step::Verifying => parts.push("verifying".to_owned()),
            Step::Retrying { after, because } if has_rate => {
                parts.push(format!("{because}; again in {}", rough_time(*after)));
            }
            Step::Retrying { after, .. } => {
                parts.push(format!("again in {}", rough_time(*after)));
            }
            Step::Fetching => {
                if let Some(rate) = self.bytes_per_second.filter(|_| has_rate) {
                    parts.push(format!("{:>7}/s", disk_text(rate)));
                }
                parts.extend(self.left.map(|left| format!("{} left", rough_time(left))));
            }
        }
        parts.join(GAP)
    }

    fn percent(&self) -> Option<u64> {
        let total = self.total_bytes?;
        let percent = u128::from(self.done_bytes.min(total)) * 100;
        percent
            .checked_div(u128::from(total))
            .map(|percent| percent as u64)
    }

    fn bar(&self, width: usize) -> String {
        bar(self.done_bytes, self.total_bytes.unwrap_or(0), width)
    }

    /// What is said where no line can be drawn anew: one line for each tenth.
    pub(crate) fn milestone(&self) -> Option<(u64, String)> {
        let tenth = self.percent()? / 10;
        let sizes = of_disk(self.done_bytes, self.total_bytes?);
        let line = format!("{}: {} %, {sizes}", self.name, tenth * 10);
        Some((tenth, line))
    }
}

/// The first `width` columns of `text`.
fn cut(text: &str, width: usize) -> String {
    let mut kept = String::new();
    for letter in text.chars() {
        kept.push(letter);
        if kept.width() > width {
            kept.pop();
            break;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer() -> Transfer {
        Transfer {
            name: "qwen3-4b".to_owned(),
            step: Step::Fetching,
            done_bytes: 1_300_000_000,
            total_bytes: Some(2_500_000_000),
            bytes_per_second: Some(24_000_000),
            left: Some(Duration::from_secs(50)),
        }
    }

    #[test]
    fn a_line_has_what_there_is_room_for() {
        let check = |width, expect: &str| assert_eq!(transfer().line(width), expect);
        check(
            80,
            "qwen3-4b  ████████████░░░░░░░░░░░░   52 %  1.30 of 2.50 GB    24 MB/s  50 s left",
        );
        check(
            60,
            "███████░░░░░░░   52 %  1.30 of 2.50 GB    24 MB/s  50 s left",
        );
        check(50, "███████░░░░░░░░   52 %  1.30 of 2.50 GB  50 s left");
        check(30, "██████░░░░░░   52 %  50 s left");
        check(12, " 52 %  50 s ");
    }

    #[test]
    fn no_line_is_wider_than_its_terminal() {
        let steps = [
            Step::Waiting,
            Step::Fetching,
            Step::Verifying,
            Step::Retrying {
                after: Duration::from_secs(8),
                because: "the connection was dropped".to_owned(),
            },
        ];
        for step in steps {
            for total_bytes in [None, Some(2_500_000_000), Some(0)] {
                for width in 0..120 {
                    let step = step.clone();
                    let transfer = Transfer {
                        step,
                        total_bytes,
                        ..transfer()
                    };
                    let line = transfer.line(width);
                    assert!(line.width() <= width, "{width}: {line:?}");
                }
            }
        }
    }
}
