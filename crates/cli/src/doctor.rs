//! `transom doctor`: this computer, its system signals, and the limits that follow.
//!
//! Rule: it shows the figures and reasons that the supervisor itself uses, and starts nothing.

mod report;

use clap::Args;
use transom_engine::ModelSource;
use transom_library::ThisMachine;
use transom_signals::{Hardware, SignalSource, SystemSignals, parse_simulation};
use transom_supervisor::settings::{self, Settings};
use transom_supervisor::{Governor, budget, variants};

use crate::{Client, Console, Result};

use report::{Instance, Report, SettingsReport};

/// Show the hardware, the system signals, and what models may use
///
/// Memory pressure, heat and power limit what a model may use and do. This shows each signal, where it
/// comes from, and the limits in force.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = include_str!("help/doctor.txt"))]
pub(crate) struct DoctorArgs {
    /// Show the limits that would follow from these signals: memory=normal|warning|critical,
    /// heat=nominal|fair|serious|critical, power=normal|low, battery, thrashing
    #[arg(long, value_name = "SIGNALS", value_parser = parse_simulation)]
    pub(crate) simulate: Option<SystemSignals>,

    /// Also measure the memory bandwidth
    #[arg(long)]
    pub(crate) measure: bool,

    /// Write everything as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &DoctorArgs, client: &Client, console: &mut Console) -> Result {
    let report = gather(args, &*transom_signals::system_signals(), client, console)?;
    console.print_result(args.json, &report, Report::text)
}

fn gather(
    args: &DoctorArgs,
    source: &dyn SignalSource,
    client: &Client,
    console: &Console,
) -> Result<Report> {
    let hardware = Hardware::detect();
    let data_folder = client.data_folder()?.to_path_buf();
    let machine = ThisMachine::read(&hardware, &data_folder, None);
    let measured = args.measure.then(|| {
        let progress = console.progress();
        progress.show("Measuring the memory …");
        machine.measure_bandwidth()
    });
    let (settings, settings_problem) = match Settings::read(&data_folder) {
        Ok(settings) => (settings, None),
        Err(error) => (None, Some(error.to_string())),
    };
    let tuning = settings.clone().unwrap_or_default().tuning();
    // First, because some services need a moment to respond.
    let sources = source.report();
    let signals = args.simulate.unwrap_or_else(|| source.current());
    let mut governor = Governor::new(&hardware, &tuning);
    governor.observe(signals, std::time::Duration::ZERO);
    let (running, problem) = match client.running() {
        Ok(Some(_)) => (Some(client.status()?), None),
        Ok(None) => (None, None),
        Err(failure) => (None, Some(failure.to_string())),
    };
    // The values of a running instance are in force; without one, those of the next instance are shown.
    let in_force = running.as_ref().filter(|_| args.simulate.is_none());
    let budget = budget::of_machine(&hardware, &tuning);
    let (budget_bytes, signals, restrictions) = match in_force {
        Some(status) => (status.budget_bytes, status.signals, &status.restrictions),
        None => {
            let budget_bytes = budget::bytes_under(signals.memory, &budget);
            (budget_bytes, signals, governor.restrictions())
        }
    };
    let restrictions = restrictions.clone();
    Ok(Report {
        budget_bytes,
        bounds: budget.bounds,
        bandwidth: machine.specs().bandwidth,
        measured_bandwidth: measured,
        engines: engines(&hardware),
        hardware,
        sources,
        is_simulated: args.simulate.is_some(),
        signals,
        restrictions,
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

/// Returns the engines in the order in which they are tried on `hardware`.
fn engines(hardware: &Hardware) -> Vec<&'static str> {
    let source = |path: &str| ModelSource { path: path.into() };
    let forms = vec![source("folder"), source("file.gguf")];
    let in_order = variants::in_order(forms, hardware).into_iter();
    let engine = |form: ModelSource| match form.path.extension() {
        Some(_) => "llama.cpp",
        None => "MLX",
    };
    in_order.map(engine).collect()
}
