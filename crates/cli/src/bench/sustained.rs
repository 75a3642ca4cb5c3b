//! `transom bench --sustained`: the speed over minutes, in each engine that has files of the model.
//!
//! Rule: a measurement that ends early, by Ctrl-C or by a limit, shows what was measured until then.

mod report;

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use transom_bench::plot::{self, Series};
use transom_bench::sustained::{
    MachineState, Prediction, Recorder, Window, energy, minutes, throttling,
};
use transom_engine::{
    FinishReason, GenerationParams, Prompt, SamplingParams, TokenEvent, Truncation,
};
use transom_library::{InstalledModel, Library};
use transom_signals::EnergyMeter;
use transom_supervisor::{ResponseEvent, Status};

use crate::bench::BenchArgs;
use crate::library;
use crate::load::{Loaded, ModelArgs, load_from};
use crate::output::{Progress, stop_reason};
use crate::{Client, Console, Failure, Result};

use report::{INTERRUPTED, Report, Settings};

/// Returns the time since the start of the command.
type Clock<'a> = &'a dyn Fn() -> Duration;

pub(super) fn run(
    args: &BenchArgs,
    length: Duration,
    clock: Clock<'_>,
    client: &Client,
    console: &mut Console,
) -> Result {
    let [n_prompt] = args.prompt_tokens[..] else {
        let message = "--sustained takes one length; give --prompt-tokens one number";
        return Err(Failure::usage(message));
    };
    let (library, model) = library::open_for(args.model.model.as_deref(), client, console)?;
    let paths = model.files.paths.clone();
    let mut reports = Vec::new();
    let mut first_failure = None;
    for path in &paths {
        let lengths = (n_prompt, args.generate_tokens, length);
        let measured = measure_form(
            &library, &model, path, args, lengths, clock, client, console,
        );
        match measured {
            Ok(report) => {
                console.print_result(args.json, &report, Report::text)?;
                reports.push(report);
            }
            Err(Failure::Interrupted) => return Err(Failure::Interrupted),
            // The other form may run here.
            Err(failure) => {
                if paths.len() > 1 {
                    console.note(&format!("{}: {failure}", path.display()));
                }
                first_failure.get_or_insert(failure);
            }
        }
        if reports.last().is_some_and(Report::is_interrupted) {
            break;
        }
    }
    if let Some(failure) = first_failure.filter(|_| reports.is_empty()) {
        return Err(failure);
    }
    if let Some(file) = &args.plot {
        let image = plot::svg(&title(&reports), &series(&reports));
        let written = std::fs::write(file, image);
        written.map_err(|error| Failure::Failed(format!("{}: {error}", file.display())))?;
        console.note(&format!("The plot is in {}.", file.display()));
    }
    match reports.iter().any(Report::is_interrupted) {
        true => Err(Failure::Interrupted),
        false => Ok(()),
    }
}

/// Loads one form of the model and measures it.
#[expect(clippy::too_many_arguments, reason = "the parts of one call")]
fn measure_form(
    library: &Library,
    model: &InstalledModel,
    path: &Path,
    args: &BenchArgs,
    (n_prompt, n_generate, length): (usize, usize, Duration),
    clock: Clock<'_>,
    client: &Client,
    console: &mut Console,
) -> Result<Report> {
    let needed = n_prompt.saturating_add(n_generate);
    let mut model_args: ModelArgs = args.model.clone();
    model_args.context_length.get_or_insert(needed.max(1024));
    let loaded = load_from(
        library,
        model.clone(),
        Some(path),
        &model_args,
        false,
        client,
        console,
    )?;
    if needed > loaded.info.context_length {
        return Err(Failure::Usage(format!(
            "these lengths need a context of {needed} tokens, but it holds {}; choose smaller \
             --prompt-tokens or --generate-tokens",
            loaded.info.context_length
        )));
    }
    let (meter, energy_problem) = match EnergyMeter::start() {
        Ok(meter) => (Some(meter), None),
        Err(problem) => (None, Some(problem)),
    };
    let status = client.status()?;
    let progress = console.progress();
    let mut run = Run {
        loaded: &loaded,
        client,
        clock,
        began: clock(),
        length,
        recorder: Recorder::default(),
        meter,
        n_prompt,
        n_generate,
        n_prompts_made: 0,
    };
    client.interrupt.ignore_when_idle();
    let ended = run.measure(&progress);
    client.interrupt.end_when_idle();
    progress.clear();
    let ended_early = ended?;
    let end = run.now();
    let state = run.state()?;
    let windows = run.recorder.finish(end, &state);
    let predicted = library.predicted_speed(model, path, needed);
    let energy = energy(&windows);
    Ok(Report {
        model: loaded.info.name.clone(),
        engine: loaded.info.engine.clone(),
        settings: settings(&loaded, &status, n_prompt, n_generate),
        minutes: minutes(&windows),
        throttling: throttling(&windows),
        energy_problem: energy_problem.filter(|_| energy.is_none()),
        energy,
        prediction: predicted.and_then(|speed| Prediction::new(speed.low, speed.high, &windows)),
        windows,
        ended_early,
    })
}

fn settings(loaded: &Loaded, status: &Status, n_prompt: usize, n_generate: usize) -> Settings {
    let info = &loaded.info;
    let need = loaded.find_in(status).and_then(|model| model.need);
    Settings {
        stored_as: info.stored_as.clone(),
        computed_as: info.computed_as.clone(),
        context_length: info.context_length,
        prompt_tokens: n_prompt,
        generate_tokens: n_generate,
        temperature: 0.0,
        speculation: false,
        weight_bytes: need.map(|need| need.weight_bytes),
        kv_cache_bytes: need.map(|need| need.kv_cache_bytes),
        budget_bytes: status.budget_bytes,
    }
}

