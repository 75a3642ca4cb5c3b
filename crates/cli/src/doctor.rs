//! `transom doctor`: what this computer is, what it says of itself, and what follows from that.
//!
//! Rule: it shows the figures and reasons that the supervisor itself goes by, and starts nothing.

mod report;

use clap::Args;
use transom_engine::ModelSource;
use transom_library::ThisMachine;
use transom_signals::{Hardware, SignalSource, SystemSignals, parse_simulation};
use transom_supervisor::settings::{self, Settings};
use transom_supervisor::{Governor, budget, variants};

use crate::console::Console;
use crate::failure::Failure;
use crate::link::Link;
use crate::output::json::write_line;
use crate::output::progress::Progress;

use report::{Instance, Report, SettingsReport};

/// Show what this computer has, what it says and what models may use
///
/// Memory pressure, heat and power decide how much a model may take and do. This shows each of
/// them, where it comes from, and what follows from it now.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = "\
Examples:
  transom doctor
  transom doctor --measure                              also time the memory, for a second or two
  transom doctor --simulate memory=warning,power=low    what would follow from that
  transom doctor --json

Exit codes: 0 shown, 2 bad simulation.")]
pub(crate) struct DoctorArgs {
    /// Show what would follow from these signals: memory=normal|warning|critical,
    /// heat=nominal|fair|serious|critical, power=normal|low, battery, thrashing
    #[arg(long, value_name = "SIGNALS", value_parser = simulation)]
    pub(crate) simulate: Option<SystemSignals>,

    /// Measure the memory's bandwidth too
    #[arg(long)]
    pub(crate) measure: bool,

    /// Write everything as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn simulation(text: &str) -> Result<SystemSignals, String> {
    parse_simulation(text).map_err(|error| error.to_string())
}

/// Runs the command.
pub(crate) fn run(args: &DoctorArgs, link: &Link, console: &mut Console) -> Result<(), Failure> {
    let source = transom_signals::system_signals();
    let report = gather(args, &*source, link, console)?;
    if args.json {
        write_line(console.out, &report).map_err(Failure::Output)
    } else {
        let is_dimmed = console.terminals.stdout && console.colour;
        console.print(&report.text(is_dimmed))
    }
}

fn gather(
    args: &DoctorArgs,
    source: &dyn SignalSource,
    link: &Link,
    console: &mut Console,
) -> Result<Report, Failure> {
    let hardware = Hardware::detect();
    let data_folder = link.folder()?.to_path_buf();
    let machine = ThisMachine::read(&hardware, &data_folder, None);
    let measured = args.measure.then(|| {
        Progress::new(console).show("Measuring the memory …");
        machine.measure_bandwidth()
    });
    let (settings, settings_problem) = match Settings::read(&data_folder) {
        Ok(settings) => (settings, None),
        Err(error) => (None, Some(error.to_string())),
    };
    let tuning = settings.clone().unwrap_or_default().tuning();
    // First, because it waits for services that take a moment to answer.
    let sources = source.report();
    let signals = args.simulate.unwrap_or_else(|| source.current());
    let mut governor = Governor::new(&hardware, &tuning);
    governor.observe(signals, std::time::Duration::ZERO);
    let (running, problem) = match link.running() {
        Ok(Some(_)) => (Some(link.status()?), None),
        Ok(None) => (None, None),
        Err(failure) => (None, Some(failure.to_string())),
    };
    // What a running instance goes by is in force; without one, what the next will go by.
    let in_force = running.as_ref().filter(|_| args.simulate.is_none());
    let budget = budget::of_machine(&hardware, &tuning);
    let budget_bytes = in_force.map_or_else(
        || budget::bytes_under(signals.memory, &budget),
        |status| status.budget_bytes,
    );
    let allowance = in_force.map_or_else(
        || governor.allowance().clone(),
        |status| status.allowance.clone(),
    );
    Ok(Report {
        budget_bytes,
        bounds: budget.bounds,
        bandwidth: machine.specs().bandwidth,
        measured_bandwidth: measured,
        engines: engines(&hardware),
        hardware,
        sources,
        is_simulated: args.simulate.is_some(),
        signals: in_force.map_or(signals, |status| status.signals),
        allowance,
        is_in_force: in_force.is_some(),
        settings: SettingsReport {
            path: data_folder.join(settings::FILE_NAME),
            chosen: settings,
            problem: settings_problem,
        },
        instance: Instance {
            data_folder,
            process_id: running.map(|status| status.process_id),
            problem,
        },
    })
}

/// The forms of a model in the order in which they are tried on `hardware`.
fn engines(hardware: &Hardware) -> Vec<&'static str> {
    let source = |path: &str| ModelSource { path: path.into() };
    let forms = vec![source("folder"), source("file.gguf")];
    let tried = variants::in_order(forms, hardware).into_iter();
    tried
        .map(|form| match form.path.extension() {
            Some(_) => "llama.cpp",
            None => "MLX",
        })
        .collect()
}
