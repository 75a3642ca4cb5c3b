//! Conversations that are parked or saved with keys and values in 8 bits: each response nearly equals that
//! of a single pass over the whole text, only new tokens are processed, and MLX allocates less.

#[path = "fixtures/support.rs"]
mod support;
#[path = "fixtures/turns.rs"]
mod turns;

use std::path::Path;

use support::{load, lock_mlx};
use transom_engine::test_support::SavedCopy;
use transom_engine::{Engine, EngineError, KvCacheChoice, Limits, LoadedModel, ModelSource};
use transom_engine_mlx::{MlxEngine, MlxModel};
use turns::{continue_in_order, greedy, model_within, say_within, text};

/// Dense, with windows, and hybrid. With random weights, routers of experts often choose by a hair, so any
/// rounding may change the logits of such models much.
const MODELS: [&str; 4] = [
    "qwen3-q8-g128",
    "llama-bf16-llama3",
    "gemma3-bf16",
    "qwen3-5-text-q8-g64",
];

/// Largest distance of a token's logit from the highest one, as a fraction of the largest logit.
const TOLERANCE: f32 = 0.02;

fn limits(kv_cache: KvCacheChoice) -> Limits {
    Limits {
        kv_cache,
        parked_bytes: 64 << 20,
        ..Limits::default()
    }
}

/// Adds a turn to `conversation` and checks its response. Returns the number of prompt tokens that were
/// processed.
fn say(model: &mut MlxModel, conversation: &mut Vec<u32>, new: &[u32], case: &str) -> usize {
    say_within(TOLERANCE, model, conversation, new, case)
}

#[test]
fn conversations_continue_in_any_order() {
    let _mlx = lock_mlx();
    for name in MODELS {
        let (_folder, mut model) = model_within(name, &limits(KvCacheChoice::Small));
        let order = [0, 1, 2, 0, 2, 1, 1, 0, 2];
        continue_in_order(TOLERANCE, &mut model, &order, 300, name);
    }
}

#[test]
fn a_saved_conversation_has_8_bits_and_is_refused_where_it_would_have_more() {
    let _mlx = lock_mlx();
    for name in MODELS {
        let small = limits(KvCacheChoice::Small);
        let (folder, mut original) = model_within(name, &small);
        let mut conversation = Vec::new();
        say(&mut original, &mut conversation, &text(1, 300), name);
        let copy = SavedCopy::of(&mut original, 0).expect("saved");
        let engine = MlxEngine::new();
        let mut full = load(&engine, folder.path(), &limits(KvCacheChoice::Full)).expect("loaded");
        let refused = copy.restore(&mut full);
        assert!(
            matches!(refused, Err(EngineError::Backend { .. })),
            "{name}"
        );
        let mut restored = load(&engine, folder.path(), &small).expect("it loads again");
        assert_eq!(copy.restore(&mut restored), Ok(copy.tokens.len()), "{name}");
        let [of_small, of_full] = [&copy, &full_copy(&mut full)].map(|copy| copy.blocks[0].1.len());
        // In groups of 64, words of 8 bits, and a scale and a bias of 32 bits each.
        assert_eq!(of_small * 32, of_full * 9, "{name}");
        let n_processed = say(&mut restored, &mut conversation, &text(2, 15), name);
        assert!(n_processed <= 16, "{name}: {n_processed}");
    }
}

/// Returns a copy of a conversation with a whole block.
fn full_copy(model: &mut MlxModel) -> SavedCopy {
    greedy(model, &text(1, 300), 12);
    SavedCopy::of(model, 0).expect("saved")
}

/// On a CPU, parked conversations stay as they are unless the user wants less.
#[test]
fn the_choice_of_the_user_decides() {
    let _mlx = lock_mlx();
    let parked = [
        KvCacheChoice::Automatic,
        KvCacheChoice::Full,
        KvCacheChoice::Small,
    ]
    .map(|choice| {
        let (_folder, mut model) = model_within(MODELS[0], &limits(choice));
        greedy(&mut model, &text(1, 300), 12);
        let current = model.memory().kv_cache_bytes;
        greedy(&mut model, &text(2, 20), 12);
        (model.memory().parked_bytes, current)
    });
    let [automatic, full, small] = parked;
    assert_eq!(automatic, full);
    assert_eq!(full.0, full.1);
    // Of two blocks, the first one is complete.
    assert_eq!(small.0 * 64, small.1 * (9 + 32));
}

/// A conversation that would not fit the limit as it is may fit with 8 bits.
#[test]
fn the_limit_is_that_of_the_small_form() {
    let _mlx = lock_mlx();
    for (choice, fits) in [(KvCacheChoice::Full, false), (KvCacheChoice::Small, true)] {
        let (_folder, mut model) = model_within(MODELS[0], &limits(choice));
        greedy(&mut model, &text(1, 300), 12);
        let current = model.memory().kv_cache_bytes;
        let limits = Limits {
            parked_bytes: current - 1,
            ..limits(choice)
        };
        let (_folder, mut model) = model_within(MODELS[0], &limits);
        greedy(&mut model, &text(1, 300), 12);
        greedy(&mut model, &text(2, 20), 12);
        assert_eq!(model.memory().parked_bytes > 0, fits, "{choice:?}");
    }
}

/// The memory that a model reports, and the need by which the supervisor decides, are those of MLX.
#[test]
fn mlx_allocates_what_is_reported() {
    let _mlx = lock_mlx();
    mlx_rs::Device::set_default(&mlx_rs::Device::cpu());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/starter");
    let engine = MlxEngine::new();
    let limits = Limits {
        context_length: 520,
        ..limits(KvCacheChoice::Small)
    };
    let source = ModelSource { path: path.clone() };
    let need = engine.memory_need(&source, &limits);
    let need = need.expect("the files are valid");
    let mut model = load(&engine, &path, &limits).expect("it loads");
    greedy(&mut model, &text(1, 512), 4);
    let alone = model.memory().kv_cache_bytes;
    for seed in [2, 1] {
        greedy(&mut model, &text(seed, 512), 4);
        let memory = model.memory();
        let reported = memory.weight_bytes + memory.kv_cache_bytes + memory.parked_bytes;
        let allocated = mlx_rs::memory::active_memory().expect("MLX counts") as u64;
        assert!(
            allocated.abs_diff(reported) <= reported / 50,
            "{allocated}, {memory:?}"
        );
    }
    let memory = model.memory();
    assert_eq!(memory.kv_cache_bytes, alone);
    // Of three blocks, the first two are complete.
    assert_eq!(memory.parked_bytes * 96, alone * (2 * 9 + 32), "{memory:?}");
    let total = need.total_bytes() - need.cache_bytes;
    assert!(memory.peak_bytes <= total, "{memory:?}, {need:?}");
}
