//! What the person at the terminal sees while a chore works.
//!
//! One line a step with its elapsed time, rewritten every second on a terminal and written once at
//! the end elsewhere. It all goes to stderr, so that the output of the program that `run` starts
//! stays clean.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Writes one line to the person. A closed stderr is no reason to stop working.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A step under way. Dropping it without [`Step::done`] says that it failed.
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

    /// Adds a detail to the line, such as "12 done". Seen on a terminal only.
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

/// Ends when its sender is dropped.
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

/// "0.4 s", "12 s", "3 min 20 s".
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
    fn times_are_written_for_people() {
        assert_eq!(elapsed(Duration::from_millis(440)), "0.4 s");
        assert_eq!(elapsed(Duration::from_secs(61)), "61 s");
        assert_eq!(elapsed(Duration::from_secs(200)), "3 min 20 s");
    }
}
