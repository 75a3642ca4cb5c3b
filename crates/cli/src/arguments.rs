//! The arguments of the command line, and the help that explains them.
//!
//! Rule: the help is the manual. It must lead a newcomer to a first response, and list every exit code
//! and environment variable.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::ask::AskArgs;
use crate::bench::BenchArgs;
use crate::chat::ChatArgs;
use crate::doctor::DoctorArgs;
use crate::inspect::InspectArgs;
use crate::models::ModelsArgs;
use crate::pause::{PauseArgs, ResumeArgs};
use crate::status::StatusArgs;
use crate::unload::UnloadArgs;

/// Chat with a language model that runs on this computer.
///
/// Nothing leaves the machine: the model is a folder or file on your disk, and answers need no
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
    after_long_help = AFTER_HELP,
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

// The commands, in the order of the help. A doc comment here would replace the help text, which is
// with each command's arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Ask(AskArgs),
    Chat(ChatArgs),
    Bench(BenchArgs),
    Status(StatusArgs),
    Unload(UnloadArgs),
    Pause(PauseArgs),
    Resume(ResumeArgs),
    Doctor(DoctorArgs),
    Models(Box<ModelsArgs>),
    Inspect(InspectArgs),
    #[command(hide = true)]
    Fit(InspectArgs),
}

/// The model and its limits.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// Name of an installed model (`transom models list`), a GGUF file, or a model folder
    /// (config.json, *.safetensors, tokenizer.json …) [default: $TRANSOM_MODEL, else the starter]
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<PathBuf>,

    /// Most tokens of prompt and answer together; costs memory [default: 8192, or less where
    /// the model or the memory budget allows less]
    #[arg(long, value_name = "TOKENS", value_parser = at_least_one)]
    pub(crate) context_length: Option<usize>,

    /// Load the model even if it exceeds the memory budget (`transom doctor` shows it); other apps
    /// may slow down
    #[arg(long)]
    pub(crate) over_budget: bool,
}

/// Parses any number. The engine checks its range.
pub(crate) fn number(text: &str) -> Result<f32, String> {
    text.parse()
        .map_err(|_| "must be a number, such as 0.7".into())
}

/// Parses a count that must not be zero.
pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err("must be a whole number of at least 1".into()),
    }
}

const AFTER_HELP: &str = "\
Environment:
  TRANSOM_MODEL   the model to use when --model is not given
  TRANSOM_DATA    data folder: installed models, your models.toml, the running instance's socket
  TRANSOM_LOG     log filter, such as `info` or `transom_engine_mlx=debug` (wins over -v)
  NO_COLOR        set to anything: no colors or dimming
  HF_ENDPOINT     the hub to search and download from [default: https://huggingface.co]
  HF_TOKEN        the hub's token, in place of the one that `transom models token set` stores
  HF_HUB_OFFLINE  set to 1: the network is not used
  HF_HOME, HF_HUB_CACHE, LLAMA_CACHE   where other programs keep models, which are used in place
  HTTPS_PROXY, ALL_PROXY, NO_PROXY     the proxy for the hub

Exit codes:
  0    done; also when the program that reads the output stops reading
  1    the answer failed, or the computer is too busy, too hot or short of memory;
       the hub, the network or the disk failed
  2    the request is wrong: bad option or value, empty prompt, prompt too long, attached document
       that can't be read
  3    the model is missing, cannot be used here or exceeds the memory budget
  130  interrupted with Ctrl-C (an install keeps what it downloaded)

What a model is: a GGUF file, which llama.cpp runs, or a folder in the layout of Hugging Face or
mlx-lm, which MLX runs. One that you already have needs no install:
  transom chat --model ~/models/Qwen3-4B-Q4_K_M.gguf
A folder that holds the same model in both forms is run by whichever suits this computer.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_pass_claps_checks() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_count_must_be_a_whole_number_of_at_least_one() {
        assert_eq!(at_least_one("7"), Ok(7));
        for bad in ["0", "-1", "1.5", "many", ""] {
            assert!(at_least_one(bad).is_err(), "{bad}");
        }
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