/// A measurement in progress.
struct Run<'a> {
    loaded: &'a Loaded,
    client: &'a Client,
    clock: Clock<'a>,
    began: Duration,
    length: Duration,
    recorder: Recorder,
    meter: Option<EnergyMeter>,
    n_prompt: usize,
    n_generate: usize,
    n_prompts_made: u64,
}

impl Run<'_> {
    fn now(&self) -> Duration {
        (self.clock)().saturating_sub(self.began)
    }

    /// Generates responses until the time is over. Returns why it ended earlier.
    fn measure(&mut self, progress: &Progress) -> Result<Option<String>> {
        // Compiles kernels and fills caches.
        let warm_up = self.respond(progress, false)?;
        if warm_up.is_some() {
            return Ok(warm_up);
        }
        self.began = (self.clock)();
        self.meter = self.meter.take().and_then(|_| EnergyMeter::start().ok());
        while self.now() < self.length {
            let ended = self.respond(progress, true)?;
            if ended.is_some() {
                return Ok(ended);
            }
        }
        Ok(None)
    }

    /// Generates a response and records its tokens. Returns why the measurement must end.
    fn respond(&mut self, progress: &Progress, is_recorded: bool) -> Result<Option<String>> {
        let params = GenerationParams {
            sampling: SamplingParams {
                temperature: 0.0,
                ..SamplingParams::default()
            },
            max_tokens: Some(self.n_generate),
            ignore_end_of_text: true,
            speculate: false,
            ..GenerationParams::default()
        };
        let prompt = Prompt::Tokens(self.next_prompt());
        let request = self.loaded.request(prompt, Truncation::Disabled, params);
        let status = self.client.handle()?.status();
        let last: Cell<Option<(Duration, usize)>> = Cell::new(None);
        let mut recorder = std::mem::take(&mut self.recorder);
        let mut meter = self.meter.take();
        let (clock, began, length) = (self.clock, self.began, self.length);
        let now = || clock().saturating_sub(began);
        let completion = self.client.send(&request, &mut |event| {
            let time = now();
            if let ResponseEvent::Token {
                event:
                    TokenEvent::Text {
                        generated_tokens: n,
                        ..
                    },
            } = event
                && let Some((from, n_before)) = last.replace(Some((time, n)))
                && is_recorded
            {
                recorder.add_tokens(from, time, n.saturating_sub(n_before));
            }
            if is_recorded && recorder.needs_state(time) {
                let state = state_of(&status.borrow(), meter.as_mut());
                recorder.add_state(time, &state);
            }
            progress.show(&match is_recorded {
                true => format!("{} of {} s", time.as_secs(), length.as_secs()),
                false => "warming up".to_owned(),
            });
            Ok(())
        });
        let end = now();
        (self.recorder, self.meter) = (recorder, meter);
        let completion = completion?;
        if completion.was_interrupted {
            return Ok(Some(INTERRUPTED.to_owned()));
        }
        let (reason, stats) = completion.finished()?;
        if is_recorded {
            // Tokens without text are in no event.
            let (from, n_before) = match last.get() {
                Some(last) => last,
                None => (end.saturating_sub(stats.decode_time), 1),
            };
            let n_more = stats.generated_tokens.saturating_sub(n_before);
            self.recorder.add_tokens(from, end, n_more);
            if self.recorder.needs_state(end) {
                let state = self.state()?;
                self.recorder.add_state(end, &state);
            }
        }
        Ok(match reason {
            FinishReason::Shed => Some(stop_reason(self.client)),
            FinishReason::Canceled => Some("the model was unloaded".to_owned()),
            FinishReason::Stop | FinishReason::Length => None,
        })
    }

    fn state(&mut self) -> Result<MachineState> {
        let status = self.client.status()?;
        Ok(state_of(&status, self.meter.as_mut()))
    }

    /// Returns fixed token ids that begin differently each time, so that none are in a KV cache.
    fn next_prompt(&mut self) -> Vec<u32> {
        let vocab_size = self.loaded.info.vocab_size.max(1) as u64;
        self.n_prompts_made += 1;
        let ids = (0..self.n_prompt as u64).map(|at| transom_bench::mixed(at + (1 << 20)));
        let mut ids: Vec<u32> = ids.map(|id| (id % vocab_size) as u32).collect();
        if let Some(first) = ids.first_mut() {
            *first = (transom_bench::mixed(self.n_prompts_made) % vocab_size) as u32;
        }
        ids
    }
}

fn state_of(status: &Status, meter: Option<&mut EnergyMeter>) -> MachineState {
    let limits = status.restrictions.limits.iter();
    MachineState {
        thermal: status.signals.thermal.to_string(),
        limits: limits.map(ToString::to_string).collect(),
        joules: meter.map(EnergyMeter::joules),
    }
}

fn title(reports: &[Report]) -> String {
    let name = reports.first().map_or("", |report| &report.model);
    format!("Sustained speed of {name}")
}

fn series(reports: &[Report]) -> Vec<Series> {
    let of_report = |report: &Report| Series {
        name: format!("{}: {}", report.engine, report.settings.stored_as),
        points: report.windows.iter().filter_map(point).collect(),
        throttled_at: report.throttling.map(|found| found.at_seconds),
    };
    reports.iter().map(of_report).collect()
}

/// Returns the middle of a window and its speed.
fn point(window: &Window) -> Option<(f64, f64)> {
    let middle = window.start_seconds + window.seconds / 2.0;
    Some((middle, window.tokens_per_second?))
}

#[cfg(test)]
mod tests;
