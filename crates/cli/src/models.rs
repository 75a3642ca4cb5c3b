//! `transom models`: which models there are, here and elsewhere, and how they come and go.
//!
//! Rule: what fits, what is in files and how files are fetched is known below, in `catalog` and
//! `hub`; here it is asked for and told.

mod add;
mod elsewhere;
pub(crate) mod install;
pub(crate) mod list;
mod remove;
mod search;
mod token;

use clap::{Args, Subcommand};

use crate::console::Console;
use crate::failure::Failure;
use crate::inspect::{self, InspectArgs};
use crate::interrupt::Interrupt;
use crate::library;
use crate::link::Link;

use install::InstallArgs;
use list::ListArgs;
use remove::RemoveArgs;
use search::SearchArgs;
use token::TokenArgs;

/// Find, install and remove models
///
/// Models come from a list that is part of Transom, from your own list, and from Hugging Face's hub.
/// What is here already, also in the folders of other apps, is used where it lies.
#[derive(Debug, Clone, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_long_help = "\
Examples:
  transom fit                            which models suit this computer
  transom models list                    which are here
  transom models list --all              and which else may be installed
  transom models search coder            look in the lists, then on the hub
  transom models install qwen3-4b        the variant that suits this computer
  transom models install qwen3-4b@Q8_0   this one
  transom models install ./my-model      one on the disk: listed, and used where it lies
  transom models remove qwen3-4b

Your own list is models.toml in the data folder, in the form of Transom's own; an entry in it with
an id of Transom's list takes the place of that one.

Exit codes: 0 done, 1 the hub or the disk failed, 2 bad request or not confirmed, 3 no such model,
130 interrupted (what was fetched is kept)."
)]
pub(crate) struct ModelsArgs {
    /// What to do.
    #[command(subcommand)]
    command: ModelsCommand,
}

// In the order of the help. Each is explained where its arguments are.
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
pub(crate) fn run(
    args: &ModelsArgs,
    link: &Link,
    console: &mut Console,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    match &args.command {
        ModelsCommand::Inspect(args) => inspect::run(args, link, console),
        ModelsCommand::Token(args) => token::run(args, link, console, interrupt),
        ModelsCommand::List(args) => list::run(args, &library::open(link, console)?, console),
        ModelsCommand::Search(args) => {
            let library = library::open(link, console)?;
            search::run(args, &library, link, console, interrupt)
        }
        ModelsCommand::Install(args) => {
            let library = library::open(link, console)?;
            install::run(args, &library, link, console, interrupt)
        }
        ModelsCommand::Remove(args) => {
            let library = library::open(link, console)?;
            remove::run(args, &library, link, console)
        }
    }
}
