//! Speculative decoding: responses equal those of a single pass over the whole text, whatever was
//! drafted, accepted and removed, and wherever they end.

#[path = "fixtures/support.rs"]
mod support;
#[path = "fixtures/turns.rs"]
mod turns;

use support::{assemble, load, lock_mlx};
use transom_engine::test_support::greedy_params;
use transom_engine::{FinishReason, GenerationParams, Limits};
use transom_engine_mlx::{MlxEngine, MlxModel};
use turns::{model, respond, text, turn};

/// Models with full attention, sliding windows, shared keys, and experts.
const MODELS: [&str; 6] = [
    "qwen3-bf16",
    "qwen3-moe-q4-g64",
    "mistral-window",
    "gemma3-bf16",
    "gemma4-bf16-tables",
    "gpt-oss-mxfp4",
];

/// The letters `a`, `b` and `c` in the tokenizer of the fixtures.
const LETTERS: [u32; 3] = [64, 65, 66];

/// Largest distance of a token's logit from the highest one, as a fraction of the largest logit.
/// Rounding stays below it.
const TOLERANCE: f32 = 1e-3;

/// Returns parameters for greedy tokens of which each is one of `allowed`. So responses repeat
/// themselves, and drafts are often correct.
fn among(allowed: &[u32]) -> GenerationParams {
    let mut params = greedy_params();
    params.sampling.logit_bias = allowed.iter().map(|&token| (token, 1000.0)).collect();
    params
}

/// Checks each token of a response with the logits of one pass over prompt and response.
fn check(model: &MlxModel, prompt: &[u32], response: &[u32], allowed: &[u32], case: &str) {
    let all = [prompt, &response[..response.len() - 1]].concat();
    let rows = model.logits(&all).expect("logits");
    for (index, (row, token)) in rows[prompt.len() - 1..].iter().zip(response).enumerate() {
        assert!(allowed.contains(token), "{case}: token {index} is {token}");
        let of_allowed = allowed.iter().map(|&token| row[token as usize]);
        let largest = of_allowed.fold(f32::MIN, f32::max);
        let scale = row.iter().fold(0.0_f32, |max, logit| max.max(logit.abs()));
        let below = largest - row[*token as usize];
        assert!(
            below <= TOLERANCE * scale,
            "{case}: token {index} of the response is {token}, whose logit is {below} too low"
        );
    }
}

/// The buffers of all layers grow and windows move while tokens are drafted and removed.
#[test]
fn a_response_with_drafts_equals_one_pass() {
    let _mlx = lock_mlx();
    let (mut n_drafted, mut n_accepted) = (0, 0);
    for name in MODELS {
        let (_folder, mut model) = model(name, 64);
        for n_allowed in 1..=LETTERS.len() {
            let allowed = &LETTERS[..n_allowed];
            let mut params = among(allowed);
            params.max_tokens = Some(330);
            let prompt = text(n_allowed as u32, 30 + 40 * n_allowed);
            let (response, reason, stats) = respond(&mut model, &prompt, &params);
            let case = format!("{name}, {n_allowed} letters");
            assert_eq!((response.len(), reason), (330, FinishReason::Length));
            check(&model, &prompt, &response, allowed, &case);
            assert!(n_allowed > 1 || stats.accepted_tokens > 0, "{case}");
            n_drafted += stats.drafted_tokens;
            n_accepted += stats.accepted_tokens;
        }
    }
    assert!(n_accepted > 100, "{n_accepted} of {n_drafted}");
}

#[test]
fn a_turn_after_a_stop_within_a_draft_reuses_the_response() {
    let _mlx = lock_mlx();
    for name in MODELS {
        let (_folder, mut model) = model(name, 64);
        for n_tokens in [60, 61, 62, 300] {
            let case = format!("{name}, {n_tokens} tokens");
            let mut params = among(&LETTERS[..1]);
            params.stop = vec!["a".repeat(n_tokens)];
            let prompt = text(5, 50);
            let (response, reason, stats) = respond(&mut model, &prompt, &params);
            assert_eq!(response, [LETTERS[0]].repeat(n_tokens), "{case}");
            assert_eq!(reason, FinishReason::Stop, "{case}");
            assert!(stats.accepted_tokens < n_tokens, "{case}: {stats:?}");
            let next = [&prompt[..], &response, &LETTERS[1..], &text(6, 20)].concat();
            let (_, cached) = turn(&mut model, &next, 20, &case);
            let n_before = prompt.len() + n_tokens;
            // The last token may not have been processed.
            assert!(
                (n_before - 1..=n_before).contains(&cached),
                "{case}: {cached}"
            );
        }
    }
}

#[test]
fn a_token_limit_within_a_draft_ends_the_response() {
    let _mlx = lock_mlx();
    let (_folder, mut model) = model("qwen3-bf16", 64);
    let prompt = text(7, 20);
    let mut n_accepted = 0;
    for n_tokens in (1..40).chain([150]) {
        let mut params = among(&LETTERS[..1]);
        params.max_tokens = Some(n_tokens);
        let (response, reason, stats) = respond(&mut model, &prompt, &params);
        assert_eq!(response, [LETTERS[0]].repeat(n_tokens));
        assert_eq!(reason, FinishReason::Length);
        assert_eq!(stats.generated_tokens, n_tokens);
        assert!(stats.accepted_tokens <= stats.drafted_tokens, "{stats:?}");
        n_accepted += stats.accepted_tokens;
    }
    assert!(n_accepted > 0);
}

#[test]
fn a_full_context_ends_the_response() {
    let _mlx = lock_mlx();
    for name in ["qwen3-bf16", "mistral-window"] {
        let folder = assemble(name);
        for context_length in [200, 256, 257, 300] {
            let limits = Limits {
                context_length,
                ..Limits::default()
            };
            let mut model = load(&MlxEngine::new(), folder.path(), &limits).expect("it loads");
            let prompt = text(8, 40);
            let (response, reason, stats) = respond(&mut model, &prompt, &among(&LETTERS[..1]));
            assert_eq!(response.len(), context_length - prompt.len(), "{name}");
            assert_eq!(reason, FinishReason::Length, "{name}");
            assert!(stats.accepted_tokens > 0, "{name}: {stats:?}");
        }
    }
}

#[test]
fn seeds_recurrent_layers_and_the_callers_choice_turn_drafts_off() {
    let _mlx = lock_mlx();
    let mut allowed = among(&LETTERS[..1]);
    allowed.max_tokens = Some(100);
    let mut seeded = allowed.clone();
    seeded.sampling.seed = Some(1);
    let mut refused = allowed.clone();
    refused.speculate = false;
    for (name, params) in [
        ("qwen3-bf16", seeded),
        ("qwen3-bf16", refused),
        ("qwen3-5-bf16-authors", allowed),
    ] {
        let (_folder, mut model) = model(name, 64);
        let (response, _, stats) = respond(&mut model, &text(9, 40), &params);
        assert_eq!(response.len(), 100, "{name}");
        assert_eq!(stats.drafted_tokens, 0, "{name}: {stats:?}");
    }
}
