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

use crate::library;
use crate::{Client, Console, Result};

use install::InstallArgs;
use list::ListArgs;
use remove::RemoveArgs;
use search::SearchArgs;
use token::TokenArgs;

/// Find, install and remove models
///
/// Models come from Transom's catalog, from your own models.toml, and from Hugging Face's hub. Transom
/// uses models in the folders of other apps in place.
#[derive(Debug, Clone, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_long_help = include_str!("help/models.txt")
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
    Token(TokenArgs),
}

pub(crate) fn run(args: &ModelsArgs, client: &Client, console: &mut Console) -> Result {
    let open = library::open;
    match &args.command {
        ModelsCommand::List(args) => list::run(args, &open(client, console)?, console),
        ModelsCommand::Search(args) => search::run(args, &open(client, console)?, client, console),
        ModelsCommand::Install(args) => {
            install::run(args, &open(client, console)?, client, console)
        }
        ModelsCommand::Remove(args) => remove::run(args, &open(client, console)?, client, console),
        ModelsCommand::Token(args) => token::run(args, client, console),
    }
}
