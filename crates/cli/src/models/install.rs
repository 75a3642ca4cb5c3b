//! `transom models install`: fetches models, whole and verified, and says beforehand what that means.
//!
//! Rule: nothing is fetched that will not fit in memory unless a person insists, and what came is
//! never lost.

mod fetch;
mod network;
mod plan;

#[cfg(test)]
mod tests;

use std::path::Path;

use clap::Args;
use transom_hub::HubError;
use transom_library::Library;
use transom_library::download::Plan;
use transom_library::{MODELS_FOLDER, PARTS_FOLDER};

use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::Link;
use crate::models::{add, elsewhere};
use crate::output::stats::bytes_text;

use fetch::{End, fetch};
use plan::plan;
pub(crate) use plan::tilde;

/// Fetch models, from the list or from the hub
///
/// Where no packing is named, the one is taken that suits this computer: for MLX where that has a
/// GPU, GGUF elsewhere, with four bits a weight where they are offered. Every file is checked before
/// it is in its place. What is interrupted goes on where it was when the same command is given again.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = "\
Examples:
  transom models install qwen3-4b                  an entry of `transom models list --all`
  transom models install qwen3-4b@8-bit            this packing (or @mlx, @gguf)
  transom models install qwen3-4b qwen3-0.6b       one after the other
  transom models install Qwen/Qwen3-4B-GGUF:Q8_0   a repository of the hub, and a packing or file
  transom models install https://huggingface.co/mlx-community/Qwen3-4B-4bit
  transom models install ./my-model ~/b.gguf       on the disk already: listed, used where it lies

The hub is huggingface.co, or what HF_ENDPOINT names. HF_HUB_OFFLINE=1 forbids the network.

Exit codes: 0 installed, or here already; 1 the hub or the disk failed; 2 bad request; 3 no such
model, or it does not fit in memory; 130 interrupted (what came is kept).")]
pub(super) struct InstallArgs {
    /// Id of the list, perhaps with @packing, owner/name of the hub, perhaps with :packing, or the path
    /// of a model folder or GGUF file
    #[arg(value_name = "MODEL", required = true)]
    pub(super) models: Vec<String>,

    /// Fetch it although it does not fit in this computer's memory
    #[arg(long)]
    pub(super) anyway: bool,

    /// Say what would be fetched, and fetch nothing
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Give up after this long without a network [default: never at a terminal, else 120]
    #[arg(long, value_name = "SECONDS")]
    pub(super) wait: Option<u64>,

    /// Write progress as JSON, one object a line
    #[arg(long)]
    pub(super) json: bool,
}

/// Runs the command.
pub(super) fn run(
    args: &InstallArgs,
    library: &Library,
    link: &Link,
    console: &mut Console,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let (paths, names): (Vec<&String>, Vec<&String>) =
        args.models.iter().partition(|text| add::is_on_disk(text));
    for path in paths {
        add::run(path.as_ref(), args.dry_run, args.json, library, console)?;
    }
    if names.is_empty() {
        return Ok(());
    }
    let hub = elsewhere::hub(link)?;
    let mut plans: Vec<Plan> = Vec::new();
    for text in names {
        let plan = plan(text, library, &hub, link, interrupt)?;
        if let Some(model) = library.installed_plan(&plan) {
            let place = tilde(&model.id);
            console.note(&format!("{} is installed already, in {place}.", plan.name));
        } else if plans.iter().all(|other| other.id != plan.id) {
            plans.push(plan);
        }
    }
    let data_folder = link.folder()?;
    let models_folder = data_folder.join(MODELS_FOLDER);
    let free_bytes = free_bytes(&models_folder);
    for (index, plan) in plans.iter().enumerate() {
        if !args.json {
            if index > 0 {
                console.note_plain("\n");
            }
            let columns = (console.columns)();
            let text = plan::text(plan, elsewhere::name_of(&hub), free_bytes, columns);
            console.note_plain(&text);
        }
        check(plan, args.anyway)?;
    }
    let parts = models_folder.join(PARTS_FOLDER);
    check_disk(&plans, free_bytes, &parts)?;
    if plans.is_empty() || args.dry_run {
        return Ok(());
    }
    transom_files::create_private_folder(data_folder)
        .map_err(|error| Failure::Instance(format!("{}: {error}", data_folder.display())))?;
    let ends = fetch(&plans, hub, &parts, args, link, console, interrupt)?;
    finish(&plans, &ends, args.json, console)
}

/// Refuses what will not fit, unless the user insists.
fn check(plan: &Plan, anyway: bool) -> Result<(), Failure> {
    match &plan.fit {
        Some(fit) if !fit.verdict.is_usable() && !anyway => Err(Failure::Model(format!(
            "{} does not fit in this computer's memory: it needs {}, and models may use {}; \
             `transom fit` shows some that fit, --anyway fetches it all the same",
            plan.name,
            bytes_text(fit.need_bytes),
            bytes_text(fit.room_bytes)
        ))),
        _ => Ok(()),
    }
}

/// Refuses what the disk cannot hold, before anything is asked of the hub. What came earlier is part
/// of what will be there; exactly how much of it counts, the download sees itself.
fn check_disk(plans: &[Plan], free_bytes: Option<u64>, parts: &Path) -> Result<(), Failure> {
    let needed_bytes = plans
        .iter()
        .filter_map(|plan| plan.size_bytes)
        .fold(0, u64::saturating_add);
    // A part has its whole length from the start, so its length says nothing.
    let came_bytes = transom_files::disk_usage_bytes(parts);
    match free_bytes {
        Some(free_bytes) if needed_bytes > free_bytes.saturating_add(came_bytes) => {
            Err(Failure::Hub(HubError::DiskFull {
                folder: parts.parent().unwrap_or(parts).to_owned(),
                needed_bytes: needed_bytes.saturating_sub(came_bytes),
                free_bytes,
            }))
        }
        _ => Ok(()),
    }
}

/// Bytes that the disk of `folder` still has for this user.
fn free_bytes(folder: &Path) -> Option<u64> {
    let there = folder.ancestors().find(|folder| folder.is_dir())?;
    transom_signals::free_disk_bytes(there).ok()
}

/// Says how to go on, and fails if anything failed.
fn finish(plans: &[Plan], ends: &[End], json: bool, console: &mut Console) -> Result<(), Failure> {
    let pairs = || plans.iter().zip(ends);
    let failed: Vec<&str> = pairs()
        .filter(|(_, end)| matches!(end, End::Failed(_)))
        .map(|(plan, _)| plan.name.as_str())
        .collect();
    let done = pairs().find(|(_, end)| matches!(end, End::Done { .. }));
    if let Some((plan, _)) = done
        && !json
    {
        console.note(&format!("Try it: transom chat --model {}", plan.name));
    }
    match (failed.as_slice(), ends) {
        ([], _) => Ok(()),
        (_, [End::Failed(error)]) => Err(error.clone().into()),
        (failed, _) => Err(Failure::SomeFailed(format!(
            "not installed: {}; see above",
            failed.join(", ")
        ))),
    }
}
