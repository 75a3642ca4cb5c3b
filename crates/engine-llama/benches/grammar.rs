//! Compares the speed of responses under a JSON Schema with llama.cpp's own grammar:
//! `cargo bench -p transom-engine-llama --bench grammar [-- FILE.gguf]`.
//!
//! Both sides load the same file, use the same threads, and write an object with the same properties,
//! whose schema has 200 lines. llama.cpp's side does what its server does: it draws the most likely token,
//! checks that one with the grammar, and applies the grammar to all tokens only if it was refused. It has
//! two grammars: one that allows the same layout as ours, one line, and the one that its converter writes
//! for the schema, in which white space is free. The sides alternate, so that other programs slow all of
//! them.

#![expect(
    unsafe_code,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark calls llama.cpp, prints a table and stops at the first error"
)]

#[path = "../tests/fixtures/support.rs"]
mod support;

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::time::Instant;

use llama_cpp_sys_2 as sys;
use serde_json::{Map, Value, json};
use transom_engine::test_support::one_line;
use transom_engine::{
    Constraint, GenerationParams, Grammar, JobControl, Limits, LoadedModel, Prompt, SamplingParams,
    TokenEvent,
};
use transom_engine_llama::LlamaEngine;

const CONTEXT: usize = 4096;
const MAX_TOKENS: usize = 1500;
const ROUNDS: usize = 5;
const N_PROPERTIES: usize = 40;
const ENUM: [&str; 3] = ["open", "sent", "paid"];
const MAX_LENGTH: usize = 12;

fn main() {
    // Cargo passes `--bench`.
    let file = std::env::args().skip(1).find(|text| !text.starts_with('-'));
    let starter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/starter/starter.gguf");
    let file = file.map_or(starter, PathBuf::from);
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let schema = schema();
    let (one_line_grammar, converted) = (gbnf(true), gbnf(false));
    let n_lines = serde_json::to_string_pretty(&schema)
        .unwrap()
        .lines()
        .count();
    println!(
        "{}: {n_threads} threads, a schema of {n_lines} lines",
        file.display()
    );
    let limits = Limits {
        context_length: CONTEXT,
        ..Limits::default()
    };
    let engine = LlamaEngine::new().with_threads(n_threads);
    let mut model = support::load(&engine, &file, &limits).unwrap();
    let peer = Peer::load(&file, n_threads);
    let prompt = Prompt::Text(format!(
        "An order as JSON: {}\nAnother one:",
        one_line(&example())
    ));
    let tokens = model.prepare(&prompt).unwrap().tokens;
    let tokens: Vec<i32> = tokens.iter().map(|token| *token as i32).collect();
    let names = [
        "Transom, schema",
        "Transom, free",
        "llama.cpp, grammar, one line",
        "llama.cpp, converted schema",
        "llama.cpp, free",
    ];
    let mut speeds: [Vec<f64>; 5] = Default::default();
    // The first round is a warm-up.
    for round in 0..=ROUNDS {
        let constraint = Constraint::on_response(Grammar::JsonSchema(schema.clone()));
        let (n_tokens, text, held) = generate(&mut *model, &prompt, Some(constraint), MAX_TOKENS);
        assert!(n_tokens == MAX_TOKENS || serde_json::from_str::<Value>(&text).is_ok());
        let (_, _, free) = generate(&mut *model, &prompt, None, n_tokens);
        let (n_same, peer_same) = peer.generate(&tokens, Some(&one_line_grammar), MAX_TOKENS);
        let (n_converted, peer_converted) = peer.generate(&tokens, Some(&converted), MAX_TOKENS);
        let (_, peer_free) = peer.generate(&tokens, None, n_tokens);
        if round == 0 {
            println!(
                "{n_tokens} tokens here, {n_same} and {n_converted} with llama.cpp's grammars, at most \
                 {MAX_TOKENS}"
            );
            continue;
        }
        let round = [held, free, peer_same, peer_converted, peer_free];
        for (speeds, speed) in speeds.iter_mut().zip(round) {
            speeds.push(speed);
        }
    }
    println!("{:<28} {:>10} {:>21}", "tok/s", "median", "min – max");
    let medians = names.into_iter().zip(&mut speeds).map(|(name, speeds)| {
        speeds.sort_by(f64::total_cmp);
        let (median, max) = (speeds[speeds.len() / 2], speeds[speeds.len() - 1]);
        println!("{name:<28} {median:>10.1} {:>10.1} – {max:.1}", speeds[0]);
        median
    });
    let medians: Vec<f64> = medians.collect();
    for (index, name) in names.iter().enumerate().skip(1) {
        println!("schema / {name}: {:.2}x", medians[0] / medians[index]);
    }
}

