//! `transom chat`: a conversation in the terminal, or line by line through pipes.
//!
//! Rule: a failed or stopped response never ends the conversation. Ctrl-C stops a response and keeps
//! its text; after a failure the message can be sent again.

mod commands;
mod session;
mod summary;
mod transcript;

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use transom_library::Origin;
use transom_terminal::{Line, LineSource};

use crate::load::{Loaded, ModelArgs, load};
use crate::output::parameters_text;
use crate::sampling_args::GenerationArgs;
use crate::{Client, Console, Failure, Result};

use session::Chat;

/// Talk with a model in the terminal
///
/// Type a message and press Enter. A backslash at the end of a line, or Alt-Enter, begins a new
/// line in the same message. Ctrl-C stops a response, Ctrl-D or /quit ends the chat; /help lists
/// the commands.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = include_str!("help/chat.txt"))]
pub(crate) struct ChatArgs {
    /// Instructions that the model follows throughout
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// What to do when the conversation outgrows the context
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    pub(crate) overflow: Overflow,

    /// Show tokens, times, speeds and memory after each response
    #[arg(long)]
    pub(crate) stats: bool,

    /// Write the reasoning too when the output is not a terminal, between <think> and </think>
    #[arg(long)]
    pub(crate) show_reasoning: bool,

    /// The model.
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// The options for responses.
    #[command(flatten)]
    pub(crate) generation: GenerationArgs,
}

/// What to do when a conversation outgrows the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Overflow {
    /// Leave the oldest exchanges out
    #[default]
    Drop,
    /// Refuse the message, with the numbers
    Stop,
    /// Leave the oldest exchanges out, and give the model a summary of them
    Summarize,
}

/// Runs the command until the user leaves or the input ends.
pub(crate) fn run(args: &ChatArgs, client: &Client, console: &mut Console) -> Result {
    args.generation.check()?;
    let loaded = load(&args.model, false, client, console)?;
    if !loaded.info.has_chat_template {
        return Err(Failure::Model(format!(
            "{} has no chat template, so it only continues text; use `transom ask`, or choose an \
             instruct model",
            loaded.info.name
        )));
    }
    print_greeting(&loaded, console);
    let mut lines = match console.is_interactive() {
        true => LineSource::edited(history_path(), &commands::NAMES).map_err(Failure::input)?,
        false => LineSource::piped(),
    };
    if console.is_interactive() {
        client.interrupt.ignore_when_idle();
    }
    let mut chat = Chat::new(args, client, loaded);
    loop {
        match lines.next_line(console.input).map_err(line_failure)? {
            Line::Text(text) => {
                if chat.handle_line(&text, console)?.is_break() {
                    break;
                }
            }
            Line::Interrupted => console.note("To leave, type /quit or press Ctrl-D."),
            Line::End => break,
        }
    }
    match chat.n_failed {
        n if n > 0 && !console.is_interactive() => {
            let message = format!("{n} of the messages got no response; see above");
            Err(Failure::failed(message))
        }
        _ => Ok(()),
    }
}

/// Returns the history file in the data folder, which is created if it does not exist.
fn history_path() -> Option<PathBuf> {
    let folder = transom_supervisor::instance::data_folder().ok()?;
    transom_files::create_private_folder(&folder).ok()?;
    Some(folder.join("chat-history"))
}

fn line_failure(error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::InvalidData => Failure::usage(error.to_string()),
        _ => Failure::input(error),
    }
}

/// Notes which model responds, and how to use the chat.
fn print_greeting(loaded: &Loaded, console: &mut Console) {
    let info = &loaded.info;
    let (name, length) = (&info.name, info.context_length);
    let parameters = parameters_text(info.n_parameters);
    console.note(&format!(
        "{name}, {parameters} parameters, context of {length} tokens"
    ));
    if loaded.model.origin == Origin::Starter {
        let card = loaded.model.id.join("README.md");
        let current_dir = std::env::current_dir().unwrap_or_default();
        console.note(&format!(
            "The bundled starter model: very small, and sometimes wrong. See {}",
            card.strip_prefix(current_dir).unwrap_or(&card).display()
        ));
    }
    if console.is_interactive() {
        console.note("Type a message. /help lists the commands; Ctrl-D ends the chat.");
        console.write_err("\n");
    }
}

#[cfg(test)]
mod tests;
