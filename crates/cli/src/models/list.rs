//! `transom models list`: the installed models and, with `--all`, those that can be installed.
//!
//! Rule: nothing is loaded or downloaded.

use clap::Args;
use transom_library::Library;
use transom_reports::model_lists::ModelLists;

use crate::{Console, Result};

/// List the installed models
///
/// The list shows the name to use with `--model`, the format and quantization, the size on disk, the
/// longest context, whether the model fits in this computer's memory, and where it comes from.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = include_str!("../help/models-list.txt"))]
pub(super) struct ListArgs {
    /// Also list the models that can be installed
    #[arg(short, long)]
    pub(super) all: bool,

    /// Only models that fit in this computer's memory
    #[arg(long)]
    pub(super) fits: bool,

    /// Write the lists as JSON
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn run(args: &ListArgs, library: &Library, console: &mut Console) -> Result {
    let lists = ModelLists::new(library, args.all, args.fits);
    console.print_result(args.json, &lists, ModelLists::text)
}