/// Returns the name of each property, its schema, and the rule of [`gbnf`] for its value.
fn properties() -> impl Iterator<Item = (String, Value, &'static str)> {
    (0..N_PROPERTIES).map(|index| {
        let (schema, rule) = match index % 4 {
            0 => (json!({ "type": "string", "maxLength": MAX_LENGTH }), "text"),
            1 => (
                json!({ "type": "integer", "minimum": 0, "maximum": 999 }),
                "number",
            ),
            2 => (json!({ "type": "boolean" }), "boolean"),
            _ => (json!({ "type": "string", "enum": ENUM }), "state"),
        };
        (format!("property_{index}"), schema, rule)
    })
}

/// Returns a schema of 40 required properties.
fn schema() -> Value {
    let properties: Map<String, Value> = properties()
        .map(|(name, schema, _)| (name, schema))
        .collect();
    let required: Vec<&String> = properties.keys().collect();
    json!({
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": false,
    })
}

/// Returns the schema as a grammar of llama.cpp: that of one line, or the one that its converter writes.
fn gbnf(is_one_line: bool) -> CString {
    let [colon, comma, space] = match is_one_line {
        true => ["\": \"", "\", \"", ""],
        false => ["space \":\" space", "\",\" space", "space"],
    };
    let pairs = properties();
    let pairs = pairs.map(|(name, _, rule)| format!("\"\\\"{name}\\\"\" {colon} {rule}"));
    let pairs: Vec<String> = pairs.collect();
    let states = ENUM.map(|state| format!("\"\\\"{state}\\\"\"")).join(" | ");
    let grammar = [
        format!(
            "root ::= \"{{\" {space} {} \"}}\" {space}",
            pairs.join(&format!(" {comma} "))
        ),
        "space ::= | \" \" | \"\\n\"{1,2} [ \\t]{0,20}".to_owned(),
        "char ::= [^\"\\\\\\x7F\\x00-\\x1F] | [\\\\] ([\"\\\\bfnrt] | \"u\" [0-9a-fA-F]{4})"
            .to_owned(),
        format!("text ::= \"\\\"\" char{{0,{MAX_LENGTH}}} \"\\\"\" {space}"),
        format!("number ::= ([0-9] | [1-9] [0-9]{{1,2}}) {space}"),
        format!("boolean ::= (\"true\" | \"false\") {space}"),
        format!("state ::= ({states}) {space}"),
    ];
    CString::new(grammar.join("\n")).unwrap()
}

/// Returns an object that is valid under the schema. A model without instructions writes one like it.
fn example() -> Value {
    let value = |index: usize| match index % 4 {
        0 => json!("red lamp"),
        1 => json!(index * 7),
        2 => json!(index % 8 == 2),
        _ => json!(ENUM[index % ENUM.len()]),
    };
    let properties = (0..N_PROPERTIES).map(|index| (format!("property_{index}"), value(index)));
    Value::Object(properties.collect())
}

/// Returns the number of tokens, the text and the speed of a greedy response.
fn generate(
    model: &mut dyn LoadedModel,
    prompt: &Prompt,
    constraint: Option<Constraint>,
    max_tokens: usize,
) -> (usize, String, f64) {
    let prepared = model.prepare(prompt).unwrap();
    let params = GenerationParams {
        sampling: SamplingParams {
            temperature: 0.0,
            // With a seed, nothing is guessed but the text that the schema forces.
            seed: Some(0),
            ..SamplingParams::default()
        },
        max_tokens: Some(max_tokens),
        ignore_end_of_text: constraint.is_none(),
        constraint,
        ..GenerationParams::default()
    };
    let (mut text, mut speed) = (String::new(), None);
    let mut n_tokens = 0;
    let mut sink = |event: TokenEvent| match event {
        TokenEvent::Text { text: more, .. } => text.push_str(&more),
        TokenEvent::Finished { stats, .. } => {
            n_tokens = stats.generated_tokens;
            speed = stats.decode_tokens_per_second();
        }
        _ => {}
    };
    model
        .generate(&prepared, &params, &JobControl::new(), &mut sink)
        .unwrap();
    (n_tokens, text, speed.unwrap())
}

/// llama.cpp with its own grammar.
struct Peer {
    model: *mut sys::llama_model,
    context: *mut sys::llama_context,
}

