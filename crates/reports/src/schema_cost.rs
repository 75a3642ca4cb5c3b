//! What it costs to hold a response to a JSON Schema, as a table for people and as JSON for programs.
//!
//! Each run is a pair of responses of as many tokens, one under the schema and one without it, so heat and
//! other programs slow both, and the ratio of the pair is what counts.

use serde::Serialize;
use transom_engine::{ModelInfo, Stats};
use transom_terminal::{Layout, Rows};

use crate::speed::{cells, median, sorted, table};

/// A response under a schema, and a free one of as many tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Pair {
    /// Tokens of each of the two responses.
    tokens: usize,
    schema_ttft_seconds: f64,
    free_ttft_seconds: f64,
    schema_tokens_per_second: f64,
    free_tokens_per_second: f64,
}

impl Pair {
    /// Compares two responses; `None` if one of them was too short to have a speed.
    pub fn new(schema: &Stats, free: &Stats) -> Option<Self> {
        Some(Self {
            tokens: schema.generated_tokens,
            schema_ttft_seconds: schema.time_to_first_token.as_secs_f64(),
            free_ttft_seconds: free.time_to_first_token.as_secs_f64(),
            schema_tokens_per_second: schema.decode_tokens_per_second()?,
            free_tokens_per_second: free.decode_tokens_per_second()?,
        })
    }

    fn ratio(&self) -> f64 {
        self.schema_tokens_per_second / self.free_tokens_per_second
    }

    /// How much later the first token comes with the schema, in milliseconds.
    fn delay_ms(&self) -> f64 {
        (self.schema_ttft_seconds - self.free_ttft_seconds) * 1e3
    }
}

/// The measurements of one length of prompts.
#[derive(Debug, Serialize)]
pub struct SchemaCost {
    model: String,
    engine: String,
    computed_as: String,
    prompt_tokens: usize,
    pairs: Vec<Pair>,
    /// Speed with the schema divided by that without it, the median of the pairs.
    median_ratio: f64,
    /// How much later the first token comes with the schema, the median of the pairs.
    median_delay_ms: f64,
}

impl SchemaCost {
    /// Summarizes pairs of responses to prompts of `n_prompt` tokens.
    pub fn new(info: &ModelInfo, n_prompt: usize, pairs: Vec<Pair>) -> Self {
        let middle = |value: fn(&Pair) -> f64| median(&sorted(pairs.iter().map(value)));
        Self {
            model: info.name.clone(),
            engine: info.engine.clone(),
            computed_as: info.computed_as.clone(),
            prompt_tokens: n_prompt,
            median_ratio: middle(Pair::ratio).unwrap_or_default(),
            median_delay_ms: middle(Pair::delay_ms).unwrap_or_default(),
            pairs,
        }
    }

    /// Returns the rows of this prompt length.
    pub fn table(&self, layout: Layout) -> String {
        let row = |label: &str, unit, value: fn(&Pair) -> f64| {
            let values = sorted(self.pairs.iter().map(value));
            let (min, max) = (values.first().copied(), values.last().copied());
            cells(label.to_owned(), unit, [median(&values), min, max])
        };
        let table = table().with(&[
            row("free", "tok/s", |pair| pair.free_tokens_per_second),
            row("schema", "tok/s", |pair| pair.schema_tokens_per_second),
            row("ttft free", "ms", |pair| pair.free_ttft_seconds * 1e3),
            row("ttft schema", "ms", |pair| pair.schema_ttft_seconds * 1e3),
        ]);
        let mut rows = Rows::new(9, layout);
        let (ratio, delay) = (self.median_ratio, self.median_delay_ms);
        rows.row(
            "schema",
            &format!("{ratio:.2}x the speed of a free response, first token {delay:.1} ms later"),
        );
        let n_tokens = self.pairs.iter().map(|pair| pair.tokens).max();
        let (n_tokens, prompt) = (n_tokens.unwrap_or_default(), self.prompt_tokens);
        rows.row(
            "tokens",
            &format!("up to {n_tokens}, after a prompt of {prompt}"),
        );
        table.text(layout) + &rows.finish() + "\n"
    }
}
