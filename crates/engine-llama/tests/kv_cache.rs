//! Compares the KV cache that llama.cpp allocates for models of random shapes with the estimate.

#[path = "fixtures/log.rs"]
mod log;
#[path = "fixtures/support.rs"]
mod support;

use support::load;
use transom_catalog::test_support::{Quantization, TinyModel};
use transom_engine::{Engine, KvCacheChoice, Limits, ModelSource};
use transom_engine_llama::LlamaEngine;

/// A reproducible random number generator.
struct Random(u64);

impl Random {
    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        choices[(self.0 >> 33) as usize % choices.len()]
    }
}

#[test]
fn allocations_equal_the_estimate() {
    let mut random = Random(7);
    for round in 0..16 {
        let n_kv_heads = random.one_of(&[1, 2, 4, 8]);
        let n_heads = n_kv_heads * random.one_of(&[1, 2, 4]);
        let model = TinyModel {
            architecture: random.one_of(&["llama", "qwen2", "qwen3", "gemma3"]),
            n_layers: random.one_of(&[1, 2, 5, 8]),
            width: n_heads * random.one_of(&[32, 64, 128]),
            n_heads,
            n_kv_heads,
            ff_width: 64,
            context_length: random.one_of(&[256, 700, 1000, 1024]),
            quantization: Quantization::F16,
            seed: round,
            long_rope: None,
        };
        let file = model.write_temporary();
        let limits = Limits {
            kv_cache: random.one_of(&[KvCacheChoice::Full, KvCacheChoice::Small]),
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
        // Layers with a sliding window have a separate buffer.
        let sizes: Vec<f64> = log::sizes(&lines, "KV buffer size =").collect();
        assert!(!sizes.is_empty(), "llama.cpp logs its allocations");
        let allocated: f64 = sizes.iter().sum();
        let computed = need.kv_cache_bytes as f64 / f64::from(1 << 20);
        // It prints two decimals.
        let rounding = 0.006 * sizes.len() as f64;
        assert!(
            (allocated - computed).abs() <= rounding,
            "{model:?}, {:?}: {allocated} MiB allocated, {computed} estimated",
            limits.kv_cache
        );
    }
}
