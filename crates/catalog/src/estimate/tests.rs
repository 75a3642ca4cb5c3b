//! Tests of estimates: whether made-up models fit made-up machines, and their speeds.

use proptest::prelude::*;
use transom_fit::{MemoryNeed, memory_fit};

use super::*;
use crate::facts::{Format, LayerKind, TensorTypeStats};
use crate::measured::{Key, Measured, Sample, record};

const GIB: u64 = 1 << 30;

/// Returns a dense model of this many billion parameters at 4.5 bits, with the shape of a Llama.
fn dense(billions: u64, format: Format) -> ModelFacts {
    let (layers, heads, hidden) = match billions {
        ..=1 => (16, 32, 2048),
        2..=9 => (32, 32, 4096),
        10..=40 => (64, 40, 5120),
        _ => (80, 64, 8192),
    };
    let weight_bytes = billions * 562_500_000;
    ModelFacts {
        format,
        architecture: "llama".to_owned(),
        name: None,
        context_length: Some(131_072),
        n_layers: Some(layers),
        n_heads: Some(heads),
        n_kv_heads: vec![8; layers as usize],
        key_length: Some(128),
        value_length: Some(128),
        sliding_window: None,
        layers: Vec::new(),
        sliding_key_length: None,
        sliding_value_length: None,
        linear_state_bytes: 0,
        hidden_size: Some(hidden),
        feed_forward_length: Some(hidden * 7 / 2),
        n_used_experts: 0,
        vocab_size: Some(128_256),
        n_parameters: billions * 1_000_000_000,
        weight_bytes,
        active_weight_bytes: weight_bytes,
        mix: vec![
            TensorTypeStats {
                kind: "U32".to_owned(),
                n_tensors: 1,
                bytes: weight_bytes / 9 * 8,
            },
            TensorTypeStats {
                kind: "BF16".to_owned(),
                n_tensors: 1,
                bytes: weight_bytes / 9,
            },
        ],
        bits: Some(4),
        chat_template: None,
        embedding: None,
        n_files: 1,
    }
}

fn on(facts: &ModelFacts, gigabytes: u64) -> Estimate {
    let machine = Machine::with_memory(gigabytes * GIB);
    let budget = machine.budget(None);
    estimate(
        &EstimateRequest::new(facts),
        &machine,
        &AvailableMemory::all_of(budget.total_bytes),
    )
}

/// A common mistake of other tools: 39 GB of weights with a budget of 23.5 GB.
#[test]
fn seventy_billion_parameters_do_not_fit_36_gigabytes() {
    for format in [Format::Gguf, Format::Safetensors] {
        let facts = dense(70, format);
        let EstimatedFit::DoesNotFit { missing_bytes } = on(&facts, 36).fit else {
            panic!("{:?}", on(&facts, 36));
        };
        assert!(missing_bytes > 14 * GIB, "{missing_bytes}");
        assert!(!on(&facts, 36).fit.is_usable());
        assert_eq!(on(&facts, 36).context_that_fits, None);
        // Nor 48 GB, whose GPU can use 36; but 64 GB is enough.
        assert!(matches!(
            on(&facts, 48).fit,
            EstimatedFit::DoesNotFit { .. }
        ));
        assert_eq!(on(&facts, 64).fit, EstimatedFit::Fits);
    }
}

#[test]
fn models_that_clearly_fit_are_reported_as_fitting() {
    for format in [Format::Gguf, Format::Safetensors] {
        for (billions, gigabytes) in [(1, 8), (3, 8), (8, 16), (14, 24), (32, 36), (70, 96)] {
            let facts = dense(billions, format);
            let estimate = on(&facts, gigabytes);
            assert_eq!(
                estimate.fit,
                EstimatedFit::Fits,
                "{billions}B on {gigabytes} GB: {estimate:?}"
            );
            assert!(estimate.context_that_fits >= Some(DEFAULT_CONTEXT));
        }
    }
}

