//! `transom bench`: how fast a model loads, reads and writes on this machine.
//!
//! Rule: only the engine is measured: every time is taken in the child process, so it does not contain
//! the way to this command. Prompts are fixed token ids, responses are greedy and never end early,
//! speculative decoding is off unless it is to be measured, and no run uses the prefix cache of another.

mod conversations;
mod quality;
mod sustained;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::builder::ArgPredicate;
use clap::{ArgGroup, Args};
use serde_json::{Map, Value};
use transom_bench::Benchmark;
use transom_engine::{
    Constraint, FinishReason, GenerationParams, Grammar, Limits, Prompt, SamplingParams, Stats,
    Truncation,
};
use transom_library::benchmarks;
use transom_reports::schema_cost::{Pair, SchemaCost};
use transom_reports::speed::{Measured, SecondTurn, SpeedReport, SpeedSetup, heading};
use transom_supervisor::Restrictions;

use crate::ask::read_schema;
use crate::client;
use crate::load::{Loaded, ModelArgs, at_least_one, load};
use crate::output::{Progress, stop_reason};
use crate::{Client, Console, Failure, Result};

/// Measure how fast a model runs here
///
/// Each run reads a prompt of fixed token ids and writes a response of fixed length. The table shows the
/// median and the spread (min to max) of several runs, after a warm-up. `pp512` is reading a prompt
/// of 512 tokens (prefill); `tg128` is writing 128 tokens after it (decode).
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = include_str!("help/bench.txt"))]
#[command(group(ArgGroup::new("plotted").args(["sustained", "quality"])))]
pub(crate) struct BenchArgs {
    /// Length of the prompt; repeat it or give a list for several. With --conversations it is one length,
    /// 4096 unless you give another, or as much as the context holds
    #[arg(short, long, value_name = "TOKENS", value_delimiter = ',', default_value = "512",
          default_value_ifs([("conversations", ArgPredicate::Equals("true".into()), "4096"),
                             ("sustained", ArgPredicate::IsPresent, "64")]), value_parser = at_least_one)]
    pub(crate) prompt_tokens: Vec<usize>,

    /// Length of the response [default: 128; with --sustained 256]
    #[arg(short, long, value_name = "TOKENS", default_value = "128", hide_default_value = true,
          default_value_if("sustained", ArgPredicate::IsPresent, "256"), value_parser = at_least_one)]
    pub(crate) generate_tokens: usize,

    /// Runs to measure for each prompt length
    #[arg(short, long, value_name = "N", default_value = "3", value_parser = at_least_one)]
    pub(crate) runs: usize,

    /// Runs before that, which do not count
    #[arg(short, long, value_name = "N", default_value = "1")]
    pub(crate) warmup: usize,

    /// Also measure the wait in a second turn: the prompt, its response and 20 new tokens
    #[arg(long)]
    pub(crate) turn2: bool,

    /// Also measure that wait after a response in another conversation
    #[arg(long)]
    pub(crate) switch_back: bool,

    /// Turn speculative decoding on, and show how many draft tokens were accepted; without this each
    /// token is computed by itself
    #[arg(long)]
    pub(crate) speculation: bool,

    /// Measure responses under this JSON Schema instead, each beside a free response of as many tokens;
    /// --generate-tokens is the most that one may have
    #[arg(long, value_name = "FILE", conflicts_with_all = ["turn2", "switch_back", "conversations"])]
    pub(crate) schema: Option<PathBuf>,

    /// Measure turns of conversations instead: which tokens are read again after a switch of chats, an
    /// edit, an unload or a restart, and in a full context
    #[arg(long, conflicts_with_all = ["generate_tokens", "runs", "warmup", "turn2", "switch_back",
          "speculation"])]
    pub(crate) conversations: bool,

    /// Generate responses for so many minutes, and show the speed every ten seconds with the heat, the
    /// limits and the energy; in each engine that has files of the model
    #[arg(long, value_name = "MINUTES", value_parser = minutes,
          conflicts_with_all = ["runs", "warmup", "turn2", "switch_back", "speculation", "conversations",
          "schema"])]
    pub(crate) sustained: Option<Duration>,

    /// Write a plot of the result of --sustained or --quality to this file, as an SVG image
    #[arg(long, value_name = "FILE.svg", requires = "plotted")]
    pub(crate) plot: Option<PathBuf>,

    /// Measure how well each form of the model predicts a fixed text, and how far its predictions are
    /// from those of a reference: --reference, else the first form
    #[arg(long, conflicts_with_all = ["generate_tokens", "prompt_tokens", "runs", "warmup", "turn2",
          "switch_back", "speculation", "conversations", "sustained", "schema"])]
    pub(crate) quality: bool,

    /// The reference of --quality: another form of the same model, such as its F16 file
    #[arg(long, value_name = "MODEL", requires = "quality")]
    pub(crate) reference: Option<PathBuf>,

    /// Write the result as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// The model.
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// Parses a number of minutes, of at most a day.
fn minutes(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(minutes) if (0.1..=1440.0).contains(&minutes) => {
            Ok(Duration::from_secs_f64(minutes * 60.0))
        }
        _ => Err("must be a number of minutes from 0.1 to 1440".into()),
    }
}

