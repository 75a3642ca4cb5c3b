//! The numbers of a benchmark, as a table for people and as JSON for programs.
//!
//! Rule: the JSON's field names are an interface; the comparison scripts read them.

use std::time::Duration;

use serde::Serialize;
use transom_engine::{MemoryUse, ModelInfo, Stats};
use transom_files::visible;
use transom_supervisor::PassedOver;
use transom_terminal::{
    Layout, Rows, Table, memory_text, numbers, parameters_text, rate_text, seconds, words,
};

use crate::status_text::{memory_parts_text, passed_over_text};
use crate::text::guesses_text;

/// The model that was measured, and how.
#[derive(Debug, Clone, Copy)]
pub struct SpeedSetup<'a> {
    /// The loaded model.
    pub info: &'a ModelInfo,
    /// The model's other forms that were tried first, and why they do not run.
    pub passed_over: &'a [PassedOver],
    /// Time of the load.
    pub load_time: Duration,
    /// Length of each response.
    pub generate_tokens: usize,
    /// Whether speculative decoding was on.
    pub speculation: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Run {
    ttft_seconds: f64,
    prefill_tokens_per_second: Option<f64>,
    decode_tokens_per_second: Option<f64>,
}

impl From<&Stats> for Run {
    fn from(stats: &Stats) -> Self {
        Self {
            ttft_seconds: stats.time_to_first_token.as_secs_f64(),
            prefill_tokens_per_second: stats.prefill_tokens_per_second(),
            decode_tokens_per_second: stats.decode_tokens_per_second(),
        }
    }
}

/// The times to first token of the two turns of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SecondTurn {
    first_ttft_seconds: f64,
    second_ttft_seconds: f64,
    /// Tokens of the second prompt.
    prompt_tokens: usize,
    /// Of these, tokens that came from the prefix cache.
    cached_tokens: usize,
}

impl SecondTurn {
    /// Takes the times of both turns.
    pub fn new(first: &Stats, second: &Stats) -> Self {
        Self {
            first_ttft_seconds: first.time_to_first_token.as_secs_f64(),
            second_ttft_seconds: second.time_to_first_token.as_secs_f64(),
            prompt_tokens: second.prompt_tokens,
            cached_tokens: second.cached_tokens,
        }
    }

    fn ratio(&self) -> f64 {
        self.second_ttft_seconds / self.first_ttft_seconds.max(f64::MIN_POSITIVE)
    }
}

/// The guesses of speculative decoding, in all runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
struct Guesses {
    drafted_tokens: usize,
    accepted_tokens: usize,
}

/// The measurements of one length of prompts.
#[derive(Debug, Serialize)]
pub struct SpeedReport {
    model: String,
    engine: String,
    computed_as: String,
    /// Forms of the model that do not run on this machine, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    passed_over: Vec<PassedOver>,
    load_seconds: f64,
    prompt_tokens: usize,
    generate_tokens: usize,
    runs: Vec<Run>,
    median: Run,
    min: Run,
    max: Run,
    /// The peak since the start of the load.
    peak_memory_bytes: u64,
    /// The highest peak until the first token of a run, and after it; only if the engine counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefill_peak_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decode_peak_bytes: Option<u64>,
    /// The memory in use after the runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<MemoryUse>,
    /// Only if speculative decoding was on.
    #[serde(skip_serializing_if = "Option::is_none")]
    speculation: Option<Guesses>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn2: Option<SecondTurns>,
    /// The same, with a response in another conversation between the two turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    switch_back: Option<SecondTurns>,
}

/// What is measured of one length of prompts.
#[derive(Debug, Default)]
pub struct Measured {
    /// The runs.
    pub runs: Vec<Stats>,
    /// Two turns of a conversation; empty if they were not measured.
    pub turn2: Vec<SecondTurn>,
    /// The same, with a response in another conversation between them.
    pub switch_back: Vec<SecondTurn>,
    /// The memory in use after the runs, if the model is still loaded.
    pub memory: Option<MemoryUse>,
}

