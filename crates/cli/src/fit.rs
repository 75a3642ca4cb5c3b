//! `transom fit`: which models suit a machine, and what one of them needs, long before anything is
//! fetched or loaded.
//!
//! Rule: the sums are `catalog`'s and the budget is the supervisor's, so what is said here is what
//! holds when the model is loaded.

mod report;
mod subject;
mod table;
#[cfg(test)]
mod tests;

use clap::{Args, ValueEnum};
use transom_engine::KvCacheChoice;
use transom_library::{Library, MEMORY_SIZES, Machine, ThisMachine};

use crate::console::Console;
use crate::failure::Failure;
use crate::library;
use crate::link::Link;
use crate::output::json::write_line;

use subject::{Case, Subject};

/// Show which models suit this computer, or whether one does
///
/// Without a model: what to use for what on this computer, or on one with other memory. With one:
/// the memory that it needs by part, whether that fits, the longest context that does, and how fast
/// it will be. Nothing is fetched or loaded.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = "\
Examples:
  transom fit                              which models for this computer
  transom fit --memory 36G                 which for a Mac with 36 GB
  transom fit --tiers                      which for Macs from 8 to 192 GB
  transom fit qwen3-8b                     does this one fit?
  transom fit qwen3-8b@8-bit --context 32768 --kv small
  transom fit qwen3-8b --draft qwen3-0.6b  do these two fit side by side?
  transom fit ~/models/own.gguf --json

--draft plans the memory of two models that are loaded side by side, the second to guess ahead for
the first. It only plans: Transom itself guesses without a second model.

Speeds are estimated from the memory's bandwidth, and measured once a model was used.

Exit codes: 0 shown, whether or not it fits; 2 bad request, 3 no such model.")]
pub(crate) struct FitArgs {
    /// A model of `transom models list --all`, `id@packing` for one variant, or a file or folder
    #[arg(value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Tokens of context [default: 8192, or the model's own if that is less]
    #[arg(long, value_name = "TOKENS", value_parser = context, requires = "model")]
    pub(crate) context: Option<u64>,

    /// Memory of a made-up Mac, such as 16G [default: this computer]
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub(crate) memory: Option<u64>,

    /// How keys and values of the context are kept
    #[arg(long, value_name = "HOW", requires = "model")]
    pub(crate) kv: Option<Kv>,

    /// A second model, loaded side by side with the first to guess ahead for it
    #[arg(long, value_name = "MODEL", requires = "model")]
    pub(crate) draft: Option<String>,

    /// Every size of memory from 8 to 192 GB
    #[arg(long, conflicts_with_all = ["model", "memory"])]
    pub(crate) tiers: bool,

    /// Write the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How keys and values are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kv {
    /// As is fastest here
    Auto,
    /// 16 bits or more
    Full,
    /// 8 bits, where the engine can
    Small,
}

impl Kv {
    fn choice(self) -> KvCacheChoice {
        match self {
            Self::Auto => KvCacheChoice::Automatic,
            Self::Full => KvCacheChoice::Full,
            Self::Small => KvCacheChoice::Small,
        }
    }
}

/// A count of tokens; `32k` is 32768.
fn context(text: &str) -> Result<u64, String> {
    let bad = || "must be a whole number of tokens of at least 1, such as 8192 or 32k".to_owned();
    let (digits, factor) = match text.trim_end_matches(['k', 'K']) {
        digits if digits.len() + 1 == text.len() => (digits, 1024),
        _ => (text, 1),
    };
    let n: u64 = digits.parse().map_err(|_| bad())?;
    n.checked_mul(factor).filter(|&n| n > 0).ok_or_else(bad)
}

/// Bytes of memory; a number without a unit counts gigabytes.
fn memory(text: &str) -> Result<u64, String> {
    let bad = || "must be a size of memory, such as 16G or 16384M".to_owned();
    let lower = text.trim().to_lowercase();
    let lower = lower
        .strip_suffix("ib")
        .or(lower.strip_suffix('b'))
        .unwrap_or(&lower);
    let (digits, unit) = match lower.strip_suffix(['g', 'm', 't']) {
        Some(digits) => (digits, lower.as_bytes()[digits.len()]),
        None => (lower, b'g'),
    };
    let count: f64 = digits.trim().parse().map_err(|_| bad())?;
    let unit = match unit {
        b'm' => 1u64 << 20,
        b't' => 1 << 40,
        _ => 1 << 30,
    };
    let bytes = count * unit as f64;
    // Less holds no system, more no machine has.
    match (256e6..=64e12).contains(&bytes) {
        true => Ok(bytes as u64),
        false => Err(bad()),
    }
}

/// Runs the command.
pub(crate) fn run(args: &FitArgs, link: &Link, console: &mut Console) -> Result<(), Failure> {
    let library = library::open(link, console)?;
    let columns = console.result_columns();
    let is_dimmed = console.dims_results();
    if args.tiers {
        let macs = MEMORY_SIZES.map(|bytes| ThisMachine::simulated(Machine::with_memory(bytes)));
        let tiers = macs.map(|mac| library.with_machine(mac).recommended());
        return match args.json {
            true => write_line(console.out, &tiers).map_err(Failure::Output),
            false => console.print(&table::many(&tiers, columns, is_dimmed)),
        };
    }
    let (machine, called) = machine(args, &library, console);
    let Some(model) = &args.model else {
        let tier = library.with_machine(machine).recommended();
        return match args.json {
            true => write_line(console.out, &tier).map_err(Failure::Output),
            false => console.print(&table::one(&tier, &capital(&called), columns, is_dimmed)),
        };
    };
    let machine = match args.memory {
        Some(_) => machine,
        None => as_it_is_now(machine, link),
    };
    let case = Case {
        args,
        library: &library.with_machine(machine),
    };
    let subject = Subject::find(model, &case)?;
    let draft = match &args.draft {
        Some(draft) => Some(subject.beside(draft, &case)?),
        None => None,
    };
    if let Some(doubt) = draft.as_ref().and_then(|draft| subject.doubt(draft)) {
        console.note(&doubt);
    }
    let report = subject.report(draft, &case, called);
    match args.json {
        true => write_line(console.out, &report).map_err(Failure::Output),
        false => console.print(&report.text(columns, is_dimmed)),
    }
}

/// The machine in question, and what to call it.
fn machine(args: &FitArgs, library: &Library, console: &mut Console) -> (ThisMachine, String) {
    if let Some(bytes) = args.memory {
        let called = format!("a Mac with {}", table::memory_text(bytes));
        return (ThisMachine::simulated(Machine::with_memory(bytes)), called);
    }
    let machine = library::timed(library.machine().clone(), console);
    let memory = table::memory_text(machine.specs().memory_bytes);
    let called = match machine.chip_name() {
        "" => format!("this computer with {memory}"),
        chip => format!("this computer ({chip}) with {memory}"),
    };
    (machine, called)
}

/// The machine with what it has for models now. Loaded models make room for another one.
fn as_it_is_now(machine: ThisMachine, link: &Link) -> ThisMachine {
    let (budget_bytes, in_use_bytes) = match link.running().ok().flatten() {
        Some(handle) => {
            let status = handle.status();
            let status = status.borrow();
            (status.budget_bytes, status.in_use_bytes)
        }
        None => (machine.available_memory().budget_bytes, 0),
    };
    machine.with_status(budget_bytes, in_use_bytes)
}

/// At the beginning of a sentence.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}