/// New tokens of the second turn.
const NEW_TOKENS: usize = 20;

pub(crate) fn run(args: &BenchArgs, client: &Client, console: &mut Console) -> Result {
    if args.conversations {
        return conversations::run(args, client, client::start, console);
    }
    if args.quality {
        return quality::run(args, client, console);
    }
    if let Some(length) = args.sustained {
        let start = Instant::now();
        return sustained::run(args, length, &|| start.elapsed(), client, console);
    }
    // A wrong file is an error before the load.
    let schema = args.schema.as_deref().map(schema_of).transpose()?;
    let mut model_args = args.model.clone();
    let needed = tokens_needed(args);
    if needed > Limits::default().context_length {
        model_args.context_length.get_or_insert(needed);
    }
    let loaded = load(&model_args, false, client, console)?;
    if needed > loaded.info.context_length {
        return Err(Failure::Usage(format!(
            "these lengths need a context of {needed} tokens, but it holds {}; choose smaller \
             --prompt-tokens or --generate-tokens",
            loaded.info.context_length
        )));
    }
    check_restrictions(&client.status()?.restrictions, args, console)?;
    // One for all lengths, because the model keeps the KV caches of earlier prompts.
    let mut bench = Bench {
        loaded: &loaded,
        client,
        args,
        n_prompt: 0,
        n_prompts_made: 0,
    };
    let setup = SpeedSetup {
        info: &loaded.info,
        passed_over: &loaded.passed_over,
        load_time: loaded.load_time,
        generate_tokens: args.generate_tokens,
        speculation: args.speculation,
    };
    for (index, n_prompt) in args.prompt_tokens.iter().enumerate() {
        bench.n_prompt = *n_prompt;
        let heading = match index {
            0 => heading(&setup),
            _ => String::new(),
        };
        if let Some(schema) = &schema {
            let cost = bench.measure_schema(schema, &console.progress())?;
            console.print_result(args.json, &cost, |cost, layout| {
                heading + &cost.table(layout)
            })?;
            continue;
        }
        let measured = bench.measure(&console.progress())?;
        let report = SpeedReport::new(&setup, *n_prompt, measured);
        console.print_result(args.json, &report, |report, layout| {
            heading + &report.table(layout)
        })?;
    }
    Ok(())
}

/// Saves a result for Settings > Models of the app, and writes its plot if there is a file for it.
fn finish(
    benchmark: &Benchmark,
    plot: Option<&Path>,
    client: &Client,
    console: &mut Console,
) -> Result {
    if let Err(error) = benchmarks::save(client.data_folder()?, benchmark) {
        tracing::info!(%error, "the result of the benchmark can't be saved");
    }
    let Some(file) = plot else {
        return Ok(());
    };
    let written = std::fs::write(file, benchmark.svg());
    written.map_err(|error| Failure::Failed(format!("{}: {error}", file.display())))?;
    console.note(&format!("The plot is in {}.", file.display()));
    Ok(())
}

