//! The command line: `transom ask`, `chat`, `embed`, `bench`, `status`, `unload`, `pause`, `resume`,
//! `doctor`, `models` and `inspect`.
//!
//! Each command is a plain function of its arguments, a [`client::Client`] of the supervisor and a
//! [`console::Console`], so that tests run it without a terminal or a native library. This crate names
//! no engine: models run in child processes.
//!
//! Rule: standard output gets responses and results only; progress, notes, logs and errors go to
//! standard error.

mod arguments;
mod ask;
mod bench;
mod chat;
mod client;
mod console;
mod doctor;
mod embed;
mod failure;
mod inspect;
mod library;
mod load;
mod models;
mod output;
mod pause;
mod sampling_args;
mod status;
#[cfg(test)]
mod test_console;
#[cfg(test)]
mod test_engine;
mod unload;

use std::ffi::OsString;
use std::io::{BufReader, IsTerminal};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use tracing_subscriber::EnvFilter;
use transom_terminal::{Interrupt, Layout, allows_color, columns_of_terminal, draw_target};

use arguments::{Arguments, Command};
use client::Client;
use console::{Console, Terminals};
use failure::{Failure, Result};

/// Runs the command line of this process and returns the process's exit code.
///
/// The codes are listed at the end of `transom --help`. A panic becomes one line on standard error.
pub fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|panic| tracing::debug!("{panic}")));
    let terminals = Terminals {
        stdin: std::io::stdin().is_terminal(),
        stdout: std::io::stdout().is_terminal(),
        stderr: std::io::stderr().is_terminal(),
    };
    // Not locked, because the line editor reads standard input too.
    let mut input = BufReader::new(std::io::stdin());
    let mut out = std::io::stdout();
    let mut err = std::io::stderr();
    let mut console = Console {
        input: &mut input,
        out: &mut out,
        err: &mut err,
        terminals,
        color: allows_color(std::env::var_os("NO_COLOR"), std::env::var_os("TERM")),
        columns: columns_of_terminal,
        draw_target: &draw_target,
    };
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let run = AssertUnwindSafe(|| {
        let interrupt = Interrupt::install()
            .map_err(|error| Failure::Failed(format!("cannot listen for Ctrl-C: {error}")))?;
        run(&arguments, &mut console, interrupt)
    });
    let result = catch_unwind(run).unwrap_or_else(|panic| Err(Failure::from_panic(&*panic)));
    let code = failure::report(result, console.err);
    ExitCode::from(code)
}

/// Parses `arguments` (the program's name first) and runs the command.
fn run(arguments: &[OsString], console: &mut Console, interrupt: Interrupt) -> Result {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return help_or_failure(&error, console),
    };
    start_log(arguments.verbose, console)?;
    let client = Client::new(interrupt);
    let result = match &arguments.command {
        Command::Ask(args) => ask::run(args, &client, console),
        Command::Chat(args) => chat::run(args, &client, console),
        Command::Embed(args) => embed::run(args, &client, console),
        Command::Bench(args) => bench::run(args, &client, console),
        Command::Status(args) => status::run(args, &client, console),
        Command::Unload(args) => unload::run(args, &client, console),
        Command::Pause => pause::run(true, &client, console),
        Command::Resume => pause::run(false, &client, console),
        Command::Doctor(args) => doctor::run(args, &client, console),
        Command::Models(args) => models::run(args, &client, console),
        Command::Inspect(args) => inspect::run(args, &client, console),
    };
    client.close(console);
    result
}

/// Prints help and version as results; every other clap error is a usage error.
fn help_or_failure(error: &clap::Error, console: &mut Console) -> Result {
    let rendered = error.render();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let text = match console.layout().is_dimmed {
                true => rendered.ansi().to_string(),
                false => rendered.to_string(),
            };
            console.print(&text)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Err(Failure::HelpNeeded(rendered.to_string()))
        }
        _ => Err(Failure::from_clap(&rendered.to_string())),
    }
}

/// Sends logs to standard error: `TRANSOM_LOG` decides if it is set, else the number of `-v`.
fn start_log(verbosity: u8, console: &Console) -> Result {
    let filter = std::env::var("TRANSOM_LOG").unwrap_or_else(|_| {
        let filter = match verbosity {
            0 => "warn",
            1 => "warn,transom=info",
            2 => "warn,transom=debug",
            _ => "debug,transom=trace",
        };
        filter.to_owned()
    });
    let filter = EnvFilter::builder().parse(&filter).map_err(|error| {
        Failure::Usage(format!(
            "TRANSOM_LOG is `{filter}`, which is not a log filter ({error}); try `info`"
        ))
    })?;
    // Fails only if the process has a subscriber already, which then stays.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(console.draws_progress())
        .without_time()
        .try_init();
    Ok(())
}
