//! Sessions that were parked or saved with keys and values in 8 bits, against sessions that were not.

use mlx_rs::Dtype;
use transom_engine::SavedConversation;
use transom_engine::saved::new_blocks;

use super::*;
use crate::MlxModel;
use crate::nn::Positions;
use crate::state;
use crate::test_support::load_quantizing;

/// Dense, with windows, with layers that use the keys of others, and hybrid. With random weights, routers
/// of experts often choose by a hair, so any rounding may change the logits of such models much.
const MODELS: [&str; 4] = [
    "qwen3-q8-g128",
    "gemma3-bf16",
    "gemma4-bf16-tables",
    "qwen3-5-text-q8-g64",
];

/// Largest difference of two logits, as a fraction of the largest logit.
const TOLERANCE: f32 = 0.02;

const N_TOKENS: usize = 700;

/// A text whose places have different tokens before them.
fn text() -> Vec<u32> {
    (0..N_TOKENS as u32)
        .map(|i| i * i * 7919 % 251 + 5)
        .collect()
}

/// Returns a session with the text, and a checkpoint within it.
fn session(model: &MlxModel) -> Session {
    let mut session = Session::new(&model.transformer);
    for tokens in text().chunks(N_TOKENS / 2) {
        read(model, &mut session, tokens, Positions::Last);
        session.add_checkpoint();
    }
    session
}

/// Appends tokens, and returns the logits that follow.
fn read(model: &MlxModel, session: &mut Session, tokens: &[u32], positions: Positions) -> Vec<f32> {
    let ids = Array::from_slice(tokens, &[tokens.len() as i32]);
    let mut caches = [session.caches_mut()];
    let logits = model.transformer.logits(&ids, &mut caches, positions);
    session.processed(tokens);
    let logits = logits.and_then(|logits| logits.as_dtype(Dtype::Float32)?.contiguous());
    logits.expect("MLX").as_slice().to_vec()
}

/// Compares the logits after each of some tokens that two sessions read.
fn compare(model: &MlxModel, found: &mut Session, expected: &mut Session, case: &str) {
    assert_eq!(found.tokens(), expected.tokens(), "{case}");
    let next: Vec<u32> = (20..60).collect();
    let found = read(model, found, &next, Positions::All);
    let expected = read(model, expected, &next, Positions::All);
    let largest = expected
        .iter()
        .fold(0.0_f32, |most, logit| most.max(logit.abs()));
    let differences = found.iter().zip(&expected).map(|(a, b)| (a - b).abs());
    let worst = differences.fold(0.0_f32, f32::max) / largest;
    assert!(worst <= TOLERANCE, "{case}: {worst}");
}

#[test]
fn a_parked_session_continues_at_every_place_with_nearly_the_same_logits() {
    for name in MODELS {
        let model = load_quantizing(name);
        let plain = session(&model);
        let mut quantized = session(&model);
        quantized.quantize().expect("MLX quantizes");
        // The end, within the open block, at the ends of blocks and beside them, a checkpoint, the start.
        for n_tokens in [700, 699, 600, 513, 512, 511, 350, 257, 256, 255, 1, 0] {
            let case = format!("{name} at {n_tokens}");
            let prompt = [&text()[..n_tokens], &[3]].concat();
            let n_reused = quantized.reusable_tokens(&prompt);
            assert_eq!(n_reused, plain.reusable_tokens(&prompt), "{case}");
            let expected = || plain.fork(n_reused).expect("MLX copies");
            let mut fork = quantized.fork(n_reused).expect("MLX copies");
            compare(&model, &mut fork, &mut expected(), &case);
            if [700, 600, 512, 350, 255, 0].contains(&n_tokens) {
                let mut parked = session(&model);
                parked.quantize().expect("MLX quantizes");
                let continued = parked.continue_from(n_reused, None);
                continued.expect("MLX dequantizes");
                compare(&model, &mut parked, &mut expected(), &case);
            }
        }
    }
}

#[test]
fn a_parked_session_has_exactly_the_expected_bytes() {
    for name in MODELS {
        let model = load_quantizing(name);
        let mut session = session(&model);
        let (plain, expected) = (session.bytes(), session.parked_bytes());
        session.quantize().expect("MLX quantizes");
        assert_eq!(session.bytes(), expected, "{name}");
        assert_eq!(session.parked_bytes(), expected, "{name}");
        assert!(expected < plain, "{name}: {expected} of {plain}");
    }
}

/// A file has what a parked session has, whether the session was parked or not when it was saved.
#[test]
fn a_restored_session_is_one_that_was_parked() {
    for name in MODELS {
        let model = load_quantizing(name);
        let mut parked = session(&model);
        parked.quantize().expect("MLX quantizes");
        for saved in [&session(&model), &parked] {
            let blocks = new_blocks(0..N_TOKENS);
            let block = |index: usize| state::save_block(saved, blocks[index].clone());
            let head = state::save_head(saved, &model.transformer, &model.info).expect("saved");
            let restored = state::restore(
                &model.transformer,
                &model.info,
                SavedConversation {
                    id: None,
                    tokens: saved.tokens(),
                    head: &head,
                    blocks: if saved.has_growing_caches() {
                        &blocks
                    } else {
                        &[]
                    },
                    read_block: &mut |index| block(index),
                },
            );
            let restored = restored.expect("restored");
            let mut plain = session(&model);
            plain.quantize().expect("MLX quantizes");
            plain
                .continue_from(N_TOKENS, None)
                .expect("MLX dequantizes");
            for (found, expected) in restored.caches().iter().zip(plain.caches()) {
                let of = |cache: &LayerCache| cache.block(0, N_TOKENS as i32, false).ok();
                for (found, expected) in of(found)
                    .iter()
                    .flatten()
                    .zip(of(expected).iter().flatten())
                {
                    assert!(found.eq_values(expected).expect("MLX"), "{name}");
                }
            }
        }
    }
}