/// Compares the estimate before a load with the supervisor's decision at the load.
#[test]
fn the_estimate_before_a_load_equals_the_decision_at_the_load() {
    let machines = [
        0, 1, 3, 4, 8, 12, 16, 18, 24, 32, 36, 48, 64, 96, 128, 192, 512,
    ];
    let machines = machines.map(|size| {
        [
            Machine::with_memory(size * GIB),
            Machine::new(size * GIB + 12_345, None, "", None),
            Machine::new(size * GIB, Some(GIB / 4), "", None),
        ]
    });
    let (mut n_fit, mut n_shortened) = (0, 0);
    for machine in machines.as_flattened() {
        let budget = machine.budget(None);
        for step in 1..80 {
            let facts = ModelFacts {
                weight_bytes: step * GIB / 4,
                n_parameters: step * GIB / 2,
                n_layers: Some(16 + step / 2),
                n_kv_heads: vec![8; 16 + step as usize / 2],
                context_length: Some(32_768),
                ..dense(1, Format::Safetensors)
            };
            let estimated = estimate(
                &EstimateRequest::new(&facts),
                machine,
                &AvailableMemory::all_of(budget.total_bytes),
            );
            let need = fit::need(&facts, machine, KvCacheChoice::Automatic, DEFAULT_CONTEXT);
            assert_eq!(need.total_bytes(), estimated.need.total_bytes());
            let decided = memory_fit(budget.total_bytes, &need, 0, 0);
            let both = format!("{machine:?}: {estimated:?}, {decided:?}");
            let with_parked = MemoryNeed {
                parked_bytes: default_parked_bytes(machine.memory_bytes),
                ..need
            };
            let kept = match memory_fit(budget.total_bytes, &with_parked, 0, 0) {
                transom_fit::MemoryFit::Fits => with_parked.parked_bytes,
                _ => 0,
            };
            assert_eq!(estimated.parked_bytes, kept, "{both}");
            match (estimated.fit, decided) {
                (EstimatedFit::Fits, transom_fit::MemoryFit::Fits) => n_fit += 1,
                // At a load the context is shortened as if only the KV cache became smaller, so
                // it may be shorter than the estimate, but never longer.
                (
                    EstimatedFit::FitsWithContext { context_length },
                    transom_fit::MemoryFit::FitsWithContext(decided),
                ) => {
                    n_shortened += 1;
                    assert!(decided as u64 <= context_length, "{both}");
                    assert!(decided as u64 + 2048 >= context_length, "{both}");
                }
                (
                    EstimatedFit::FitsWithContext { .. },
                    transom_fit::MemoryFit::DoesNotFit { .. },
                )
                | (EstimatedFit::DoesNotFit { .. }, transom_fit::MemoryFit::DoesNotFit { .. }) => {}
                _ => panic!("{both}"),
            }
        }
    }
    assert!(n_fit > 100 && n_shortened > 10, "{n_fit} {n_shortened}");
}

#[test]
fn each_result_has_the_number_that_a_person_needs() {
    let facts = dense(8, Format::Gguf);
    let machine = Machine::with_memory(16 * GIB);
    let request = EstimateRequest::new(&facts);
    let wanted = need(&request, &machine, DEFAULT_CONTEXT).total_bytes();
    let fit = |budget_bytes, in_use_bytes, available_bytes| {
        let room = AvailableMemory {
            budget_bytes,
            in_use_bytes,
            available_bytes,
        };
        estimate(&request, &machine, &room).fit
    };
    assert_eq!(fit(wanted, 0, None), EstimatedFit::Fits);
    assert_eq!(fit(wanted, 0, Some(wanted)), EstimatedFit::Fits);
    // The machine is large enough, but a browser uses the memory.
    assert_eq!(
        fit(wanted, 0, Some(wanted - GIB)),
        EstimatedFit::FitsIfOthersClose {
            needs_bytes_free: GIB
        }
    );
    // Or another model uses it.
    assert_eq!(
        fit(wanted, 2 * GIB, Some(wanted - GIB)),
        EstimatedFit::FitsIfOthersClose {
            needs_bytes_free: 2 * GIB
        }
    );
    let EstimatedFit::FitsWithContext { context_length } = fit(wanted - 1, 0, None) else {
        panic!("{:?}", fit(wanted - 1, 0, None));
    };
    assert!((MIN_CONTEXT..DEFAULT_CONTEXT).contains(&context_length));
    let shorter = need(&request, &machine, context_length).total_bytes();
    let longer = need(&request, &machine, context_length + 256).total_bytes();
    assert!(shorter < wanted && longer > wanted - 1);
    // A context that is too short to be useful counts as not fitting.
    let least = need(&request, &machine, MIN_CONTEXT).total_bytes();
    assert_eq!(
        fit(least - 1, 0, None),
        EstimatedFit::DoesNotFit {
            missing_bytes: wanted - (least - 1)
        }
    );
}

