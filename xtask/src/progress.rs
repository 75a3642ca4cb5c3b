//! The progress of a command, for the user at the terminal.
//!
//! Each step has one line with its elapsed time, which is rewritten every second on a terminal and
//! otherwise written at the start and the end. All of it goes to stderr, so stdout has only the
//! output of the program that `run` starts.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Prints one line. Ignores a closed stderr.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A running step. Dropping it without [`Step::done`] prints that it failed.
pub(crate) struct Step {
    title: String,
    started: Instant,
    ticker: Option<(Sender<String>, JoinHandle<()>)>,
    is_done: bool,
}

impl Step {
    pub(crate) fn start(title: impl Into<String>) -> Self {
        let title = title.into();
        let started = Instant::now();
        let ticker = if io::stderr().is_terminal() {
            Some(spawn_ticker(title.clone(), started))
        } else {
            say(&format!("  {title} …"));
            None
        };
        Self {
            title,
            started,
            ticker,
            is_done: false,
        }
    }

    /// Adds a detail to the line, such as "12 done", on a terminal only.
    pub(crate) fn detail(&self, detail: impl Into<String>) {
        if let Some((sender, _)) = &self.ticker {
            let _ = sender.send(detail.into());
        }
    }

    pub(crate) fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.ticker.take() {
            drop(sender);
            let _ = thread.join();
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
        let mark = if self.is_done { "✓" } else { "✗" };
        let time = elapsed(self.started.elapsed());
        say(&format!("{mark} {} ({time})", self.title));
    }
}

/// Starts a thread that rewrites the line until the sender is dropped.
fn spawn_ticker(title: String, started: Instant) -> (Sender<String>, JoinHandle<()>) {
    let (sender, receiver) = mpsc::channel::<String>();
    let thread = std::thread::spawn(move || {
        let mut detail = String::new();
        loop {
            let time = elapsed(started.elapsed());
            let _ = write!(io::stderr(), "\r\x1b[K  {title} ({time}{detail})");
            match receiver.recv_timeout(Duration::from_secs(1)) {
                Ok(new) if new.is_empty() => detail.clear(),
                Ok(new) => detail = format!(", {new}"),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    });
    (sender, thread)
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
