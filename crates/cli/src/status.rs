//! `transom status`: what the running instance does now, and why.
//!
//! Rule: it only reads the status, and starts nothing if no instance is running.

use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use tokio::time::sleep;
use transom_reports::status as view;
use transom_supervisor::Status;
use transom_terminal::screen;

use crate::{Client, Console, Failure, Result};

/// Show what is loaded, what it uses and what is limited
///
/// With --watch the status is updated at every change until you press Ctrl-C.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = include_str!("help/status.txt"))]
pub(crate) struct StatusArgs {
    /// Keep showing it
    #[arg(short, long)]
    pub(crate) watch: bool,

    /// Write it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &StatusArgs, client: &Client, console: &mut Console) -> Result {
    let Some(handle) = client.running()? else {
        let text = "Nothing is running. `transom chat` or `transom ask` starts it.\n";
        return console.print_result(args.json, &StatusJson::default(), |_, _| text.to_owned());
    };
    let mut display = Display::new(args, console);
    let mut receiver = handle.status();
    if !args.watch {
        return display.show(&receiver.borrow(), Duration::ZERO);
    }
    let ended = client.wait(async {
        loop {
            let status = receiver.borrow_and_update().clone();
            let received = Instant::now();
            display.show(&status, Duration::ZERO)?;
            let counts_down = status.models.iter().any(|model| model.unloads_in.is_some());
            loop {
                tokio::select! {
                    changed = receiver.changed() => match changed {
                        Ok(()) => break,
                        Err(_) => return display.show_end(),
                    },
                    () = sleep(Duration::from_secs(1)), if counts_down => {
                        display.show(&status, received.elapsed())?;
                    }
                }
            }
        }
    });
    match ended {
        Err(Failure::Interrupted) => display.leave(),
        ended => ended,
    }
}

#[derive(Default, Serialize)]
struct StatusJson<'a> {
    is_running: bool,
    #[serde(flatten)]
    status: Option<&'a Status>,
}

/// Shows one status after the other: on a terminal in place of the one before, elsewhere below it.
struct Display<'a, 'c> {
    console: &'a mut Console<'c>,
    json: bool,
    /// Whether a status is drawn over the one before, on the alternate screen.
    is_live: bool,
    /// What was shown last.
    shown: Option<String>,
}

impl<'a, 'c> Display<'a, 'c> {
    fn new(args: &StatusArgs, console: &'a mut Console<'c>) -> Self {
        Self {
            json: args.json,
            is_live: args.watch && !args.json && console.layout().is_dimmed,
            shown: None,
            console,
        }
    }

    /// Shows `status`, which was received `age` ago.
    fn show(&mut self, status: &Status, age: Duration) -> Result {
        // A countdown alone is no change for a program or a file.
        if !self.is_live && !age.is_zero() {
            return Ok(());
        }
        if self.json {
            return self.console.print_json(&StatusJson {
                is_running: true,
                status: Some(status),
            });
        }
        let text = view::text(status, age, self.console.layout());
        let is_first = self.shown.is_none();
        self.console.print(&match (self.is_live, is_first) {
            (true, true) => screen::ENTER.to_owned() + &screen::frame(&text),
            (true, false) => screen::frame(&text),
            (false, true) => text.clone(),
            (false, false) => format!("\n{text}"),
        })?;
        self.shown = Some(text);
        Ok(())
    }

    /// Ends the display and leaves the last status on the screen.
    fn leave(&mut self) -> Result {
        match self.shown.take().filter(|_| self.is_live) {
            Some(text) => self.console.print(&(screen::LEAVE.to_owned() + &text)),
            None => Ok(()),
        }
    }

    fn show_end(&mut self) -> Result {
        self.leave()?;
        let text = "\nTransom is no longer running.\n";
        self.console
            .print_result(self.json, &StatusJson::default(), |_, _| text.to_owned())
    }
}

#[cfg(test)]
mod tests;
