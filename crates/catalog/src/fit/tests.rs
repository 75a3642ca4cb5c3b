//! Tests of the memory need with real and made-up models on made-up machines.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::facts::{EmbeddingFacts, Pooling, TensorTypeStats};
use crate::machine::GpuClass;

const GIB: u64 = 1 << 30;

fn starter() -> ModelFacts {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/starter");
    crate::inspect(&folder).unwrap()
}

/// Returns a typical model of 4 billion parameters in 4 bits.
fn four_billion(format: Format) -> ModelFacts {
    ModelFacts {
        format,
        architecture: "qwen3".to_owned(),
        context_length: Some(40_960),
        n_layers: Some(36),
        n_heads: Some(32),
        n_kv_heads: vec![8; 36],
        key_length: Some(128),
        value_length: Some(128),
        hidden_size: Some(2560),
        feed_forward_length: Some(9728),
        vocab_size: Some(151_936),
        n_parameters: 4_000_000_000,
        weight_bytes: 2_500_000_000,
        active_weight_bytes: 2_500_000_000,
        mix: vec![TensorTypeStats {
            kind: "U32".to_owned(),
            n_tensors: 300,
            bytes: 2_500_000_000,
        }],
        ..starter()
    }
}

const PC: Machine = Machine {
    memory_bytes: 16 * GIB,
    working_set_bytes: None,
    gpu_class: GpuClass::Base,
    bandwidth: None,
};
const MAC: Machine = Machine {
    working_set_bytes: Some(11 * GIB),
    ..PC
};

#[test]
fn the_need_grows_with_the_context_up_to_the_models_own() {
    for format in [Format::Gguf, Format::Safetensors] {
        let facts = four_billion(format);
        let at = |n| need(&facts, &MAC, KvCacheChoice::Automatic, n);
        assert!(at(8192).kv_cache_bytes > at(4096).kv_cache_bytes);
        assert_eq!(at(8192).weight_bytes, at(4096).weight_bytes);
        assert_eq!(at(1 << 40), at(40_960));
        assert_eq!(at(0).context_length, 1);
    }
}

#[test]
fn the_kv_cache_type_is_that_of_the_engine() {
    let facts = four_billion(Format::Gguf);
    let kept = |machine, choice| kv_type(&facts, machine, choice);
    assert_eq!(kept(&MAC, KvCacheChoice::Automatic), Some(KvType::Q8_0));
    assert_eq!(kept(&PC, KvCacheChoice::Automatic), Some(KvType::F16));
    assert_eq!(kept(&MAC, KvCacheChoice::Full), Some(KvType::F16));
    assert_eq!(kept(&PC, KvCacheChoice::Small), Some(KvType::Q8_0));
    let odd = ModelFacts {
        key_length: Some(80),
        ..facts
    };
    assert_eq!(kv_type(&odd, &PC, KvCacheChoice::Small), Some(KvType::F16));
    // A response of MLX attends to 16 bits, so a choice does not change what a model needs.
    let folder = four_billion(Format::Safetensors);
    let with = |choice| need(&folder, &MAC, choice, 8192);
    assert_eq!(with(KvCacheChoice::Small), with(KvCacheChoice::Full));
    assert_eq!(
        kv_type(&folder, &MAC, KvCacheChoice::Small),
        Some(KvType::F16)
    );
    assert_eq!(kv_type(&folder, &PC, KvCacheChoice::Small), None);
}

#[test]
fn parked_conversations_of_mlx_have_8_bits_on_a_gpu_or_on_request() {
    use KvCacheChoice::{Automatic, Full, Small};
    for (has_gpu, choice, expected) in [
        (true, Automatic, true),
        (true, Full, false),
        (true, Small, true),
        (false, Automatic, false),
        (false, Full, false),
        (false, Small, true),
    ] {
        assert_eq!(
            mlx::quantizes_parked(has_gpu, choice),
            expected,
            "{has_gpu}, {choice:?}"
        );
    }
}

#[test]
fn less_memory_allows_less_context_and_then_none() {
    let facts = four_billion(Format::Gguf);
    let takes = |n| need(&facts, &MAC, KvCacheChoice::Full, n).total_bytes();
    let lengths: Vec<_> = (1..=8)
        .map(|room| longest(&facts, |n| takes(n) <= room * GIB))
        .collect();
    assert!(lengths.is_sorted(), "{lengths:?}");
    assert_eq!(lengths[0], None);
    assert_eq!(lengths[7], Some(39_680), "{lengths:?}");
}

