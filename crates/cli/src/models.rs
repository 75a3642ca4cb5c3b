//! `transom models`: lists, finds, installs and removes models.
//!
//! Rule: `catalog` decides what fits and reads the files, `hub` downloads; this module only prints.

mod add;
mod hub;
mod install;
mod list;
mod remove;
mod search;
mod token;

use clap::{Args, Subcommand};

use crate::inspect::{self, InspectArgs};
use crate::library;
use crate::{Client, Console, Result};

use install::InstallArgs;
use list::ListArgs;
use remove::RemoveArgs;
use search::SearchArgs;
use token::TokenArgs;

/// Find, install and remove models
///
/// Models come from a list that is part of Transom, from your own list, and from Hugging Face's hub.
/// Models in the folders of other apps are used where they are.
#[derive(Debug, Clone, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_long_help = "\
Examples:
  transom inspect                        which models suit this computer
  transom models list                    the installed models
  transom models list --all              also those that can be installed
  transom models search coder            search the lists, then the hub
  transom models install qwen3-4b        the variant that suits this computer
  transom models install qwen3-4b@Q8_0   this variant
  transom models install ./my-model      one on your disk: listed, and used where it is
  transom models remove qwen3-4b

Your own list is models.toml in the data folder, in the format of Transom's list. An entry with an
id of Transom's list replaces that one.

Exit codes: 0 done, 1 the hub or the disk failed, 2 bad request or not confirmed, 3 no such model,
130 interrupted (the download is kept)."
)]
pub(crate) struct ModelsArgs {
    /// The command.
    #[command(subcommand)]
    command: ModelsCommand,
}

// In the order of the help, whose texts are with the arguments of each command.
#[derive(Debug, Clone, Subcommand)]
enum ModelsCommand {
    List(ListArgs),
    Search(SearchArgs),
    Install(InstallArgs),
    Remove(RemoveArgs),
    Inspect(InspectArgs),
    Token(TokenArgs),
}

/// Runs the command.
pub(crate) fn run(args: &ModelsArgs, client: &Client, console: &mut Console) -> Result {
    let open = library::open;
    match &args.command {
        ModelsCommand::List(args) => list::run(args, &open(client, console)?, console),
        ModelsCommand::Search(args) => search::run(args, &open(client, console)?, client, console),
        ModelsCommand::Install(args) => {
            install::run(args, &open(client, console)?, client, console)
        }
        ModelsCommand::Remove(args) => remove::run(args, &open(client, console)?, client, console),
        ModelsCommand::Inspect(args) => inspect::run(args, client, console),
        ModelsCommand::Token(args) => token::run(args, client, console),
    }
}
