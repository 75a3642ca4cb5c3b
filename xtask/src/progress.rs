//! The progress of a command, for the user at the terminal.
//!
//! Each step has one line with its elapsed time, which is rewritten every second on a terminal and
//! otherwise written at the start and the end. All of it goes to stderr, so stdout has only the
//! output of the program that `run` starts.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::problem::Problem;

/// Prints one line. Ignores a closed stderr.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Does a step of the command, and prints whether it succeeded and how long it took.
pub(crate) fn step<T>(
    title: impl Into<String>,
    work: impl FnOnce(&Step) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let title: String = title.into();
    let (title, started) = (title.as_str(), Instant::now());
    let (sender, details) = mpsc::channel();
    let is_terminal = io::stderr().is_terminal();
    let done = thread::scope(|scope| {
        let step = Step(sender);
        if is_terminal {
            scope.spawn(move || show_time(title, started, &details));
        } else {
            say(&format!("  {title} …"));
        }
        work(&step)
    });
    if is_terminal {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    let mark = if done.is_ok() { "✓" } else { "✗" };
    say(&format!("{mark} {title} ({})", elapsed(started.elapsed())));
    done
}

pub(crate) struct Step(Sender<String>);

impl Step {
    /// Adds a detail to the line, such as "12 done", on a terminal only.
    pub(crate) fn detail(&self, detail: impl Into<String>) {
        let _ = self.0.send(detail.into());
    }
}

/// Rewrites the line of a step until the step ends.
fn show_time(title: &str, started: Instant, details: &Receiver<String>) {
    let mut detail = String::new();
    loop {
        let time = elapsed(started.elapsed());
        let _ = write!(io::stderr(), "\r\x1b[K  {title} ({time}{detail})");
        match details.recv_timeout(Duration::from_secs(1)) {
            Ok(new) if new.is_empty() => detail.clear(),
            Ok(new) => detail = format!(", {new}"),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Formats a time as "0.4 s", "12 s" or "3 min 20 s".
pub(crate) fn elapsed(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 10..120 => format!("{seconds} s"),
        seconds => format!("{} min {:02} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted() {
        assert_eq!(elapsed(Duration::from_millis(440)), "0.4 s");
        assert_eq!(elapsed(Duration::from_secs(61)), "61 s");
        assert_eq!(elapsed(Duration::from_secs(200)), "3 min 20 s");
    }
}
