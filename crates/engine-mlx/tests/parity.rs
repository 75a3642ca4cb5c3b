//! The engine computes the same greedy tokens as mlx-lm, and logits within [`TOLERANCE`].
//!
//! `fixtures/make_fixtures.py` creates the models and mlx-lm's results. Every model is tested with
//! dense and with quantized products, with prefill in chunks, and with reused prefixes.

#[path = "fixtures/support.rs"]
mod support;
#[path = "fixtures/turns.rs"]
mod turns;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use safetensors::SafeTensors;
use serde::Deserialize;
use serde_json::Value;
use support::{assemble, fixtures, load, lock_mlx};
use transom_engine::test_support::Recorder;
use transom_engine::{
    ChatPrompt, FinishReason, GenerationParams, JobControl, Limits, LoadedModel, Message, Prompt,
    SamplingParams, Section, Trim,
};
use transom_engine_mlx::{MlxEngine, MlxModel};
use turns::greedy;

/// Largest error of a logit, as a fraction of the largest logit of its row. Dense and quantized
/// products sum f32 numbers in different orders (1.2e-5 was the largest error on x86-64). The
/// greedy tokens of the fixtures lead by 20 times this.
const TOLERANCE: f32 = 5e-5;

/// The results of mlx-lm for one model.
struct Golden {
    prompt: Vec<u32>,
    tokens: Vec<u32>,
    positions: Vec<u32>,
    logits: Vec<Vec<f32>>,
    turn2_prompt: Vec<u32>,
    turn2_tokens: Vec<u32>,
    turn2_logits: Vec<f32>,
}

impl Golden {
    fn read(name: &str) -> Self {
        let path = fixtures()
            .join("models")
            .join(name)
            .join("golden.safetensors");
        let bytes = fs::read(path).expect("the golden file exists");
        let file = SafeTensors::deserialize(&bytes).expect("the golden file is valid");
        let words = |tensor: &str| -> Vec<[u8; 4]> {
            let view = file.tensor(tensor).expect("the golden file is complete");
            view.data().as_chunks::<4>().0.to_vec()
        };
        let ids = |tensor| words(tensor).into_iter().map(u32::from_le_bytes).collect();
        let floats =
            |tensor| -> Vec<f32> { words(tensor).into_iter().map(f32::from_le_bytes).collect() };
        let turn2_logits = floats("turn2_logits");
        Self {
            prompt: ids("prompt"),
            tokens: ids("tokens"),
            positions: ids("positions"),
            logits: floats("logits")
                .chunks(turn2_logits.len())
                .map(<[f32]>::to_vec)
                .collect(),
            turn2_prompt: ids("turn2_prompt"),
            turn2_tokens: ids("turn2_tokens"),
            turn2_logits,
        }
    }
}

/// Returns an engine that dequantizes weights at load, and one that never does.
fn engines() -> [(&'static str, MlxEngine); 2] {
    [
        ("dense", MlxEngine::new().with_dense_limit_bytes(u64::MAX)),
        ("quantized", MlxEngine::new().with_dense_limit_bytes(0)),
    ]
}

fn model_names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(fixtures().join("models"))
        .expect("the models exist")
        .map(|entry| entry.expect("the models can be listed").file_name())
        .map(|name| name.into_string().expect("names are ASCII"))
        .collect();
    names.sort();
    names
}

/// Runs `check` on every model with both engines, and names all that fail.
fn for_every_model(limits: &Limits, check: impl Fn(&mut MlxModel, &Golden, &str)) {
    for_models(limits, model_names(), check);
}

/// Runs `check` on the models without quantization, of which each architecture has some.
fn for_every_unquantized_model(limits: &Limits, check: impl Fn(&mut MlxModel, &Golden, &str)) {
    let mut names = model_names();
    names.retain(|name| !is_quantized(name));
    for_models(limits, names, check);
}