#[derive(Debug, Serialize)]
struct SecondTurns {
    runs: Vec<SecondTurn>,
    median_second_ttft_seconds: f64,
    /// Second time to first token divided by the first, the median of the runs.
    median_ratio: f64,
}

impl SpeedReport {
    /// Summarizes the measurements of a prompt of `n_prompt` tokens.
    pub fn new(setup: &SpeedSetup<'_>, n_prompt: usize, measured: Measured) -> Self {
        let info = setup.info;
        let runs = &measured.runs;
        let sum = |count: fn(&Stats) -> usize| -> usize { runs.iter().map(count).sum() };
        let most = |bytes: fn(&Stats) -> u64| runs.iter().map(bytes).max().unwrap_or(0);
        let counted = |bytes: u64| (bytes > 0).then_some(bytes);
        let peak_memory_bytes = most(|stats| stats.peak_memory_bytes);
        let prefill_peak_bytes = counted(most(|stats| stats.prefill_peak_bytes));
        let decode_peak_bytes = counted(most(|stats| stats.decode_peak_bytes));
        let speculation = setup.speculation.then(|| Guesses {
            drafted_tokens: sum(|stats| stats.drafted_tokens),
            accepted_tokens: sum(|stats| stats.accepted_tokens),
        });
        let runs: Vec<Run> = runs.iter().map(Run::from).collect();
        Self {
            model: info.name.clone(),
            engine: info.engine.clone(),
            computed_as: info.computed_as.clone(),
            passed_over: setup.passed_over.to_vec(),
            load_seconds: setup.load_time.as_secs_f64(),
            prompt_tokens: n_prompt,
            generate_tokens: setup.generate_tokens,
            median: pick(&runs, median),
            min: pick(&runs, |values| values.first().copied()),
            max: pick(&runs, |values| values.last().copied()),
            runs,
            peak_memory_bytes,
            prefill_peak_bytes,
            decode_peak_bytes,
            memory: measured.memory,
            speculation,
            turn2: second_turns(measured.turn2),
            switch_back: second_turns(measured.switch_back),
        }
    }

    /// Returns the rows of this prompt length.
    pub fn table(&self, layout: Layout) -> String {
        let (pp, tg) = (self.prompt_tokens, self.generate_tokens);
        let spread =
            |value: fn(&Run) -> Option<f64>| [&self.median, &self.min, &self.max].map(value);
        let prefill = spread(|run| run.prefill_tokens_per_second);
        let decode = spread(|run| run.decode_tokens_per_second);
        let ttft = spread(|run| Some(run.ttft_seconds * 1e3));
        let table = table().with(&[
            cells(format!("pp{pp}"), "tok/s", prefill),
            cells(format!("tg{tg}"), "tok/s", decode),
            cells("ttft".to_owned(), "ms", ttft),
        ]);
        let mut rows = Rows::new(9, layout);
        if let Some(guesses) = &self.speculation {
            let guesses = guesses_text(guesses.accepted_tokens, guesses.drafted_tokens);
            rows.row("guesses", &guesses);
        }
        for (label, turns) in [("ttft 2", &self.turn2), ("switch", &self.switch_back)] {
            if let Some(turns) = turns {
                rows.row(label, &turns.text());
            }
        }
        if self.peak_memory_bytes > 0 {
            let phases = [
                ("prefill", self.prefill_peak_bytes),
                ("decode", self.decode_peak_bytes),
            ];
            let phases = phases.into_iter().filter_map(|(phase, bytes)| {
                bytes.map(|bytes| format!(", {} {phase}", memory_text(bytes)))
            });
            let peak = memory_text(self.peak_memory_bytes);
            let parts = self.memory.as_ref().map(memory_parts_text);
            let phases: String = phases.collect();
            let text = format!("{peak} peak{phases}\n{}", parts.unwrap_or_default());
            rows.row("memory", &text);
        }
        table.text(layout) + &rows.finish() + "\n"
    }
}

