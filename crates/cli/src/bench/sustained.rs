//! `transom bench --sustained`: the speed over minutes, in each engine that has files of the model.
//!
//! Rule: a measurement that ends early, by Ctrl-C or by a limit, shows what was measured until then.

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use transom_bench::plot::{self, Series};
use transom_bench::sustained::{
    Energy, MachineState, MinuteSpeed, Prediction, Recorder, Throttling, Window, energy, minutes,
    throttling,
};
use transom_engine::{
    FinishReason, GenerationParams, Prompt, SamplingParams, TokenEvent, Truncation,
};
use transom_files::visible;
use transom_library::{InstalledModel, Library};
use transom_signals::EnergyMeter;
use transom_supervisor::{ResponseEvent, Status};

use crate::bench::BenchArgs;
use crate::library;
use crate::load::{Loaded, ModelArgs, load_from};
use crate::output::{Progress, Rows, Table, bytes_text, numbers, rate_text, stop_reason, words};
use crate::{Client, Console, Failure, Layout, Result};

/// Rows of the table, at most. The JSON has every window.
const MAX_ROWS: usize = 30;

/// Returns the time since the start of the command.
type Clock<'a> = &'a dyn Fn() -> Duration;

/// The result of one engine.
#[derive(Debug, Serialize)]
struct Report {
    model: String,
    engine: String,
    settings: Settings,
    windows: Vec<Window>,
    minutes: Vec<MinuteSpeed>,
    throttling: Option<Throttling>,
    /// `None` if it is unknown, for the reason in `energy_problem`.
    energy: Option<Energy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    energy_problem: Option<String>,
    /// `None` if there is no prediction for this machine.
    prediction: Option<Prediction>,
    /// Why the measurement ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_early: Option<String>,
}

/// What the engine was told.
#[derive(Debug, Serialize)]
struct Settings {
    stored_as: String,
    computed_as: String,
    context_length: usize,
    prompt_tokens: usize,
    generate_tokens: usize,
    /// Responses are greedy, and nothing is drafted.
    temperature: f32,
    speculation: bool,
    weight_bytes: Option<u64>,
    /// Of a full context; smaller where the KV cache has a smaller type.
    kv_cache_bytes: Option<u64>,
    budget_bytes: u64,
}

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
        match measure_form(
            &library, &model, path, args, lengths, clock, client, console,
        ) {
            Ok(report) => reports.push(report),
            Err(Failure::Interrupted) => return Err(Failure::Interrupted),
            Err(failure) => {
                if paths.len() > 1 {
                    console.note(&format!("{}: {failure}", path.display()));
                }
                first_failure.get_or_insert(failure);
            }
        }
        if let Some(report) = reports.last() {
            console.print_result(args.json, report, Report::text)?;
            if report.is_interrupted() {
                break;
            }
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
            {
                if let Some((from, n_before)) = last.replace(Some((time, n)))
                    && is_recorded
                {
                    recorder.add_tokens(from, time, n.saturating_sub(n_before));
                }
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

/// The reason of an early end by Ctrl-C.
const INTERRUPTED: &str = "interrupted";

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

impl Report {
    fn is_interrupted(&self) -> bool {
        self.ended_early.as_deref() == Some(INTERRUPTED)
    }

    fn text(&self, layout: Layout) -> String {
        let settings = &self.settings;
        let mut rows = Rows::new(14, layout);
        rows.heading(&format!("{} ({})", visible(&self.model), self.engine));
        let weights = format!("{}, {}", settings.stored_as, settings.computed_as);
        rows.row("  weights", &weights);
        let kv = settings.kv_cache_bytes.map_or_else(String::new, |bytes| {
            format!(", KV cache of {}", bytes_text(bytes))
        });
        rows.row(
            "  context",
            &format!("{} tokens{kv}", settings.context_length),
        );
        rows.row(
            "  memory",
            &format!("budget {}", bytes_text(settings.budget_bytes)),
        );
        let lengths = format!(
            "prompts of {} tokens, responses of {}, greedy, nothing drafted",
            settings.prompt_tokens, settings.generate_tokens
        );
        rows.row("  requests", &lengths);
        let heading = rows.finish();
        let table = Table::new([
            numbers("TIME", "", |window: &Window| {
                format!("{:.0} s", window.start_seconds)
            }),
            numbers("TOK/S", "", |window| {
                window
                    .tokens_per_second
                    .map_or_else(|| "–".to_owned(), rate_text)
            }),
            numbers("WATTS", "watts ", |window| match window.joules {
                Some(joules) => rate_text(joules / window.seconds),
                None => String::new(),
            })
            .optional(1),
            words("HEAT", |window| window.thermal.clone()),
            words("LIMITS", |window| window.limits.join("; ")).optional(2),
        ]);
        let shown = self.windows.iter();
        let shown = shown.step_by(self.windows.len().div_ceil(MAX_ROWS).max(1));
        let shown: Vec<Window> = shown.cloned().collect();
        let table = table.with(&shown).text(layout);
        let mut rows = Rows::new(14, layout);
        for speed in &self.minutes {
            let label = format!("minute {}", speed.minute);
            rows.row(
                &label,
                &format!("{} tok/s", rate_text(speed.tokens_per_second)),
            );
        }
        let throttling = match self.throttling {
            Some(found) => format!(
                "after {:.0} s: {} instead of {} tok/s",
                found.at_seconds,
                rate_text(found.after),
                rate_text(found.before)
            ),
            None => "never slower than the first minute by more than a tenth".to_owned(),
        };
        rows.row("throttling", &throttling);
        let energy = match (&self.energy, &self.energy_problem) {
            (Some(energy), _) => format!(
                "{:.2} tokens per joule, {} W",
                energy.tokens_per_joule,
                rate_text(energy.watts)
            ),
            (None, Some(problem)) => format!("unknown: {problem}"),
            (None, None) => "unknown".to_owned(),
        };
        rows.row("energy", &energy);
        rows.row("prediction", &self.prediction_text());
        if let Some(reason) = &self.ended_early {
            rows.row("ended early", reason);
        }
        format!("{heading}\n{table}\n{}\n", rows.finish())
    }

    fn prediction_text(&self) -> String {
        let Some(prediction) = self.prediction else {
            return "none; `transom doctor --measure` measures the memory, which it needs"
                .to_owned();
        };
        let range = format!(
            "{} to {} tok/s",
            rate_text(prediction.low),
            rate_text(prediction.high)
        );
        match prediction.is_far_off {
            true => format!(
                "{range}, FAR OFF: {} measured",
                rate_text(prediction.measured)
            ),
            false => format!("{range}, {} measured", rate_text(prediction.measured)),
        }
    }
}

#[cfg(test)]
mod tests;