fn for_models(limits: &Limits, names: Vec<String>, check: impl Fn(&mut MlxModel, &Golden, &str)) {
    let _mlx = lock_mlx();
    let mut failed = Vec::new();
    for name in names {
        let folder = assemble(&name);
        let golden = Golden::read(&name);
        // Without quantization, both engines compute in the same way.
        let n_engines = if is_quantized(&name) { 2 } else { 1 };
        for (kind, engine) in engines().into_iter().take(n_engines) {
            let case = format!("{name}, {kind}");
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let mut model = load(&engine, folder.path(), limits)
                    .unwrap_or_else(|error| panic!("{case}: {error}"));
                check(&mut model, &golden, &case);
            }));
            if outcome.is_err() {
                failed.push(case);
            }
        }
    }
    assert!(failed.is_empty(), "see above for what failed: {failed:#?}");
}

/// Returns the configuration of a model of the fixtures, with whose name `case` begins.
fn whole_config(case: &str) -> Value {
    let name = case.split(',').next().expect("a name");
    let path = fixtures().join("models").join(name).join("config.json");
    let text = fs::read_to_string(path).expect("a configuration");
    serde_json::from_str(&text).expect("valid JSON")
}

/// Returns the configuration of its text part.
fn config(case: &str) -> Value {
    let config = whole_config(case);
    config.get("text_config").unwrap_or(&config).clone()
}

fn is_quantized(case: &str) -> bool {
    whole_config(case).get("quantization").is_some()
}

/// Returns true if the model has recurrent layers.
fn has_states(case: &str) -> bool {
    config(case).get("linear_num_key_heads").is_some()
}

fn assert_close(found: &[f32], expected: &[f32], case: &str) {
    assert_eq!(found.len(), expected.len(), "{case}");
    let largest = expected.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
    let error = found
        .iter()
        .zip(expected)
        // A NaN counts as the largest error; `f32::max` would drop it.
        .map(|(a, b)| {
            if a.is_nan() {
                f32::INFINITY
            } else {
                (a - b).abs()
            }
        })
        .fold(0.0, f32::max);
    assert!(
        error <= TOLERANCE * largest,
        "{case}: a logit is off by {error:e}, that is {:e} of the largest",
        error / largest
    );
}

#[test]
fn logits_equal_those_of_mlx_lm() {
    for_every_model(&Limits::default(), |model, golden, case| {
        let rows = model.logits(&golden.prompt).expect("logits");
        assert_eq!(rows.len(), golden.prompt.len(), "{case}");
        for (position, expected) in golden.positions.iter().zip(&golden.logits) {
            let case = format!("{case}, position {position}");
            assert_close(&rows[*position as usize], expected, &case);
        }
        let rows = model.logits(&golden.turn2_prompt).expect("logits");
        let last = rows.last().expect("one row per token");
        assert_close(last, &golden.turn2_logits, &format!("{case}, turn 2"));
    });
}

#[test]
fn greedy_tokens_equal_those_of_mlx_lm_with_any_prefill_chunk() {
    for prefill_chunk in [1, 7, 512] {
        let limits = Limits {
            prefill_chunk,
            ..Limits::default()
        };
        for_every_model(&limits, |model, golden, case| {
            let (tokens, stats) = greedy(model, &golden.prompt, golden.tokens.len());
            assert_eq!(tokens, golden.tokens, "{case}, chunks of {prefill_chunk}");
            assert_eq!(stats.prompt_tokens, golden.prompt.len());
            assert_eq!(stats.cached_tokens, 0, "{case}");
        });
    }
}

