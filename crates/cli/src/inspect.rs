//! `transom inspect`: what a model is, how much memory it needs and whether it fits; without a model,
//! which models suit a machine.
//!
//! Rule: `catalog` reads the files and computes every estimate, and the budget is the supervisor's, so
//! the answer is the same when the model is loaded. Nothing is downloaded or loaded.

#[cfg(test)]
mod tests;

use std::path::Path;

use clap::{Args, ValueEnum};
use serde::Serialize;
use transom_engine::KvCacheChoice;
use transom_library::{Library, LoadSettings, MEMORY_SIZES, Machine, ThisMachine, is_path};
use transom_reports::catalog_entry::CatalogEntry;
use transom_reports::estimate::{FitReport, doubt};
use transom_reports::model_files::ModelFiles;
use transom_reports::recommendations;

use crate::library;
use crate::{Client, Console, Failure, Result};

/// Show what a model is and whether it fits, or which models suit this computer
///
/// With a model: its architecture, sizes and quantization from its files or from the catalog, the memory
/// that it needs by part, whether that fits, the longest context that does, and how fast it will be.
/// Without one: the models for this computer, or for one with other memory. Nothing is downloaded or
/// loaded.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = include_str!("help/inspect.txt"))]
pub(crate) struct InspectArgs {
    /// A model of `transom models list --all`, `id@quantization` for one variant, a GGUF file (any part
    /// of a split model), or a model folder
    #[arg(value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Tokens of context [default: 8192, or the model's own if that is less]
    #[arg(long, value_name = "TOKENS", value_parser = context, requires = "model")]
    pub(crate) context: Option<u64>,

    /// Memory of another Mac, such as 16G [default: this computer]
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub(crate) memory: Option<u64>,

    /// The precision of the KV cache
    #[arg(long, value_name = "HOW", requires = "model")]
    pub(crate) kv: Option<Kv>,

    /// A second model, loaded side by side with the first as its draft model
    #[arg(long, value_name = "MODEL", requires = "model")]
    pub(crate) draft: Option<String>,

    /// Every size of memory from 8 to 192 GB
    #[arg(long, conflicts_with_all = ["model", "memory"])]
    pub(crate) tiers: bool,

    /// Write the result as JSON, with the chat template
    #[arg(long)]
    pub(crate) json: bool,
}

/// The precision of the KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kv {
    /// The fastest here
    Auto,
    /// 16 bits or more
    Full,
    /// 8 bits, if the engine can
    Small,
}

/// Parses a count of tokens; `32k` is 32768.
fn context(text: &str) -> Result<u64, String> {
    let bad = || "must be a whole number of tokens of at least 1, such as 8192 or 32k".to_owned();
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1024),
        None => (text, 1),
    };
    let n: u64 = digits.parse().map_err(|_| bad())?;
    n.checked_mul(factor).filter(|&n| n > 0).ok_or_else(bad)
}

