//! `transom status`: what the running instance does now, and why.
//!
//! Rule: it only looks. Where nothing runs it starts nothing.

mod view;

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use tokio::sync::{Notify, watch};
use transom_supervisor::Status;

use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::Link;
use crate::output::json::write_line;

/// Show what is loaded, what it uses and what is held back
///
/// With --watch the picture follows every change until you press Ctrl-C.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = "\
Examples:
  transom status
  transom status --watch
  transom status --json              one JSON object; with --watch one a line at each change

Exit codes: 0 shown, also when nothing runs; 1 the running instance does not answer.")]
pub(crate) struct StatusArgs {
    /// Go on showing it
    #[arg(short, long)]
    pub(crate) watch: bool,

    /// Write it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the command.
pub(crate) fn run(
    args: &StatusArgs,
    link: &Link,
    console: &mut Console,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let Some(handle) = link.running()? else {
        return if args.json {
            write_line(console.out, &Answer::default()).map_err(Failure::Output)
        } else {
            console.print("Nothing is running. `transom chat` or `transom ask` starts it.\n")
        };
    };
    let mut receiver = handle.status();
    let mut screen = Screen::new(args, console);
    let key = Arc::new(Notify::new());
    let pressed = key.clone();
    let _watch = args
        .watch
        .then(|| interrupt.watch(move || pressed.notify_one()));
    loop {
        let status = receiver.borrow_and_update().clone();
        let taken = Instant::now();
        screen.show(&status, Duration::ZERO)?;
        if !args.watch {
            return Ok(());
        }
        loop {
            match link.runtime()?.block_on(next(&mut receiver, &key, &status)) {
                Next::Changed => break,
                Next::Ticked => screen.show(&status, taken.elapsed())?,
                Next::Left => return Ok(()),
                Next::Gone => return screen.show_end(),
            }
        }
    }
}

/// What comes after a picture.
enum Next {
    Changed,
    /// A second went by, and something counts down.
    Ticked,
    /// Ctrl-C.
    Left,
    /// The instance ended.
    Gone,
}

async fn next(receiver: &mut watch::Receiver<Arc<Status>>, key: &Notify, status: &Status) -> Next {
    let counts_down = status.models.iter().any(|model| model.unloads_in.is_some());
    let second = tokio::time::sleep(Duration::from_secs(1));
    tokio::select! {
        biased;
        () = key.notified() => Next::Left,
        changed = receiver.changed() => match changed {
            Ok(()) => Next::Changed,
            Err(_) => Next::Gone,
        },
        () = second, if counts_down => Next::Ticked,
    }
}

/// The JSON form.
#[derive(Default, Serialize)]
struct Answer<'a> {
    is_running: bool,
    #[serde(flatten)]
    status: Option<&'a Status>,
}

/// Where pictures are drawn: one over the other on a terminal, one after the other elsewhere.
struct Screen<'a, 'b> {
    console: &'a mut Console<'b>,
    json: bool,
    is_redrawn: bool,
    is_coloured: bool,
    shown: Option<String>,
}

impl<'a, 'b> Screen<'a, 'b> {
    fn new(args: &StatusArgs, console: &'a mut Console<'b>) -> Self {
        let is_coloured = console.terminals.stdout && console.colour;
        Self {
            json: args.json,
            is_redrawn: args.watch && !args.json && is_coloured,
            is_coloured,
            shown: None,
            console,
        }
    }

    /// Draws `status`, which was taken `age` ago.
    fn show(&mut self, status: &Status, age: Duration) -> Result<(), Failure> {
        if self.json {
            let answer = Answer {
                is_running: true,
                status: Some(status),
            };
            // Seconds that go by are no news for a program.
            return if age.is_zero() {
                write_line(self.console.out, &answer).map_err(Failure::Output)
            } else {
                Ok(())
            };
        }
        if !age.is_zero() && !self.is_redrawn {
            return Ok(());
        }
        let picture = view::picture(status, age, self.is_coloured);
        let text = match &self.shown {
            Some(shown) if self.is_redrawn => {
                format!(
                    "\x1b[{}F\x1b[J{UNWRAPPED}{picture}{WRAPPED}",
                    shown.lines().count()
                )
            }
            None if self.is_redrawn => format!("{UNWRAPPED}{picture}{WRAPPED}"),
            Some(_) => format!("\n{picture}"),
            None => picture.clone(),
        };
        self.shown = Some(picture);
        self.console.print(&text)
    }

    fn show_end(&mut self) -> Result<(), Failure> {
        if self.json {
            write_line(self.console.out, &Answer::default()).map_err(Failure::Output)
        } else {
            self.console.print("\nTransom is no longer running.\n")
        }
    }
}

/// Lines that are too long are cut while a picture is drawn: a wrapped one would count as two when
/// it is drawn over.
const UNWRAPPED: &str = "\x1b[?7l";
const WRAPPED: &str = "\x1b[?7h";

#[cfg(test)]
mod tests;
