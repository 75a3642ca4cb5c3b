//! `transom models install`: downloads and verifies models, and shows the plan beforehand.
//!
//! Rule: a model that does not fit in memory is downloaded only if the user insists, and downloaded
//! bytes are never lost.

mod display;
mod download;
mod plan;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use clap::Args;
use transom_hub::{DownloadsOptions, HubError};
use transom_library::download::Plan;
use transom_library::{DiskSpace, Library, MODELS_FOLDER, PARTS_FOLDER};

use crate::models::{add, hub};
use crate::output::{memory_text, tilde};
use crate::{Client, Console, Failure, Layout, Result};

use download::download_all;
use plan::plan;

/// Download models, from the catalog or from the hub
///
/// If you name no quantization, the one that suits this computer is installed: for MLX if it has a GPU,
/// else GGUF, with four bits per weight if they are offered. Every file is verified before it is in its
/// place. If a download is interrupted, the same command continues it.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = include_str!("../help/models-install.txt"))]
pub(super) struct InstallArgs {
    /// Id in the catalog (or id@quantization), owner/name on the hub (or owner/name:quantization), or the
    /// path of a model folder or GGUF file
    #[arg(value_name = "MODEL", required = true)]
    pub(super) models: Vec<String>,

    /// Download it even if it does not fit in this computer's memory
    #[arg(long)]
    pub(super) anyway: bool,

    /// Show what would be downloaded, and download nothing
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Fail after this time without a network [default: never on a terminal, else 120]
    #[arg(long, value_name = "SECONDS")]
    pub(super) wait: Option<u64>,

    /// Write progress as JSON, one object a line
    #[arg(long)]
    pub(super) json: bool,
}

/// How long the download of one model took, or why it failed.
type End = Result<Duration, HubError>;

pub(super) fn run(
    args: &InstallArgs,
    library: &Library,
    client: &Client,
    console: &mut Console,
) -> Result {
    let (paths, names): (Vec<&String>, Vec<&String>) =
        args.models.iter().partition(|text| add::is_on_disk(text));
    for path in paths {
        add::run(path.as_ref(), args.dry_run, args.json, library, console)?;
    }
    if names.is_empty() {
        return Ok(());
    }
    let hub = hub::hub(client)?;
    let mut plans: Vec<Plan> = Vec::new();
    for text in names {
        let plan = plan(text, library, &hub, client)?;
        if let Some(model) = library.installed_plan(&plan) {
            let place = tilde(&model.id);
            console.note(&format!("{} is installed already, in {place}.", plan.name));
        } else if plans.iter().all(|other| other.id != plan.id) {
            plans.push(plan);
        }
    }
    let data_folder = client.data_folder()?;
    let options = DownloadsOptions {
        // The first model is complete, and usable, as early as possible.
        max_concurrent: 1,
        ..DownloadsOptions::in_folder(data_folder.join(MODELS_FOLDER).join(PARTS_FOLDER))
    };
    let free_bytes = DiskSpace::read(&options, &[]).free_bytes;
    let layout = Layout {
        columns: Some((console.columns)()),
        is_dimmed: false,
    };
    for (index, plan) in plans.iter().enumerate() {
        if !args.json {
            let gap = if index > 0 { "\n" } else { "" };
            let text = plan::text(plan, hub::name_of(&hub), free_bytes, layout);
            console.write_err(&format!("{gap}{text}"));
        }
        check_memory(plan, args.anyway)?;
    }
    check_disk(&plans, free_bytes, &options.parts_folder)?;
    if plans.is_empty() || args.dry_run {
        return Ok(());
    }
    transom_files::create_private_folder(data_folder)
        .map_err(|error| Failure::failed(format!("{}: {error}", data_folder.display())))?;
    let ends = download_all(&plans, hub, options, args, client, console)?;
    finish(&plans, &ends, args.json, console)
}

/// Refuses a model that does not fit in memory, unless the user insists.
fn check_memory(plan: &Plan, anyway: bool) -> Result {
    match &plan.estimate {
        Some(estimate) if !estimate.fit.is_usable() && !anyway => Err(Failure::Model(format!(
            "{} does not fit in this computer's memory: it needs {}, and models may use {}; \
             `transom inspect` shows some that fit, --anyway downloads it anyway",
            plan.name,
            memory_text(estimate.need_bytes),
            memory_text(estimate.room_bytes)
        ))),
        _ => Ok(()),
    }
}

/// Refuses models that the disk has no space for, before the hub is asked. Bytes of earlier part files
/// are part of the models; the download checks exactly how many of them it can use.
fn check_disk(plans: &[Plan], free_bytes: Option<u64>, parts: &Path) -> Result {
    let sizes = plans.iter().filter_map(|plan| plan.size_bytes);
    let needed_bytes = sizes.fold(0, u64::saturating_add);
    // A part file has its full length from the start, so only its allocated blocks count.
    let part_bytes = transom_files::disk_usage_bytes(parts);
    match free_bytes {
        Some(free_bytes) if needed_bytes > free_bytes.saturating_add(part_bytes) => {
            Err(Failure::from(HubError::DiskFull {
                folder: parts.parent().unwrap_or(parts).to_owned(),
                needed_bytes: needed_bytes.saturating_sub(part_bytes),
                free_bytes,
            }))
        }
        _ => Ok(()),
    }
}

/// Shows how to use the first installed model, and fails if any download failed.
fn finish(plans: &[Plan], ends: &[End], json: bool, console: &mut Console) -> Result {
    let (mut installed, mut failed) = (Vec::new(), Vec::new());
    for (plan, end) in plans.iter().zip(ends) {
        match end {
            Ok(_) => installed.push(plan.name.as_str()),
            Err(_) => failed.push(plan.name.as_str()),
        }
    }
    if let Some(name) = installed.first().filter(|_| !json) {
        console.note(&format!("Try it: transom chat --model {name}"));
    }
    match ends {
        [Err(error)] => Err(error.clone().into()),
        _ if failed.is_empty() => Ok(()),
        _ => Err(Failure::Failed(format!(
            "not installed: {}; see above",
            failed.join(", ")
        ))),
    }
}