/// Notes the limits that make the figures lower than this machine's best.
///
/// # Errors
/// Responses of the requested length are not allowed now.
fn check_restrictions(
    restrictions: &Restrictions,
    args: &BenchArgs,
    console: &mut Console,
) -> Result {
    let mut reasons: Vec<String> = Vec::new();
    for reason in restrictions
        .limits
        .iter()
        .map(|limit| limit.reason.to_string())
    {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    let reasons = reasons.join(", ");
    let n_generate = args.generate_tokens;
    if restrictions.max_tokens.is_some_and(|max| max < n_generate) {
        return Err(Failure::failed(format!(
            "answers of {n_generate} tokens are not allowed now ({reasons}); try again later, or \
             choose fewer --generate-tokens"
        )));
    }
    if !reasons.is_empty() {
        console.note(&format!(
            "This computer is limited now ({reasons}), so it may be slower than it can be."
        ));
    }
    Ok(())
}

/// Returns the length of the longest conversation that is measured.
fn tokens_needed(args: &BenchArgs) -> usize {
    let longest = args.prompt_tokens.iter().copied().max().unwrap_or(0);
    let second_turn = match args.turn2 || args.switch_back {
        true => NEW_TOKENS + args.generate_tokens,
        false => 0,
    };
    longest
        .saturating_add(args.generate_tokens)
        .saturating_add(second_turn)
}

/// Returns the object schema in the file of `--schema`.
///
/// # Errors
/// [`Failure::Usage`] for a file that is no JSON object.
fn schema_of(path: &Path) -> Result<Map<String, Value>> {
    match read_schema(path)? {
        Value::Object(schema) => Ok(schema),
        _ => Err(Failure::Usage(format!(
            "--schema {}: a schema is a JSON object",
            path.display()
        ))),
    }
}

fn greedy() -> SamplingParams {
    SamplingParams {
        temperature: 0.0,
        ..SamplingParams::default()
    }
}

/// A loaded model and the lengths to measure.
struct Bench<'a> {
    loaded: &'a Loaded,
    client: &'a Client,
    args: &'a BenchArgs,
    n_prompt: usize,
    n_prompts_made: usize,
}