#[test]
fn a_second_turn_prefills_only_new_tokens_and_gives_the_same_tokens() {
    for prefill_chunk in [7, 512] {
        let limits = Limits {
            prefill_chunk,
            ..Limits::default()
        };
        for_every_model(&limits, |model, golden, case| {
            greedy(model, &golden.prompt, golden.tokens.len());
            let n_tokens = golden.turn2_tokens.len();
            let (tokens, stats) = greedy(model, &golden.turn2_prompt, n_tokens);
            assert_eq!(tokens, golden.turn2_tokens, "{case}");
            // The last token of the response may not have been processed.
            let turn1 = golden.prompt.len() + golden.tokens.len();
            assert!(
                (turn1 - 1..=turn1).contains(&stats.cached_tokens),
                "{case}: {} of {turn1} tokens were cached",
                stats.cached_tokens
            );
        });
    }
}

#[test]
fn a_second_turn_without_a_first_gives_the_same_tokens() {
    for_every_unquantized_model(&Limits::default(), |model, golden, case| {
        let n_tokens = golden.turn2_tokens.len();
        let (tokens, stats) = greedy(model, &golden.turn2_prompt, n_tokens);
        assert_eq!(tokens, golden.turn2_tokens, "{case}");
        assert_eq!(stats.cached_tokens, 0, "{case}");
    });
}

#[test]
fn an_earlier_turn_again_gives_the_same_tokens() {
    for_every_unquantized_model(&Limits::default(), |model, golden, case| {
        greedy(model, &golden.turn2_prompt, 8);
        let (tokens, stats) = greedy(model, &golden.prompt, golden.tokens.len());
        assert_eq!(tokens, golden.tokens, "{case}");
        // The whole prompt is cached, but the logits after its last token are needed again. A state
        // cannot rewind.
        let cached = if has_states(case) {
            0
        } else {
            golden.prompt.len() - 1
        };
        assert_eq!(stats.cached_tokens, cached, "{case}");
    });
}

#[test]
fn a_trimmed_model_gives_the_same_tokens() {
    for_every_unquantized_model(&Limits::default(), |model, golden, case| {
        greedy(model, &golden.prompt, golden.tokens.len());
        model.trim(Trim::Everything);
        assert_eq!(model.memory().kv_cache_bytes, 0, "{case}");
        let (tokens, stats) = greedy(model, &golden.prompt, golden.tokens.len());
        assert_eq!(tokens, golden.tokens, "{case}");
        assert_eq!(stats.cached_tokens, 0, "{case}");
    });
}

#[test]
fn a_trim_that_keeps_the_conversation_needs_no_prefill() {
    for_every_unquantized_model(&Limits::default(), |model, golden, case| {
        greedy(model, &golden.prompt, golden.tokens.len());
        model.trim(Trim::KeepConversation);
        assert_eq!(model.memory().allocator_cache_bytes, 0, "{case}");
        let (tokens, stats) = greedy(model, &golden.prompt, golden.tokens.len());
        assert_eq!(tokens, golden.tokens, "{case}");
        // A state has a checkpoint some tokens before the end of the prompt.
        let least = if has_states(case) { 8 } else { 1 };
        assert_eq!(stats.cached_tokens, golden.prompt.len() - least, "{case}");
    });
}

