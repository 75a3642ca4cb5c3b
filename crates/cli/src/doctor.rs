//! `transom doctor`: what this computer is, what it says, and what follows from it.
use clap::Args;

use crate::console::Console;
use crate::failure::Failure;
use crate::link::Link;

/// Show the hardware
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct DoctorArgs {}

/// Runs the command.
pub(crate) fn run(_: &DoctorArgs, _: &Link, _: &mut Console) -> Result<(), Failure> {
    Ok(())
}
