//! `transom bench --schema`: what it costs to hold a response to a JSON Schema.
//!
//! Each run is a pair: a response under the schema, then a free one of as many tokens, both after prompts
//! of the same length. So heat and other programs slow both, and the ratio of the pair is what counts.
//!
//! Rule: the schema of each run is a new one to the engine, so the time to the first token contains its
//! compilation. The token table, which a model needs once, is built in the warm-up.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use transom_engine::{Constraint, Grammar, Stats};

use super::report::{cells, median, sorted};
use super::{Bench, BenchArgs};
use crate::ask::read_schema;
use crate::output::{Progress, Rows, Table, numbers, words};
use crate::{Failure, Layout, Result};

/// A run of `--schema`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Pair {
    /// Tokens of each of the two responses.
    tokens: usize,
    schema_ttft_seconds: f64,
    free_ttft_seconds: f64,
    schema_tokens_per_second: f64,
    free_tokens_per_second: f64,
}

impl Pair {
    fn ratio(&self) -> f64 {
        self.schema_tokens_per_second / self.free_tokens_per_second
    }

    /// How much later the first token comes with the schema, in milliseconds.
    fn delay_ms(&self) -> f64 {
        (self.schema_ttft_seconds - self.free_ttft_seconds) * 1e3
    }
}

/// The numbers of `--schema` for one length of the prompt.
#[derive(Debug, Serialize)]
pub(super) struct SchemaReport {
    model: String,
    engine: String,
    computed_as: String,
    prompt_tokens: usize,
    pairs: Vec<Pair>,
    /// Speed with the schema divided by that without it, the median of the pairs.
    median_ratio: f64,
    /// How much later the first token comes, the median of the pairs.
    median_delay_ms: f64,
}

/// Returns the object schema of `--schema`.
///
/// # Errors
/// [`Failure::Usage`] for a file that is no JSON object.
pub(super) fn schema_of(path: &Path) -> Result<serde_json::Map<String, Value>> {
    match read_schema(path)? {
        Value::Object(schema) => Ok(schema),
        _ => Err(Failure::Usage(format!(
            "--schema {}: a schema is a JSON object",
            path.display()
        ))),
    }
}

impl Bench<'_> {
    /// Measures the pairs, without the warm-up.
    pub(super) fn measure_schema(
        &mut self,
        schema: &serde_json::Map<String, Value>,
        progress: &Progress,
    ) -> Result<SchemaReport> {
        let BenchArgs { warmup, runs, .. } = *self.args;
        let mut pairs = Vec::new();
        for index in 0..warmup + runs {
            progress.show(&match index.checked_sub(warmup) {
                None => format!("schema: warm-up {}", index + 1),
                Some(run) => format!("schema: run {} of {runs}", run + 1),
            });
            let mut schema = schema.clone();
            schema.insert("$comment".to_owned(), format!("run {index}").into());
            let grammar = Grammar::JsonSchema(Value::Object(schema));
            let prompt = self.next_prompt();
            let held = self.run_of(
                &prompt,
                Some(Constraint::on_response(grammar)),
                self.args.generate_tokens,
            )?;
            let prompt = self.next_prompt();
            let free = self.run_of(&prompt, None, held.generated_tokens)?;
            if index >= warmup {
                pairs.push(pair(&held, &free)?);
            }
        }
        let info = &self.loaded.info;
        let of =
            |value: fn(&Pair) -> f64| median(&sorted(pairs.iter().map(value))).unwrap_or_default();
        Ok(SchemaReport {
            model: info.name.clone(),
            engine: info.engine.clone(),
            computed_as: info.computed_as.clone(),
            prompt_tokens: self.n_prompt,
            median_ratio: of(Pair::ratio),
            median_delay_ms: of(Pair::delay_ms),
            pairs,
        })
    }
}

/// # Errors
/// The response was too short to have a speed.
fn pair(held: &Stats, free: &Stats) -> Result<Pair> {
    let speeds = held
        .decode_tokens_per_second()
        .zip(free.decode_tokens_per_second());
    let (schema_tokens_per_second, free_tokens_per_second) = speeds.ok_or_else(|| {
        Failure::Failed(format!(
            "a response under this schema has only {} tokens, which is too short to measure; choose a \
             schema with more required properties",
            held.generated_tokens
        ))
    })?;
    Ok(Pair {
        tokens: held.generated_tokens,
        schema_ttft_seconds: held.time_to_first_token.as_secs_f64(),
        free_ttft_seconds: free.time_to_first_token.as_secs_f64(),
        schema_tokens_per_second,
        free_tokens_per_second,
    })
}

impl SchemaReport {
    pub(super) fn table(&self, layout: Layout) -> String {
        let table = Table::new([
            words("TEST", |cells: &[String; 3]| cells[0].clone()),
            numbers("MEDIAN", "", |cells| cells[1].clone()),
            numbers("MIN – MAX", "from ", |cells| cells[2].clone()),
        ]);
        let spread = |value: fn(&Pair) -> f64| {
            let values = sorted(self.pairs.iter().map(value));
            [
                median(&values),
                values.first().copied(),
                values.last().copied(),
            ]
        };
        let n_tokens = self.pairs.iter().map(|pair| pair.tokens).max();
        let table = table.with(&[
            cells(
                "free".to_owned(),
                "tok/s",
                spread(|pair| pair.free_tokens_per_second),
            ),
            cells(
                "schema".to_owned(),
                "tok/s",
                spread(|pair| pair.schema_tokens_per_second),
            ),
            cells(
                "ttft free".to_owned(),
                "ms",
                spread(|pair| pair.free_ttft_seconds * 1e3),
            ),
            cells(
                "ttft schema".to_owned(),
                "ms",
                spread(|pair| pair.schema_ttft_seconds * 1e3),
            ),
        ]);
        let mut rows = Rows::new(9, layout);
        let (ratio, delay) = (self.median_ratio, self.median_delay_ms);
        rows.row(
            "schema",
            &format!("{ratio:.2}x the speed of a free response, first token {delay:.1} ms later"),
        );
        let n_tokens = n_tokens.unwrap_or_default();
        let prompt = self.prompt_tokens;
        rows.row(
            "tokens",
            &format!("up to {n_tokens}, after a prompt of {prompt}"),
        );
        table.text(layout) + &rows.finish() + "\n"
    }
}