#[test]
fn the_models_cover_every_architecture_and_quantization() {
    let mut architectures = BTreeSet::new();
    let mut quantizations = BTreeSet::new();
    let mut plain = BTreeSet::new();
    for name in model_names() {
        let path = fixtures().join("models").join(&name).join("config.json");
        let text = fs::read_to_string(path).expect("a configuration");
        let config: Value = serde_json::from_str(&text).expect("valid JSON");
        architectures.insert(config["model_type"].as_str().expect("a name").to_owned());
        let quantization = &config["quantization"];
        let mode = quantization["mode"].as_str().unwrap_or("affine");
        match quantization["bits"]
            .as_u64()
            .zip(quantization["group_size"].as_u64())
        {
            Some((bits, group_size)) => quantizations.insert((mode.to_owned(), bits, group_size)),
            None => plain.insert(
                config["torch_dtype"]
                    .as_str()
                    .unwrap_or("unnamed")
                    .to_owned(),
            ),
        };
    }
    let names =
        |list: &[&str]| -> BTreeSet<String> { list.iter().map(|&name| name.to_owned()).collect() };
    let every = [
        "gemma3",
        "gemma3_text",
        "gpt_oss",
        "llama",
        "ministral3",
        "mistral",
        "mistral3",
        "phi3",
        "qwen2",
        "qwen3",
        "qwen3_5",
        "qwen3_5_moe",
        "qwen3_moe",
        "qwen3_next",
        "smollm3",
    ];
    let missing: Vec<_> = names(&every).difference(&architectures).cloned().collect();
    assert!(missing.is_empty(), "{missing:?}");
    let dtypes = names(&["bfloat16", "float16", "float32"]);
    assert!(plain.is_superset(&dtypes), "{plain:?}");
    for (bits, group_size) in [2, 3, 4, 5, 6, 8]
        .into_iter()
        .flat_map(|bits| [32, 64, 128].map(|group_size| (bits, group_size)))
    {
        let form = ("affine".to_owned(), bits, group_size);
        assert!(quantizations.contains(&form), "{form:?}");
    }
    assert!(quantizations.contains(&("mxfp4".to_owned(), 4, 32)));
}

/// mlx-lm's responses of the starter model.
#[derive(Deserialize)]
struct StarterGolden {
    model: String,
    max_tokens: usize,
    cases: Vec<StarterCase>,
}

#[derive(Deserialize)]
struct StarterCase {
    name: String,
    messages: Vec<Message>,
    prompt_tokens: Vec<u32>,
    tokens: Vec<u32>,
    /// The likeliest first tokens of the response, with their logits.
    first_logits: Vec<(u32, f32)>,
    text: String,
    ended: bool,
}

#[test]
fn the_starter_model_gives_the_same_text_as_mlx_lm() {
    let _mlx = lock_mlx();
    let text = fs::read_to_string(fixtures().join("starter_golden.json")).expect("the responses");
    let golden: StarterGolden = serde_json::from_str(&text).expect("valid JSON");
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = repository.join(&golden.model);
    let engine = MlxEngine::new();
    let mut model = load(&engine, &folder, &Limits::default()).expect("the starter loads");
    assert_eq!(golden.cases.len(), 10);
    for case in &golden.cases {
        check_starter_case(&mut model, case, golden.max_tokens);
    }
}

fn check_starter_case(model: &mut MlxModel, case: &StarterCase, max_tokens: usize) {
    let chat = ChatPrompt {
        messages: case.messages.clone(),
        ..ChatPrompt::default()
    };
    let prompt = model.prepare(&Prompt::Chat(chat)).expect("the prompt fits");
    assert_eq!(prompt.tokens, case.prompt_tokens, "{}", case.name);
    let rows = model.logits(&prompt.tokens).expect("logits");
    let last = rows.last().expect("one row per token");
    let (tokens, expected): (Vec<u32>, Vec<f32>) = case.first_logits.iter().copied().unzip();
    let found: Vec<f32> = tokens.iter().map(|&token| last[token as usize]).collect();
    assert_close(&found, &expected, &case.name);
    let params = GenerationParams {
        sampling: SamplingParams {
            temperature: 0.0,
            ..SamplingParams::default()
        },
        max_tokens: Some(max_tokens),
        ..GenerationParams::default()
    };
    let mut recorder = Recorder::default();
    let result = model.generate(&prompt, &params, &JobControl::new(), &mut recorder);
    let (reason, stats) = result.expect("the response succeeds");
    let expected = if case.ended {
        FinishReason::Stop
    } else {
        FinishReason::Length
    };
    assert_eq!(reason, expected, "{}", case.name);
    assert_eq!(
        recorder.tokens[..stats.generated_tokens],
        case.tokens,
        "{}",
        case.name
    );
    assert_eq!(recorder.text(Section::Reasoning), "", "{}", case.name);
    assert_eq!(recorder.text(Section::Answer), case.text, "{}", case.name);
}
