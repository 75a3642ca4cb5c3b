//! The numbers of a benchmark, as a table for people and as JSON for programs.
//!
//! Rule: the JSON's field names are an interface; the comparison scripts read them.

use std::time::Duration;

use serde::Serialize;
use transom_engine::Stats;
use transom_files::visible;
use transom_supervisor::status::PassedOver;

use crate::bench::{BenchArgs, Measured};
use crate::load::Loaded;
use crate::output::rows::passed_over_text;
use crate::output::stats::{bytes_text, guesses_text, parameters_text, rate_text, seconds};

/// One measured run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Run {
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

/// The wait for the second answer of a conversation, beside that for the first.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct SecondTurn {
    first_ttft_seconds: f64,
    second_ttft_seconds: f64,
    /// Tokens of the second prompt.
    prompt_tokens: usize,
    /// Of these, tokens that came from the prompt cache.
    cached_tokens: usize,
}

impl SecondTurn {
    /// From the numbers of both turns.
    pub(super) fn new(first: &Stats, second: &Stats) -> Self {
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

/// What came of guessing ahead, over all runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Guesses {
    /// Tokens guessed ahead.
    drafted_tokens: usize,
    /// Of these, tokens that the model agreed to.
    accepted_tokens: usize,
}

impl Guesses {
    /// Adds a run's.
    pub(super) fn add(&mut self, stats: &Stats) {
        self.drafted_tokens += stats.drafted_tokens;
        self.accepted_tokens += stats.accepted_tokens;
    }
}

/// Everything about one prompt length.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    model: String,
    engine: String,
    computed_as: String,
    /// Forms of the model that do not run here, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    passed_over: Vec<PassedOver>,
    load_seconds: f64,
    prompt_tokens: usize,
    generate_tokens: usize,
    runs: Vec<Run>,
    median: Run,
    min: Run,
    max: Run,
    peak_memory_bytes: u64,
    /// Only where the engine was allowed to guess.
    #[serde(skip_serializing_if = "Option::is_none")]
    speculation: Option<Guesses>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn2: Option<Turn2>,
    #[serde(skip)]
    description: String,
}

#[derive(Debug, Serialize)]
struct Turn2 {
    runs: Vec<SecondTurn>,
    median_second_ttft_seconds: f64,
    /// Second wait divided by first, the median of the runs.
    median_ratio: f64,
}

impl Report {
    /// Sums up what was measured for a prompt of `n_prompt` tokens.
    pub(super) fn new(
        loaded: &Loaded,
        args: &BenchArgs,
        n_prompt: usize,
        measured: Measured,
    ) -> Self {
        let info = &loaded.info;
        let runs = measured.runs;
        Self {
            model: info.name.clone(),
            engine: info.engine.clone(),
            computed_as: info.computed_as.clone(),
            passed_over: loaded.passed_over.clone(),
            load_seconds: loaded.load_time.as_secs_f64(),
            prompt_tokens: n_prompt,
            generate_tokens: args.generate_tokens,
            median: pick(&runs, median),
            min: pick(&runs, |values| values.first().copied()),
            max: pick(&runs, |values| values.last().copied()),
            runs,
            peak_memory_bytes: measured.peak_memory_bytes,
            speculation: args.speculation.then_some(measured.guesses),
            turn2: turn2(measured.second_turns),
            description: format!(
                "{}: {}, {} parameters, {}",
                info.name,
                info.architecture,
                parameters_text(info.n_parameters),
                info.stored_as
            ),
        }
    }

    /// The lines above the first table.
    pub(super) fn heading(&self) -> String {
        let passed_over = self.passed_over.iter().map(passed_over_text);
        let passed_over: String = passed_over
            .map(|text| format!("{}\n", visible(&text)))
            .collect();
        format!(
            "{}\n{}: {}, loaded in {}\n{passed_over}\n{:<8} {:>14} {:>23}\n",
            visible(&self.description),
            visible(&self.engine),
            visible(&self.computed_as),
            seconds(Duration::from_secs_f64(self.load_seconds)),
            "",
            "median",
            "min – max"
        )
    }

    /// The rows of this prompt length.
    pub(super) fn table(&self) -> String {
        let n_prompt = self.prompt_tokens;
        let mut rows = vec![row(
            &format!("pp{n_prompt}"),
            "tok/s",
            self.spread(|run| run.prefill_tokens_per_second),
        )];
        rows.push(row(
            &format!("tg{}", self.generate_tokens),
            "tok/s",
            self.spread(|run| run.decode_tokens_per_second),
        ));
        rows.push(row(
            "ttft",
            "ms",
            self.spread(|run| Some(run.ttft_seconds * 1e3)),
        ));
        if let Some(guesses) = &self.speculation {
            let text = guesses_text(guesses.accepted_tokens, guesses.drafted_tokens);
            rows.push(format!("{:<8} {text}", "ahead"));
        }
        if let Some(turn2) = &self.turn2 {
            let cached = turn2.runs.last().map_or(0, |run| run.cached_tokens);
            let prompt = turn2.runs.last().map_or(0, |run| run.prompt_tokens);
            rows.push(format!(
                "{:<8} {:>9} ms    {:.1} % of the first turn's; {cached} of {prompt} prompt tokens \
                 were cached",
                "ttft 2",
                rate_text(turn2.median_second_ttft_seconds * 1e3),
                turn2.median_ratio * 100.0,
            ));
        }
        if self.peak_memory_bytes > 0 {
            rows.push(format!(
                "{:<8} {:>14}",
                "memory",
                format!("{} peak", bytes_text(self.peak_memory_bytes))
            ));
        }
        rows.join("\n") + "\n\n"
    }

    fn spread(&self, value: impl Fn(&Run) -> Option<f64>) -> Option<[f64; 3]> {
        Some([value(&self.median)?, value(&self.min)?, value(&self.max)?])
    }
}

fn row(name: &str, unit: &str, values: Option<[f64; 3]>) -> String {
    let Some([median, min, max]) = values else {
        return format!("{name:<8} {:>14}", "not measured");
    };
    format!(
        "{name:<8} {:>14} {:>23}",
        format!("{} {unit}", rate_text(median)),
        format!("{} – {}", rate_text(min), rate_text(max))
    )
}

fn turn2(runs: Vec<SecondTurn>) -> Option<Turn2> {
    let waits = sorted(runs.iter().map(|run| run.second_ttft_seconds));
    let ratios = sorted(runs.iter().map(SecondTurn::ratio));
    Some(Turn2 {
        median_second_ttft_seconds: median(&waits)?,
        median_ratio: median(&ratios)?,
        runs,
    })
}

/// Takes one value of each measurement's sorted values.
fn pick(runs: &[Run], choose: impl Fn(&[f64]) -> Option<f64>) -> Run {
    let of = |value: fn(&Run) -> Option<f64>| choose(&sorted(runs.iter().filter_map(value)));
    Run {
        ttft_seconds: of(|run| Some(run.ttft_seconds)).unwrap_or(0.0),
        prefill_tokens_per_second: of(|run| run.prefill_tokens_per_second),
        decode_tokens_per_second: of(|run| run.decode_tokens_per_second),
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The middle value, or the mean of the two in the middle.
fn median(values: &[f64]) -> Option<f64> {
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
    fn the_median_is_the_middle_or_between_the_two_in_the_middle() {
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
    fn a_rate_that_was_not_measured_is_said_so() {
        assert!(row("tg1", "tok/s", None).contains("not measured"));
    }
}