/// Parses bytes of memory; a number without a unit is in gigabytes.
fn memory(text: &str) -> Result<u64, String> {
    let bad = || "must be a size of memory, such as 16G or 16384M".to_owned();
    let lower = text.trim().to_lowercase();
    let size = lower.strip_suffix("ib").or(lower.strip_suffix('b'));
    let size = size.unwrap_or(&lower);
    let (digits, shift) = match size.char_indices().next_back() {
        Some((end, 'm')) => (&size[..end], 20),
        Some((end, 'g')) => (&size[..end], 30),
        Some((end, 't')) => (&size[..end], 40),
        _ => (size, 30),
    };
    let count: f64 = digits.trim().parse().map_err(|_| bad())?;
    let bytes = count * (1u64 << shift) as f64;
    // No system runs in less, and no machine has more.
    match (256e6..=64e12).contains(&bytes) {
        true => Ok(bytes as u64),
        false => Err(bad()),
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Description {
    /// According to its files.
    Files(Box<ModelFiles>),
    /// According to the catalog, for a model that is not installed.
    Entry(Box<CatalogEntry>),
}

impl Description {
    /// Describes the model that `text` names.
    fn of(text: &str, library: &Library) -> Result<Self> {
        let path = match is_path(text) || Path::new(text).exists() {
            true => Some(Path::new(text)),
            false => library.find(text).map(|model| model.id.as_path()),
        };
        Ok(match path {
            Some(path) => {
                let files = ModelFiles::read(path);
                let files = files.map_err(|error| Failure::Model(error.to_string()))?;
                Self::Files(Box::new(files))
            }
            None => Self::Entry(Box::new(CatalogEntry::find(text, library)?)),
        })
    }
}

/// The result as JSON.
#[derive(Serialize)]
struct InspectJson<'a> {
    #[serde(flatten)]
    description: &'a Description,
    /// Whether the model fits, if that can be estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate: Option<&'a FitReport>,
    /// Why it cannot be estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate_problem: Option<String>,
}

pub(crate) fn run(args: &InspectArgs, client: &Client, console: &mut Console) -> Result {
    let library = library::open_to_find(args.model.as_deref().unwrap_or(""), client, console)?;
    match &args.model {
        Some(model) => inspect(args, model, &library, client, console),
        None => recommend(args, &library, console),
    }
}

/// Shows which models suit a machine.
fn recommend(args: &InspectArgs, library: &Library, console: &mut Console) -> Result {
    if args.tiers {
        let macs = MEMORY_SIZES.map(|bytes| ThisMachine::simulated(Machine::with_memory(bytes)));
        let tiers = macs.map(|mac| library.with_machine(mac).recommended());
        return console.print_result(args.json, &tiers, |tiers, layout| {
            recommendations::of_tiers(tiers, layout)
        });
    }
    let (library, name) = on_machine(args, library, None, console);
    console.print_result(args.json, &library.recommended(), |tier, layout| {
        recommendations::of_machine(tier, &name, layout)
    })
}

/// Shows what a model is and whether it fits. Files that cannot be estimated are described only.
fn inspect(
    args: &InspectArgs,
    model: &str,
    library: &Library,
    client: &Client,
    console: &mut Console,
) -> Result {
    let (library, name) = on_machine(args, library, Some(client), console);
    let description = Description::of(model, &library)?;
    let report = match estimate(args, model, &library, name, console) {
        // What the catalog lists can be estimated, so the request is wrong.
        Err(failure) if args.draft.is_some() || matches!(description, Description::Entry(_)) => {
            return Err(failure);
        }
        report => report,
    };
    let json = InspectJson {
        description: &description,
        estimate: report.as_ref().ok(),
        estimate_problem: report.as_ref().err().map(ToString::to_string),
    };
    console.print_result(args.json, &json, |json, layout| {
        // Files show the memory that they need unless an estimate follows.
        let text = match &description {
            Description::Files(files) => files.text(layout, json.estimate.is_none()),
            Description::Entry(entry) => entry.text(layout),
        };
        match json.estimate {
            Some(report) => text + "\n" + &report.text(layout),
            None => text,
        }
    })?;
    if args.json {
        return Ok(());
    }
    if let Some(problem) = &json.estimate_problem {
        console.note(problem);
    }
    if let Description::Entry(entry) = &description {
        console.note(&entry.advice());
    }
    Ok(())
}

/// Estimates the memory and the speed of `model`, and of the draft model beside it, on the machine
/// called `name`.
fn estimate(
    args: &InspectArgs,
    model: &str,
    library: &Library,
    name: String,
    console: &mut Console,
) -> Result<FitReport> {
    let settings = LoadSettings {
        context_length: args.context.map(|n| n as usize),
        kv_cache: match args.kv {
            None | Some(Kv::Auto) => KvCacheChoice::Automatic,
            Some(Kv::Full) => KvCacheChoice::Full,
            Some(Kv::Small) => KvCacheChoice::Small,
        },
    };
    let main = library.subject(model)?;
    let draft = args.draft.as_ref();
    let draft = draft.map(|draft| library.draft_subject(&main, draft, &settings));
    let draft = draft.transpose()?;
    if let Some(doubt) = draft.as_ref().and_then(|draft| doubt(&main, draft)) {
        console.note(&doubt);
    }
    Ok(FitReport::new(main, draft, library, &settings, name))
}

/// Returns the library on the machine in question, and the machine's name for people. With a client
/// this computer has its budget now, and loaded models are unloaded if another needs their room.
fn on_machine(
    args: &InspectArgs,
    library: &Library,
    client: Option<&Client>,
    console: &Console,
) -> (Library, String) {
    if let Some(bytes) = args.memory {
        let machine = ThisMachine::simulated(Machine::with_memory(bytes));
        let name = format!("a Mac with {}", recommendations::machine_memory(bytes));
        return (library.with_machine(machine), name);
    }
    let progress = console.progress();
    let mut machine = library.machine().clone();
    machine = machine.with_bandwidth(|| progress.show("Measuring the memory …"));
    let memory = recommendations::machine_memory(machine.specs().memory_bytes);
    let name = match machine.chip_name() {
        "" => format!("this computer with {memory}"),
        chip => format!("this computer ({chip}) with {memory}"),
    };
    if let Some(client) = client {
        let running = client.running().ok().flatten();
        let status = running.map(|handle| handle.status().borrow().clone());
        let (budget_bytes, in_use_bytes) = match status {
            Some(status) => (status.budget_bytes, status.in_use_bytes),
            None => (machine.available_memory().budget_bytes, 0),
        };
        machine = machine.with_status(budget_bytes, in_use_bytes);
    }
    (library.with_machine(machine), name)
}
