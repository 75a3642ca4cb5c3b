//! The arguments of the command line, and the help that explains them.
//!
//! Rule: the help is the manual. It must lead a newcomer to a first response, and list every exit code
//! and environment variable. The examples and exit codes of each command are in `help/`.

use clap::{ArgAction, Parser, Subcommand};

use crate::ask::AskArgs;
use crate::bench::BenchArgs;
use crate::chat::ChatArgs;
use crate::doctor::DoctorArgs;
use crate::embed::EmbedArgs;
use crate::inspect::InspectArgs;
use crate::models::ModelsArgs;
use crate::status::StatusArgs;
use crate::unload::UnloadArgs;

/// Chat with a language model that runs on this computer.
///
/// Nothing leaves the machine: the model is a folder or file on your disk, and responses need no
/// network. A very small model is included, so this works immediately:
///
///   transom chat                       talk with the starter model
///
/// For real use, find a model that suits this computer, and download it once:
///
///   transom inspect                    which models fit, what for, and how fast they will be
///   transom models install qwen3-4b    download one of them
///   transom chat --model qwen3-4b      talk with it
///   transom ask "Sum this up:" --model qwen3-4b < notes.txt
///
/// Each command explains itself: `transom models --help`.
#[derive(Debug, Parser)]
#[command(
    name = "transom",
    version,
    verbatim_doc_comment,
    after_long_help = include_str!("help/transom.txt"),
    after_help = "`transom --help` also shows examples, environment variables and exit codes.",
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub(crate) struct Arguments {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Write more about what happens to standard error; repeat for more detail
    #[arg(short, long, action = ArgAction::Count, global = true, display_order = 900)]
    pub(crate) verbose: u8,
}

// The commands, in the order of the help. A doc comment here would replace the help text of a command
// with arguments, which is with them.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Ask(AskArgs),
    Chat(ChatArgs),
    Embed(EmbedArgs),
    Bench(BenchArgs),
    Status(StatusArgs),
    Unload(UnloadArgs),
    /// Pause: unload all models and start no response, until `transom resume`
    ///
    /// The running response finishes first. New requests wait; nothing is lost. A pause ends when the
    /// running Transom quits.
    #[command(after_long_help = "Exit codes: 0 paused, 1 failed.")]
    Pause,
    /// End the pause of `transom pause`
    ///
    /// The requests that waited start now; the first one loads the model.
    #[command(after_long_help = "Exit codes: 0 resumed, 1 failed.")]
    Resume,
    Doctor(DoctorArgs),
    Models(Box<ModelsArgs>),
    #[command(alias = "fit")]
    Inspect(InspectArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_pass_claps_checks() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_help_lists_every_exit_code_and_environment_variable() {
        let help = Arguments::command().render_long_help().to_string();
        for word in [
            "0 ",
            "1 ",
            "2 ",
            "3 ",
            "130 ",
            "TRANSOM_MODEL",
            "TRANSOM_DATA",
            "TRANSOM_LOG",
            "NO_COLOR",
            "HF_ENDPOINT",
            "HF_TOKEN",
            "HF_HUB_OFFLINE",
        ] {
            let stands_in_a_line = help.lines().any(|line| line.trim().starts_with(word));
            assert!(stands_in_a_line, "{word} is not explained in:\n{help}");
        }
    }
}