impl Peer {
    fn load(file: &Path, n_threads: usize) -> Self {
        let path = CString::new(file.to_str().unwrap()).unwrap();
        let n_threads = i32::try_from(n_threads).unwrap();
        // SAFETY: the path ends with a zero byte, and both results are checked.
        let (model, context) = unsafe {
            let model =
                sys::llama_model_load_from_file(path.as_ptr(), sys::llama_model_default_params());
            assert!(!model.is_null());
            let mut params = sys::llama_context_default_params();
            params.n_ctx = CONTEXT as u32;
            params.n_threads = n_threads;
            params.n_threads_batch = n_threads;
            (model, sys::llama_init_from_model(model, params))
        };
        assert!(!context.is_null());
        Self { model, context }
    }

    /// Returns the number of tokens and the speed of a greedy response, after its first token. Without a
    /// grammar it has `max_tokens`.
    fn generate(
        &self,
        prompt: &[i32],
        grammar: Option<&CString>,
        max_tokens: usize,
    ) -> (usize, f64) {
        // SAFETY: model and context live as long as `self`, and the grammar ends with a zero byte.
        unsafe {
            let vocab = sys::llama_model_get_vocab(self.model);
            sys::llama_memory_clear(sys::llama_get_memory(self.context), true);
            let sampler = grammar.map_or(null_mut(), |grammar| {
                let sampler =
                    sys::llama_sampler_init_grammar(vocab, grammar.as_ptr(), c"root".as_ptr());
                assert!(!sampler.is_null(), "llama.cpp refuses the grammar");
                sampler
            });
            let mut next = prompt.to_vec();
            let mut n_tokens = 0;
            let mut began = Instant::now();
            while n_tokens < max_tokens {
                let length = i32::try_from(next.len()).unwrap();
                let batch = sys::llama_batch_get_one(next.as_mut_ptr(), length);
                assert_eq!(sys::llama_decode(self.context, batch), 0);
                let token = self.draw(vocab, sampler);
                if !sampler.is_null() {
                    if sys::llama_vocab_is_eog(vocab, token) {
                        break;
                    }
                    sys::llama_sampler_accept(sampler, token);
                }
                if n_tokens == 0 {
                    began = Instant::now();
                }
                n_tokens += 1;
                next = vec![token];
            }
            let seconds = began.elapsed().as_secs_f64();
            if !sampler.is_null() {
                sys::llama_sampler_free(sampler);
            }
            (n_tokens, (n_tokens - 1) as f64 / seconds)
        }
    }

    /// Draws the most likely token, or the most likely one that the grammar allows.
    ///
    /// # Safety
    /// `vocab` is that of the model, and the context has decoded a batch.
    unsafe fn draw(&self, vocab: *const sys::llama_vocab, sampler: *mut sys::llama_sampler) -> i32 {
        // SAFETY: the last token of the batch has logits, one for each token of the vocabulary, and the
        // arrays live as long as the calls.
        unsafe {
            let n_vocab = usize::try_from(sys::llama_vocab_n_tokens(vocab)).unwrap();
            let logits = sys::llama_get_logits_ith(self.context, -1);
            let logits = std::slice::from_raw_parts(logits, n_vocab);
            let candidates = || {
                let of = |(id, logit): (i32, &f32)| sys::llama_token_data {
                    id,
                    logit: *logit,
                    p: 0.0,
                };
                (0..).zip(logits).map(of).collect::<Vec<_>>()
            };
            let best = |all: &[sys::llama_token_data]| {
                let best = all.iter().max_by(|a, b| a.logit.total_cmp(&b.logit));
                *best.unwrap()
            };
            let mut all = candidates();
            let mut first = best(&all);
            if sampler.is_null() {
                return first.id;
            }
            apply(sampler, std::slice::from_mut(&mut first));
            if first.logit != f32::NEG_INFINITY {
                return first.id;
            }
            apply(sampler, &mut all);
            best(&all).id
        }
    }
}

/// Applies a grammar: the logits of tokens that it refuses become negative infinity.
///
/// # Safety
/// The sampler is one of llama.cpp.
unsafe fn apply(sampler: *mut sys::llama_sampler, tokens: &mut [sys::llama_token_data]) {
    let mut array = sys::llama_token_data_array {
        data: tokens.as_mut_ptr(),
        size: tokens.len(),
        selected: -1,
        sorted: false,
    };
    // SAFETY: the array describes `tokens`, and a grammar changes no more than their logits.
    unsafe { sys::llama_sampler_apply(sampler, &raw mut array) };
}

impl Drop for Peer {
    fn drop(&mut self) {
        // SAFETY: nothing uses them any more.
        unsafe {
            sys::llama_free(self.context);
            sys::llama_model_free(self.model);
        }
    }
}
