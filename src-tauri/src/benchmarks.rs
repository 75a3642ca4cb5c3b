//! Benchmarks that the user starts in the settings, one at a time, with the app's supervisor.
//!
//! Rule: a benchmark that is stopped has a result of what was measured until then.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use transom_bench::{BenchError, Benchmark, EarlyEnd, Measured, SustainedReport};
use transom_bench::{SustainedBench, SustainedOptions, load};
use transom_library::{InstalledModel, Library, LoadSettings};
use transom_supervisor::{ClientId, Handle, ModelRequest, WhenBlocked, Work};

use crate::lock;
use crate::wire::{BenchmarkFormat, BenchmarkProgress, CommandError, CommandResult};

/// Minutes that a benchmark may take in each engine.
pub(crate) const MINUTES: RangeInclusive<u64> = 1..=30;

/// The benchmark that runs, if there is one.
#[derive(Default)]
pub(crate) struct Benchmarks {
    running: Mutex<Option<Running>>,
}

#[derive(Default)]
struct Running {
    stop: Arc<Notify>,
    progress: Option<BenchmarkProgress>,
}

impl Benchmarks {
    /// Begins a benchmark and returns its stop signal.
    ///
    /// # Errors
    /// There is one already.
    pub(crate) fn begin(&self) -> CommandResult<Arc<Notify>> {
        let mut running = lock(&self.running);
        if running.is_some() {
            return Err(CommandError::other("a benchmark is already running"));
        }
        Ok(running.insert(Running::default()).stop.clone())
    }

    /// Sets the progress. Returns true if it is news for pages.
    pub(crate) fn set_progress(&self, progress: &BenchmarkProgress) -> bool {
        let mut running = lock(&self.running);
        let Some(running) = &mut *running else {
            return false;
        };
        let is_new = running.progress.as_ref() != Some(progress);
        running.progress = Some(progress.clone());
        is_new
    }

    pub(crate) fn progress(&self) -> Option<BenchmarkProgress> {
        lock(&self.running).as_ref()?.progress.clone()
    }

    pub(crate) fn stop(&self) {
        if let Some(running) = &*lock(&self.running) {
            running.stop.notify_one();
        }
    }

    pub(crate) fn end(&self) {
        *lock(&self.running) = None;
    }
}

/// Measures `model` for `length` in each engine that runs it. `None` if it was stopped before there was a
/// result.
///
/// # Errors
/// The first error, if no engine runs it.
pub(crate) async fn measure(
    handle: &Handle,
    library: &Library,
    model: &InstalledModel,
    length: Duration,
    stop: &Notify,
    on_progress: impl Fn(BenchmarkProgress),
) -> CommandResult<Option<Benchmark>> {
    let options = SustainedOptions::new(length);
    let paths = &model.files.paths;
    let name = model.title(library.catalog());
    let mut forms: Vec<SustainedReport> = Vec::new();
    let mut error = None;
    for (index, path) in paths.iter().enumerate() {
        let progress = |engine: Option<String>, measured: Duration| {
            let before = length.as_secs() * index as u64;
            on_progress(BenchmarkProgress {
                model: name.clone(),
                engine,
                seconds: before + measured.min(length).as_secs(),
                total_seconds: length.as_secs() * paths.len() as u64,
            });
        };
        match measure_form(handle, library, model, path, options, stop, progress).await {
            Ok(Some(form)) => {
                let ended_early = form.ended_early;
                forms.push(form);
                if ended_early == Some(EarlyEnd::Interrupted) {
                    break;
                }
            }
            Ok(None) => break,
            // The other engine may run it.
            Err(first) => _ = error.get_or_insert(first),
        }
    }
    match (forms.is_empty(), error) {
        (true, Some(error)) => Err(CommandError::other(error)),
        (true, None) => Ok(None),
        (false, _) => Ok(Some(
            library.benchmark(model, Measured::Sustained { forms }),
        )),
    }
}

/// Loads the files of a model at `path`, and measures them. `None` if it was stopped during the load.
async fn measure_form(
    handle: &Handle,
    library: &Library,
    model: &InstalledModel,
    path: &Path,
    options: SustainedOptions,
    stop: &Notify,
    on_progress: impl Fn(Option<String>, Duration),
) -> Result<Option<SustainedReport>, BenchError> {
    let settings = LoadSettings {
        context_length: Some(options.context_length()),
        ..LoadSettings::default()
    };
    let mut spec = library.spec(model, &settings);
    spec.variants.retain(|variant| variant.path == path);
    let request = ModelRequest {
        when_blocked: WhenBlocked::Refuse,
        ..ModelRequest::new(ClientId::app(), spec, Work::Load)
    };
    on_progress(None, Duration::ZERO);
    let info = tokio::select! {
        info = load(handle, request.clone()) => info?,
        () = stop.notified() => return Ok(None),
    };
    let start = Instant::now();
    let clock = move || start.elapsed();
    let engine = info.engine.clone();
    let mut bench = SustainedBench::new(handle.clone(), request, info, options, clock)?;
    let ended_early = tokio::select! {
        ended = bench.run(|time| on_progress(Some(engine.clone()), time.unwrap_or_default())) => ended?,
        () = stop.notified() => Some(EarlyEnd::Interrupted),
    };
    let predicted = library.predicted_speed(model, path, options.context_needed());
    let predicted = predicted.map(|speed| (speed.low, speed.high));
    Ok(Some(bench.finish(ended_early, predicted).await))
}

/// Returns the suggested name of an exported file, such as `Starter speed.svg`.
pub(crate) fn file_name(benchmark: &Benchmark, format: BenchmarkFormat) -> String {
    let kind = match &benchmark.measured {
        Measured::Sustained { .. } => "speed",
        Measured::Quality { .. } => "quality",
    };
    let extension = match format {
        BenchmarkFormat::Svg => "svg",
        BenchmarkFormat::Json => "json",
    };
    let is_safe = |character: char| character.is_alphanumeric() || " .-_".contains(character);
    let model: String = benchmark.model.chars().filter(|c| is_safe(*c)).collect();
    format!("{} {kind}.{extension}", model.trim())
}

#[cfg(test)]
mod tests;
