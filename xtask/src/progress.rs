//! The progress of a command, for the user at the terminal.
//!
//! Each step has one line with its elapsed time, which is rewritten every second on a terminal and
//! otherwise written at the start and the end. All of it goes to stderr, so stdout has only the
//! output of the program that `run` starts.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
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
    work: impl FnOnce() -> Result<T, Problem>,
) -> Result<T, Problem> {
    let title: String = title.into();
    let (title, started) = (title.as_str(), Instant::now());
    let (running, ended) = mpsc::channel::<()>();
    let is_terminal = io::stderr().is_terminal();
    let done = thread::scope(|scope| {
        if is_terminal {
            scope.spawn(move || show_time(title, started, &ended));
        } else {
            say(&format!("  {title} …"));
        }
        let done = work();
        drop(running);
        done
    });
    if is_terminal {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    let mark = if done.is_ok() { "✓" } else { "✗" };
    say(&format!("{mark} {title} ({})", elapsed(started.elapsed())));
    done
}

/// Rewrites the line of a step until the step ends.
fn show_time(title: &str, started: Instant, ended: &Receiver<()>) {
    loop {
        let time = elapsed(started.elapsed());
        let _ = write!(io::stderr(), "\r\x1b[K  {title} ({time})");
        if ended.recv_timeout(Duration::from_secs(1)) != Err(RecvTimeoutError::Timeout) {
            return;
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