#[test]
fn a_draft_model_needs_memory_of_its_own() {
    let (facts, draft) = (dense(8, Format::Gguf), dense(1, Format::Gguf));
    let machine = Machine::with_memory(16 * GIB);
    let alone = need(&EstimateRequest::new(&facts), &machine, DEFAULT_CONTEXT);
    let pair = EstimateRequest {
        draft: Some(&draft),
        ..EstimateRequest::new(&facts)
    };
    let both = need(&pair, &machine, DEFAULT_CONTEXT);
    let of_draft = need(&EstimateRequest::new(&draft), &machine, DEFAULT_CONTEXT).total_bytes();
    assert_eq!(both.draft_bytes, of_draft);
    assert_eq!(both.total_bytes(), alone.total_bytes() + of_draft);
    assert!(of_draft > draft.weight_bytes);
}

/// llama.cpp measured a 7B model of 3.56 GiB: 14.2 tokens per second on an M1, 36.4 on an M1 Pro,
/// 61.2 on an M1 Max, 83.7 on an M1 Ultra, 30.7 on an M3 Pro, 24.1 on an M4 and 83.1 on an M4 Max
/// (<https://github.com/ggml-org/llama.cpp/discussions/4167>).
#[test]
fn predicted_speeds_include_the_published_ones() {
    let facts = ModelFacts {
        weight_bytes: 3_822_520_893,
        active_weight_bytes: 3_822_520_893,
        n_kv_heads: vec![32; 32],
        ..dense(7, Format::Gguf)
    };
    let cases = [
        ("Apple M1", 14.2),
        ("Apple M1 Pro", 36.4),
        ("Apple M1 Max", 61.2),
        ("Apple M1 Ultra", 83.7),
        ("Apple M3 Pro", 30.7),
        ("Apple M4", 24.1),
        ("Apple M4 Max", 83.1),
    ];
    for (chip, published) in cases {
        let machine = Machine::new(64 * GIB, Some(48 * GIB), chip, None);
        let budget = machine.budget(None);
        let request = EstimateRequest {
            context_length: 256,
            ..EstimateRequest::new(&facts)
        };
        let speed = estimate(
            &request,
            &machine,
            &AvailableMemory::all_of(budget.total_bytes),
        )
        .speed
        .unwrap();
        assert!(!speed.is_measured);
        assert!(
            speed.low < published && published < speed.high,
            "{chip}: {speed:?}, published {published}"
        );
        // A wider range would say nothing.
        assert!(speed.high < 2.6 * speed.low, "{chip}: {speed:?}");
    }
}

#[test]
fn a_mixture_of_experts_reads_only_used_experts_and_a_long_context_is_slower() {
    let machine = Machine::new(64 * GIB, Some(48 * GIB), "Apple M3 Max", None);
    let room = AvailableMemory::all_of(machine.budget(None).total_bytes);
    let rate = |facts: &ModelFacts, context_length| {
        let request = EstimateRequest {
            context_length,
            ..EstimateRequest::new(facts)
        };
        estimate(&request, &machine, &room).speed.unwrap().high
    };
    let whole = dense(30, Format::Safetensors);
    let mixture = ModelFacts {
        active_weight_bytes: whole.weight_bytes / 10,
        ..whole.clone()
    };
    assert!(rate(&mixture, 1024) > 5.0 * rate(&whole, 1024));
    assert!(rate(&mixture, 1024) > 1.5 * rate(&mixture, 65_536));
    let unknown = Machine::new(16 * GIB, None, "a chip nobody knows", None);
    let estimate = estimate(&EstimateRequest::new(&whole), &unknown, &room);
    assert_eq!(estimate.speed, None);
}