impl Bench<'_> {
    /// Returns the measurements, without the warm-up.
    fn measure(&mut self, progress: &Progress) -> Result<Measured> {
        let mut measured = Measured::default();
        let (n_prompt, n_warmup, n_runs) = (self.n_prompt, self.args.warmup, self.args.runs);
        for index in 0..n_warmup + n_runs {
            progress.show(&match index.checked_sub(n_warmup) {
                None => format!("pp{n_prompt}: warm-up {}", index + 1),
                Some(run) => format!("pp{n_prompt}: run {} of {n_runs}", run + 1),
            });
            let prompt = self.next_prompt();
            let run = self.generate_uncached(&prompt, Vec::new())?;
            let (turn2, switch_back) = (self.args.turn2, self.args.switch_back);
            let turn2 = turn2.then(|| self.two_turns(false)).transpose()?;
            let switch_back = switch_back.then(|| self.two_turns(true)).transpose()?;
            if index >= n_warmup {
                measured.runs.push(run);
                measured.turn2.extend(turn2);
                measured.switch_back.extend(switch_back);
            }
        }
        let status = self.client.status()?;
        let model = self.loaded.find_in(&status);
        measured.memory = model.and_then(|model| model.memory);
        Ok(measured)
    }

    /// Measures a second turn, in a conversation of its own: the engine does not report the ids of a
    /// response, so a bias decides them, and the other rows must not contain biased sampling. With
    /// `switches`, another conversation has a turn before it.
    fn two_turns(&mut self, switches: bool) -> Result<SecondTurn> {
        let mut tokens = self.next_prompt();
        let answer = self.token(ANSWER_SEED);
        let first = self.generate_uncached(&tokens, vec![(answer, 1e4)])?;
        if switches {
            let other = self.next_prompt();
            self.generate_uncached(&other, Vec::new())?;
        }
        tokens.extend(std::iter::repeat_n(answer, self.args.generate_tokens));
        tokens.extend((0..NEW_TOKENS).map(|index| self.token(index as u64 + NEW_SEED)));
        let second = self.generate(&tokens, Vec::new())?;
        Ok(SecondTurn::new(&first, &second))
    }

    fn generate_uncached(&self, tokens: &[u32], logit_bias: Vec<(u32, f32)>) -> Result<Stats> {
        let stats = self.generate(tokens, logit_bias)?;
        match stats.cached_tokens {
            0 => Ok(stats),
            _ => Err(Failure::internal("a run used the prefix cache of another")),
        }
    }

    fn generate(&self, tokens: &[u32], logit_bias: Vec<(u32, f32)>) -> Result<Stats> {
        self.send(
            tokens,
            GenerationParams {
                sampling: SamplingParams {
                    logit_bias,
                    ..greedy()
                },
                max_tokens: Some(self.args.generate_tokens),
                ignore_end_of_text: true,
                speculate: self.args.speculation,
                ..GenerationParams::default()
            },
        )
    }

    /// Measures pairs of responses of as many tokens, with the schema and without it, without the
    /// warm-up. Each run has a schema that is new to the engine, so the time to the first token contains
    /// its compilation. The token table, which a model needs once, is built in the warm-up.
    fn measure_schema(
        &mut self,
        schema: &Map<String, Value>,
        progress: &Progress,
    ) -> Result<SchemaCost> {
        let (n_warmup, n_runs) = (self.args.warmup, self.args.runs);
        let mut pairs = Vec::new();
        for index in 0..n_warmup + n_runs {
            progress.show(&match index.checked_sub(n_warmup) {
                None => format!("schema: warm-up {}", index + 1),
                Some(run) => format!("schema: run {} of {n_runs}", run + 1),
            });
            let mut schema = schema.clone();
            schema.insert("$comment".to_owned(), format!("run {index}").into());
            let constraint = Constraint::on_response(Grammar::JsonSchema(Value::Object(schema)));
            let held = self.generate_under(Some(constraint), self.args.generate_tokens)?;
            let free = self.generate_under(None, held.generated_tokens)?;
            if index >= n_warmup {
                pairs.push(Pair::new(&held, &free).ok_or_else(|| {
                    Failure::Failed(format!(
                        "a response under this schema has only {} tokens, which is too short to \
                         measure; choose a schema with more required properties",
                        held.generated_tokens
                    ))
                })?);
            }
        }
        Ok(SchemaCost::new(&self.loaded.info, self.n_prompt, pairs))
    }

    /// Generates at most `n_generate` tokens after a new prompt: exactly as many without a constraint,
    /// else until the response is complete.
    fn generate_under(
        &mut self,
        constraint: Option<Constraint>,
        n_generate: usize,
    ) -> Result<Stats> {
        let prompt = self.next_prompt();
        self.send(
            &prompt,
            GenerationParams {
                sampling: SamplingParams {
                    // With a seed, nothing is guessed but the text that the schema forces.
                    seed: (!self.args.speculation).then_some(0),
                    ..greedy()
                },
                max_tokens: Some(n_generate),
                ignore_end_of_text: constraint.is_none(),
                constraint,
                ..GenerationParams::default()
            },
        )
    }

    fn send(&self, tokens: &[u32], params: GenerationParams) -> Result<Stats> {
        let prompt = Prompt::Tokens(tokens.to_vec());
        let n_generate = params.max_tokens.unwrap_or_default();
        let request = self.loaded.request(prompt, Truncation::Disabled, params);
        let completion = self.client.send(&request, &mut |_| Ok(()))?;
        let (reason, stats) = completion.finished()?;
        self.loaded.record(&stats);
        match reason {
            FinishReason::Canceled => Err(Failure::Interrupted),
            FinishReason::Shed => {
                let reason = stop_reason(self.client);
                Err(Failure::Failed(format!("the run was stopped: {reason}")))
            }
            FinishReason::Length if stats.generated_tokens < n_generate => {
                Err(Failure::Failed(format!(
                    "the run was limited to {} tokens; `transom status` shows the reason",
                    stats.generated_tokens
                )))
            }
            FinishReason::Stop | FinishReason::Length => Ok(stats),
        }
    }

    /// Returns the fixed prompt with a first token of its own: no two prompts share a prefix, so none is
    /// in the prefix cache, and the allocator's cache stays warm as in real use.
    fn next_prompt(&mut self) -> Vec<u32> {
        self.n_prompts_made += 1;
        let vocab_size = self.loaded.info.vocab_size.max(1);
        let first = (FIRST_SEED + self.n_prompts_made) % vocab_size;
        let rest = (1..self.n_prompt).map(|index| self.token(index as u64));
        std::iter::once(first as u32).chain(rest).collect()
    }

    /// Returns a token id that depends only on `seed` and the size of the vocabulary, evenly distributed.
    fn token(&self, seed: u64) -> u32 {
        (transom_bench::mixed(seed) % self.loaded.info.vocab_size.max(1) as u64) as u32
    }
}

/// Any fixed numbers work if the three sequences differ.
const FIRST_SEED: usize = 100;
const ANSWER_SEED: u64 = 1 << 40;
const NEW_SEED: u64 = 1 << 41;

#[cfg(test)]
mod tests;