/// Returns the lines above the first table.
pub fn heading(setup: &SpeedSetup<'_>) -> String {
    let info = setup.info;
    let parameters = parameters_text(info.n_parameters);
    let load_time = seconds(setup.load_time);
    let mut lines = vec![
        format!(
            "{}: {}, {parameters} parameters, {}",
            info.name, info.architecture, info.stored_as
        ),
        format!(
            "{}: {}, loaded in {load_time}",
            info.engine, info.computed_as
        ),
    ];
    lines.extend(setup.passed_over.iter().map(passed_over_text));
    let lines = lines.iter().map(|line| format!("{}\n", visible(line)));
    lines.collect::<String>() + "\n"
}

/// Returns an empty table of measurements, whose rows are [`cells`].
pub(crate) fn table() -> Table<[String; 3]> {
    Table::new([
        words("TEST", |cells: &[String; 3]| cells[0].clone()),
        numbers("MEDIAN", "", |cells| cells[1].clone()),
        numbers("MIN – MAX", "from ", |cells| cells[2].clone()),
    ])
}

/// Returns the cells of one measurement from its median, minimum and maximum.
pub(crate) fn cells(
    label: String,
    unit: &str,
    [median, min, max]: [Option<f64>; 3],
) -> [String; 3] {
    let rate = |value: Option<f64>| value.map(rate_text);
    match (rate(median), rate(min), rate(max)) {
        (Some(median), Some(min), Some(max)) => {
            [label, format!("{median} {unit}"), format!("{min} – {max}")]
        }
        _ => [label, "not measured".to_owned(), String::new()],
    }
}

impl SecondTurns {
    fn text(&self) -> String {
        let last = self.runs.last();
        format!(
            "{} ms, {:.1} % of the first turn's; {} of {} prompt tokens were cached",
            rate_text(self.median_second_ttft_seconds * 1e3),
            self.median_ratio * 100.0,
            last.map_or(0, |run| run.cached_tokens),
            last.map_or(0, |run| run.prompt_tokens),
        )
    }
}

/// Returns `None` without runs.
fn second_turns(runs: Vec<SecondTurn>) -> Option<SecondTurns> {
    let waits = sorted(runs.iter().map(|run| run.second_ttft_seconds));
    let ratios = sorted(runs.iter().map(SecondTurn::ratio));
    Some(SecondTurns {
        median_second_ttft_seconds: median(&waits)?,
        median_ratio: median(&ratios)?,
        runs,
    })
}

/// Chooses one value from the sorted values of each measurement.
fn pick(runs: &[Run], choose: impl Fn(&[f64]) -> Option<f64>) -> Run {
    let of = |value: fn(&Run) -> Option<f64>| choose(&sorted(runs.iter().filter_map(value)));
    Run {
        ttft_seconds: of(|run| Some(run.ttft_seconds)).unwrap_or(0.0),
        prefill_tokens_per_second: of(|run| run.prefill_tokens_per_second),
        decode_tokens_per_second: of(|run| run.decode_tokens_per_second),
    }
}

pub(crate) fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the middle value, or the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        return values.get(middle).copied();
    }
    let below = values.get(middle.checked_sub(1)?)?;
    Some((below + values.get(middle)?) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_count_is_a_mean() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(median(&[1.0, 2.0, 9.0]), Some(2.0));
    }

    #[test]
    fn each_measurement_has_its_own_median_and_spread() {
        let run = |ttft_seconds, prefill, decode| Run {
            ttft_seconds,
            prefill_tokens_per_second: Some(prefill),
            decode_tokens_per_second: decode,
        };
        let runs = [
            run(3.0, 10.0, None),
            run(1.0, 30.0, Some(7.0)),
            run(2.0, 20.0, None),
        ];
        assert_eq!(pick(&runs, median), run(2.0, 20.0, Some(7.0)));
        assert_eq!(
            pick(&runs, |values| values.first().copied()),
            run(1.0, 10.0, Some(7.0))
        );
    }

    #[test]
    fn a_rate_that_was_not_measured_has_no_numbers() {
        let cells = cells("tg1".to_owned(), "tok/s", [None; 3]);
        assert_eq!(cells, ["tg1", "not measured", ""]);
    }
}