#[test]
fn windows_and_states_make_long_contexts_small() {
    let plain = dense(8, Format::Safetensors);
    let machine = Machine::with_memory(16 * GIB);
    let kv =
        |facts: &ModelFacts| need(&EstimateRequest::new(facts), &machine, 131_072).kv_cache_bytes;
    let sliding = ModelFacts {
        sliding_window: Some(1024),
        layers: LayerKind::from_counts(32, 27, 0),
        ..plain.clone()
    };
    let linear = ModelFacts {
        linear_state_bytes: 2 << 20,
        layers: LayerKind::from_counts(32, 0, 24),
        ..plain.clone()
    };
    assert!(
        kv(&sliding) < kv(&plain) / 5,
        "{} {}",
        kv(&sliding),
        kv(&plain)
    );
    assert!(
        kv(&linear) < kv(&plain) / 3,
        "{} {}",
        kv(&linear),
        kv(&plain)
    );
}

/// After a use the measured speed replaces the prediction, and a higher peak corrects the need.
#[test]
fn measurements_correct_the_next_estimate() {
    let facts = dense(8, Format::Safetensors);
    let machine = Machine::with_memory(16 * GIB);
    let room = AvailableMemory::all_of(machine.budget(None).total_bytes);
    let computed = need(&EstimateRequest::new(&facts), &machine, 4096).total_bytes();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("measured.json");
    let key = Key::new("a-model", Format::Safetensors, None);
    let sample = Sample {
        response_tokens: 400,
        decode_tokens_per_second: Some(20.0),
        context_tokens: 4096,
        peak_bytes: computed + default_parked_bytes(machine.memory_bytes) + GIB,
    };
    record(&file, &key, &sample).unwrap();
    let measured = Measured::read(&file);
    let request = EstimateRequest {
        measured: measured.of(&key),
        ..EstimateRequest::new(&facts)
    };
    let after = estimate(&request, &machine, &room);
    let before = estimate(&EstimateRequest::new(&facts), &machine, &room);
    assert!(after.is_corrected && !before.is_corrected);
    assert_eq!(after.need.correction_bytes, GIB as i64);
    assert_eq!(after.need.total_bytes(), before.need.total_bytes() + GIB);
    let speed = after.speed.unwrap();
    assert!(speed.is_measured && speed.low < 20.0 && speed.high > 20.0);
}

proptest! {
    /// With any numbers in a file nothing overflows, and the result follows from the numbers shown.
    #[test]
    fn the_result_follows_from_the_numbers(
        numbers in prop::collection::vec(prop_oneof![0..100_000u64, any::<u64>()], 8),
        room in prop::collection::vec(prop_oneof![0..64 * GIB, any::<u64>()], 3),
        is_folder: bool, memory in any::<u64>(),
    ) {
        let mut facts = dense(8, if is_folder { Format::Safetensors } else { Format::Gguf });
        facts.context_length = Some(numbers[0]);
        facts.n_layers = Some(numbers[1]);
        facts.n_kv_heads = vec![numbers[2]; 3];
        facts.key_length = Some(numbers[3]);
        facts.hidden_size = Some(numbers[4]);
        facts.feed_forward_length = Some(numbers[5]);
        facts.weight_bytes = numbers[6];
        facts.linear_state_bytes = numbers[7];
        facts.layers = LayerKind::from_counts(3, 1, 1);
        facts.sliding_window = Some(numbers[0] / 2);
        let machine = Machine::with_memory(memory);
        let room = AvailableMemory {
            budget_bytes: room[0],
            in_use_bytes: room[1],
            available_bytes: Some(room[2]),
        };
        let estimate = estimate(&EstimateRequest::new(&facts), &machine, &room);
        let total = estimate.need.total_bytes();
        match estimate.fit {
            EstimatedFit::Fits => prop_assert!(total <= room.budget_bytes),
            EstimatedFit::FitsIfOthersClose { needs_bytes_free } => {
                prop_assert!(total <= room.budget_bytes && needs_bytes_free <= total);
            }
            EstimatedFit::FitsWithContext { context_length } => {
                let shorter = need(&EstimateRequest::new(&facts), &machine, context_length).total_bytes();
                prop_assert!(total > room.budget_bytes && shorter <= room.budget_bytes);
            }
            EstimatedFit::DoesNotFit { missing_bytes } => {
                prop_assert_eq!(missing_bytes, total - room.budget_bytes);
            }
        }
        if let Some(speed) = estimate.speed {
            prop_assert!(speed.low <= speed.high && speed.low >= 0.0);
        }
    }
}