#[test]
fn prefill_steps_follow_the_active_parameters_and_the_class_of_the_gpu() {
    use GpuClass::{Base, Max, Pro, Ultra};
    let mut facts = four_billion(Format::Safetensors);
    let mut chunks = |billions: f64| {
        facts.n_parameters = (billions * 1e9) as u64;
        [Base, Pro, Max, Ultra].map(|class| mlx::prefill_chunk(&facts, Some(class)))
    };
    assert_eq!(chunks(0.6), [1024, 2048, 2048, 2048]);
    assert_eq!(chunks(1.7), [512, 1024, 2048, 2048]);
    assert_eq!(chunks(4.0), [256, 512, 1024, 2048]);
    assert_eq!(chunks(8.2), [128, 256, 512, 1024]);
    assert_eq!(chunks(32.8), [128, 128, 128, 256]);
    assert_eq!(chunks(1e9), [128; 4]);
    // A mixture of 30 billion parameters, of which a token uses 3.
    facts.n_parameters = 30_000_000_000;
    facts.active_weight_bytes = facts.weight_bytes / 10;
    facts.n_used_experts = 8;
    let chunk = |class| mlx::prefill_chunk(&facts, Some(class));
    assert_eq!([Base, Pro, Max].map(chunk), [512, 512, 1024]);
    assert_eq!(mlx::prefill_chunk(&facts, None), 512);
}

#[test]
fn a_model_that_embeds_in_one_step_needs_its_unused_logits_and_no_kv_cache() {
    let embeds = |is_causal, pooling| {
        let embedding = EmbeddingFacts {
            pooling,
            is_causal,
            has_dense: false,
        };
        ModelFacts {
            architecture: "bert".to_owned(),
            vocab_size: Some(250_000),
            embedding: Some(embedding),
            ..four_billion(Format::Gguf)
        }
    };
    let encoder = embeds(false, Pooling::Cls);
    let at = |n| need(&encoder, &PC, KvCacheChoice::Automatic, n);
    assert_eq!(at(512).kv_cache_bytes, 0);
    assert!(at(512).activation_bytes > 512 * 250_000 * 4);
    // A longer text would reserve more than 2 GB for logits that nobody reads.
    assert_eq!(at(40_960).context_length, 2147);
    let decoder = embeds(true, Pooling::Last);
    let chat = ModelFacts {
        embedding: None,
        ..decoder.clone()
    };
    let at = |facts| need(facts, &PC, KvCacheChoice::Automatic, 8192);
    assert_eq!(at(&decoder), at(&chat));
}

#[test]
fn a_file_without_numbers_needs_at_least_its_weights() {
    let mut facts = four_billion(Format::Gguf);
    facts.context_length = None;
    facts.n_kv_heads.clear();
    facts.n_heads = None;
    let need = need(&facts, &PC, KvCacheChoice::Automatic, 4096);
    assert_eq!(need.kv_cache_bytes, 0);
    assert!(need.total_bytes() > facts.weight_bytes);
}

proptest! {
    /// The longest context fits, a longer one does not, and no number overflows.
    #[test]
    fn the_longest_context_is_the_longest_that_fits(
        numbers in prop::collection::vec(prop_oneof![0..100_000u64, any::<u64>()], 8),
        room in prop_oneof![0..64 * GIB, any::<u64>()],
        has_gpu: bool, is_folder: bool,
    ) {
        let mut facts = four_billion(if is_folder { Format::Safetensors } else { Format::Gguf });
        facts.context_length = Some(numbers[0]);
        facts.n_layers = Some(numbers[1]);
        facts.n_heads = Some(numbers[2]);
        facts.n_kv_heads = vec![numbers[3]; 3];
        facts.key_length = Some(numbers[4]);
        facts.hidden_size = Some(numbers[5]);
        facts.feed_forward_length = Some(numbers[6]);
        facts.vocab_size = Some(numbers[7]);
        let machine = if has_gpu { MAC } else { PC };
        let takes = |n| need(&facts, &machine, KvCacheChoice::Small, n).total_bytes();
        let found = longest(&facts, |n| takes(n) <= room);
        if let Some(n) = found {
            prop_assert!(takes(n) <= room);
        }
        let own = facts.context_length.filter(|&n| n > 0).unwrap_or(1 << 24).min(1 << 24);
        let next = found.unwrap_or(0) + CONTEXT_STEP;
        if found != Some(own) && next <= own {
            prop_assert!(takes(next) > room);
        }
    }
}
