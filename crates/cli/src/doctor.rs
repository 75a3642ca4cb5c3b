//! `transom doctor`: this computer, its system signals, and the limits that follow.
//!
//! Rule: it shows the figures and reasons that the supervisor itself uses, and starts nothing.

use std::path::{Path, PathBuf};

use clap::Args;
use transom_engine::ModelSource;
use transom_files::visible;
use transom_library::{Library, ThisMachine};
use transom_reports::diagnostics::{self, ReportParts};
use transom_reports::doctor::{DoctorReport, InstanceReport, SettingsReport};
use transom_signals::{Hardware, SignalSource, SystemSignals, parse_simulation};
use transom_supervisor::settings::{self, Settings};
use transom_supervisor::{Governor, budget, variants};

use crate::{Client, Console, Failure, Layout, Result};

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

    /// Write a report about a problem to this file, else to standard output: versions, this computer,
    /// the installed models and the end of the log; no text of chats, no tokens, no paths
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = ["json", "simulate"])]
    pub(crate) report: Option<Option<PathBuf>>,

    /// Write everything as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &DoctorArgs, client: &Client, console: &mut Console) -> Result {
    let report = gather(args, &*transom_signals::system_signals(), client, console)?;
    match &args.report {
        Some(file) => write_report(&report, file.as_deref(), client, console),
        None => console.print_result(args.json, &report, DoctorReport::text),
    }
}

/// Writes the report about a problem to `file`, else to standard output.
fn write_report(
    report: &DoctorReport,
    file: Option<&Path>,
    client: &Client,
    console: &mut Console,
) -> Result {
    let data_folder = client.data_folder()?;
    let (library, problems) = Library::open(data_folder, &report.hardware);
    let status = match report.instance.process_id {
        Some(_) => Some(client.status()?),
        None => None,
    };
    let text = diagnostics::text(&ReportParts {
        doctor: report.text(Layout::default()),
        library: &library,
        library_problems: &problems,
        status: status.as_deref(),
        log: transom_library::diagnostics::log_lines(data_folder),
        system: diagnostics::system(),
        is_set: |name| std::env::var_os(name).is_some(),
        data_folder,
        home: std::env::home_dir(),
    });
    let Some(file) = file else {
        return console.print(&visible_lines(&text));
    };
    let written = std::fs::write(file, text);
    written.map_err(|error| Failure::Failed(format!("{}: {error}", file.display())))?;
    console.note(&format!(
        "The report is in {}. Read it before you send it.",
        file.display()
    ));
    Ok(())
}

/// Returns `text` with the control characters in its lines replaced.
fn visible_lines(text: &str) -> String {
    let lines = text.lines().map(|line| format!("{}\n", visible(line)));
    lines.collect()
}

fn gather(
    args: &DoctorArgs,
    source: &dyn SignalSource,
    client: &Client,
    console: &Console,
) -> Result<DoctorReport> {
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
    Ok(DoctorReport {
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
        instance: InstanceReport {
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
