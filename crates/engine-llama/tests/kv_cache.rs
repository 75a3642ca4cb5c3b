//! What llama.cpp allocates for keys and values of models of random shapes, as it says itself,
//! against the need that was computed from the file.

#[path = "fixtures/log.rs"]
mod log;
#[path = "fixtures/support.rs"]
mod support;

use support::load;
use transom_catalog::test_support::{Packing, TinyModel};
use transom_engine::{Engine, KvCacheChoice, Limits, ModelSource};
use transom_engine_llama::LlamaEngine;

/// Numbers that follow each other without a pattern, the same in every run.
struct Dice(u64);

impl Dice {
    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        choices[(self.0 >> 33) as usize % choices.len()]
    }
}

#[test]
fn llama_cpp_allocates_what_was_computed() {
    let mut dice = Dice(7);
    for round in 0..16 {
        let n_kv_heads = dice.one_of(&[1, 2, 4, 8]);
        let n_heads = n_kv_heads * dice.one_of(&[1, 2, 4]);
        let model = TinyModel {
            architecture: dice.one_of(&["llama", "qwen2", "qwen3", "gemma3"]),
            n_layers: dice.one_of(&[1, 2, 5, 8]),
            width: n_heads * dice.one_of(&[32, 64, 128]),
            n_heads,
            n_kv_heads,
            ff_width: 64,
            context_length: dice.one_of(&[256, 700, 1000, 1024]),
            packing: Packing::F16,
            seed: round,
        };
        let file = model.write_temporary();
        let limits = Limits {
            kv_cache: dice.one_of(&[KvCacheChoice::Full, KvCacheChoice::Small]),
            ..Limits::default()
        };
        let engine = LlamaEngine::new();
        let source = ModelSource {
            path: file.path.clone(),
        };
        let need = engine.memory_need(&source, &limits).expect("it is sound");
        let lines = log::while_it_runs(|| {
            load(&engine, &file.path, &limits).expect("it loads");
        });
        // Layers with a window have a buffer of their own.
        let sizes: Vec<f64> = log::sizes(&lines, "KV buffer size =").collect();
        assert!(!sizes.is_empty(), "llama.cpp says what it allocates");
        let allocated: f64 = sizes.iter().sum();
        let computed = need.kv_cache_bytes as f64 / f64::from(1 << 20);
        // It says two digits.
        let rounding = 0.006 * sizes.len() as f64;
        assert!(
            (allocated - computed).abs() <= rounding,
            "{model:?}, {:?}: {allocated} MiB allocated, {computed} computed",
            limits.kv_cache
        );
    }
}
