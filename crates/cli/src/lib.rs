//! The command line: `transom ask`, `chat`, `bench`, `status`, `unload`, `pause`, `resume`,
//! `doctor`, `models`, `fit` and `inspect`.
//!
//! A thin shell round one supervisor. Each command is a plain function from arguments, a
//! [`link::Link`] to the supervisor and a [`console::Console`] to an exit code, so that tests run it
//! without a terminal or a native library. No engine is named here: models live in a process of
//! their own.
//!
//! Rule: standard output carries answers and results only; progress, notes, logs and errors go to
//! standard error.

mod arguments;
mod ask;
mod bench;
mod chat;
mod console;
mod doctor;
mod failure;
mod fit;
mod inspect;
mod interrupt;
mod library;
mod link;
mod load;
mod models;
mod output;
mod pause;
mod sampling_args;
mod silent;
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

use arguments::{Arguments, Command};
use console::{Console, Terminals, colour_is_wanted, columns_of_terminal};
use failure::Failure;
use interrupt::Interrupt;
use link::Link;

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
    // Not locked for good: the line editor takes it too.
    let mut input = BufReader::new(std::io::stdin());
    let mut out = std::io::stdout().lock();
    let mut err = std::io::stderr();
    let mut console = Console {
        input: &mut input,
        out: &mut out,
        err: &mut err,
        terminals,
        colour: colour_is_wanted(std::env::var_os("NO_COLOR"), std::env::var_os("TERM")),
        columns: columns_of_terminal,
    };
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let run = AssertUnwindSafe(|| {
        Interrupt::install()
            .map_err(Failure::Signals)
            .and_then(|interrupt| run(&arguments, &mut console, &interrupt))
    });
    let result = catch_unwind(run).unwrap_or_else(|panic| Err(Failure::from_panic(&*panic)));
    let code = failure::report(result, console.err);
    ExitCode::from(code)
}

/// Parses `arguments` (the program's name first) and runs the command.
fn run(
    arguments: &[OsString],
    console: &mut Console,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return help_or_failure(&error, console),
    };
    start_log(arguments.verbose, console)?;
    let link = Link::new(interrupt.clone());
    let result = match &arguments.command {
        Command::Ask(args) => ask::run(args, &link, console, interrupt),
        Command::Chat(args) => chat::run(args, &link, console, interrupt),
        Command::Bench(args) => bench::run(args, &link, console, interrupt),
        Command::Status(args) => status::run(args, &link, console, interrupt),
        Command::Unload(args) => unload::run(args, &link, console),
        Command::Pause(_) => pause::run(true, &link, console),
        Command::Resume(_) => pause::run(false, &link, console),
        Command::Doctor(args) => doctor::run(args, &link, console),
        Command::Models(args) => models::run(args, &link, console, interrupt),
        Command::Fit(args) => fit::run(args, &link, console),
        Command::Inspect(args) => inspect::run(args, &link, console),
    };
    link.close(console, interrupt);
    result
}

/// Help and version are results; everything else that clap stops at is a usage error.
fn help_or_failure(error: &clap::Error, console: &mut Console) -> Result<(), Failure> {
    let rendered = error.render();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let is_styled = console.terminals.stdout && console.colour;
            let text = if is_styled {
                rendered.ansi().to_string()
            } else {
                rendered.to_string()
            };
            console.print(&text)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Err(Failure::HelpNeeded(rendered.to_string()))
        }
        _ => Err(Failure::from_clap(&rendered.to_string())),
    }
}

/// Sends logs to standard error: `TRANSOM_LOG` decides when set, else the number of `-v`.
fn start_log(verbosity: u8, console: &Console) -> Result<(), Failure> {
    let filter = match std::env::var("TRANSOM_LOG") {
        Ok(directives) => directives,
        Err(_) => match verbosity {
            0 => "warn",
            1 => "warn,transom=info",
            2 => "warn,transom=debug",
            _ => "debug,transom=trace",
        }
        .to_owned(),
    };
    let filter = EnvFilter::builder().parse(&filter).map_err(|error| {
        Failure::Usage(format!(
            "TRANSOM_LOG is `{filter}`, which is not a log filter ({error}); try `info`"
        ))
    })?;
    // Fails only when the process has a subscriber already, which then stays.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(console.terminals.stderr && console.colour)
        .without_time()
        .try_init();
    Ok(())
}
