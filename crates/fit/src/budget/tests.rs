//! Budgets of real machines, and which models fit.

use std::fmt::Write;

use proptest::prelude::*;

use super::*;

/// A Mac whose GPU may use two thirds of the memory, three quarters above 36 GB.
fn mac(gigabytes: u64, setting: Option<u64>) -> u64 {
    let memory_bytes = gigabytes << 30;
    let working_set = match gigabytes {
        ..=36 => memory_bytes / 3 * 2,
        _ => memory_bytes / 4 * 3,
    };
    Budget::new(memory_bytes, Some(working_set), setting).total_bytes
}

/// 4-bit weights at 0.5625 bytes a parameter, KV cache at 16 bits for 8,192 tokens.
fn model(parameters_billion: u64, kv_bytes_per_token: u64) -> MemoryNeed {
    MemoryNeed {
        weight_bytes: parameters_billion * 562_500_000,
        kv_cache_bytes: kv_bytes_per_token * 8192,
        activation_bytes: 300_000_000,
        cache_bytes: 0,
        parked_bytes: 0,
        context_length: 8192,
    }
}

fn describe(fit: MemoryFit) -> String {
    match fit {
        MemoryFit::Fits => "fits".to_owned(),
        MemoryFit::FitsAfterEviction => "after eviction".to_owned(),
        MemoryFit::FitsWithContext(n) => format!("with {n}"),
        MemoryFit::DoesNotFit {
            context_that_fits: Some(n),
        } => format!("only {n}"),
        MemoryFit::DoesNotFit {
            context_that_fits: None,
        } => "too large".to_owned(),
    }
}

/// Sizes in GiB; models at 4 bits with 8,192 tokens.
#[test]
fn budgets_of_macs_leave_headroom_for_the_system() {
    let models = [
        model(1, 32_768),
        model(8, 131_072),
        model(14, 163_840),
        model(32, 262_144),
        model(70, 327_680),
    ];
    let mut text = "memory budget | 1B | 8B | 14B | 32B | 70B\n".to_owned();
    for gigabytes in [8, 16, 18, 24, 32, 36, 48, 64, 96, 128, 192] {
        let budget = mac(gigabytes, None);
        let gib = budget as f64 / GIB as f64;
        write!(text, "{gigabytes} {gib:.2}").unwrap();
        for need in &models {
            let fit = memory_fit(budget, need, 0, 0);
            write!(text, " | {}", describe(fit)).unwrap();
        }
        text.push('\n');
    }
    let expected = "\
memory budget | 1B | 8B | 14B | 32B | 70B
8 4.83 | fits | with 2816 | too large | too large | too large
16 10.17 | fits | fits | fits | too large | too large
18 11.50 | fits | fits | fits | too large | too large
24 15.50 | fits | fits | fits | too large | too large
32 20.83 | fits | fits | fits | fits | too large
36 23.50 | fits | fits | fits | fits | too large
48 35.50 | fits | fits | fits | fits | too large
64 47.50 | fits | fits | fits | fits | fits
96 71.50 | fits | fits | fits | fits | fits
128 95.50 | fits | fits | fits | fits | fits
192 143.50 | fits | fits | fits | fits | fits
";
    assert_eq!(text, expected, "\n--- got ---\n{text}");
}

#[test]
fn without_a_gpu_only_the_headroom_limits_the_budget() {
    for (gigabytes, expected) in [(2, 1), (4, 2), (8, 6), (12, 9), (16, 12), (64, 60)] {
        let budget = Budget::new(gigabytes << 30, None, None);
        assert_eq!(budget.total_bytes, expected << 30);
    }
}

/// The user may have raised the limit of the GPU above what the system can spare.
#[test]
fn a_raised_gpu_limit_leaves_the_headroom_of_the_system() {
    let raised = Budget::new(32 << 30, Some(32 << 30), None);
    assert_eq!(raised.total_bytes, 28 << 30);
}

#[test]
fn the_users_budget_may_be_higher_or_lower_but_leaves_two_gigabytes_to_the_system() {
    for (requested, expected) in [(0, 0), (3, 3), (13, 13), (14, 14), (15, 14), (1 << 30, 14)] {
        assert_eq!(mac(16, Some(requested << 30)), expected << 30);
    }
}

/// In MiB.
#[test]
fn other_conversations_may_take_a_small_part_of_the_memory() {
    for (gigabytes, expected) in [(2, 64), (8, 256), (16, 819), (32, 1638), (64, 3276)] {
        let bytes = default_parked_bytes(gigabytes << 30);
        assert_eq!(bytes >> 20, expected, "{gigabytes} GB");
    }
    let need = MemoryNeed {
        parked_bytes: 2,
        ..model(8, 131_072)
    };
    assert_eq!(need.total_bytes(), model(8, 131_072).total_bytes() + 2);
}

#[test]
fn only_evictable_models_make_room() {
    let need = MemoryNeed {
        weight_bytes: 5_000,
        kv_cache_bytes: 2_000,
        context_length: 20_000,
        ..MemoryNeed::default()
    };
    let fit = |in_use, evictable| describe(memory_fit(10_000, &need, in_use, evictable));
    assert_eq!(fit(3_000, 0), "fits");
    assert_eq!(fit(3_001, 1), "after eviction");
    assert_eq!(fit(9_000, 9_000), "after eviction");
    assert_eq!(fit(4_000, 0), "with 9984");
    assert_eq!(fit(4_500, 100), "with 5888");
    assert_eq!(fit(4_900, 0), "only 768");
    assert_eq!(fit(4_990, 0), "too large");
    assert_eq!(fit(5_001, 0), "too large");
}

fn any_need() -> impl Strategy<Value = MemoryNeed> {
    let bytes = || prop_oneof![0..200u64 << 30, any::<u64>()];
    let parts = (bytes(), bytes(), bytes(), bytes(), bytes());
    (parts, 0..1_000_000usize).prop_map(
        |(
            (weight_bytes, kv_cache_bytes, activation_bytes, cache_bytes, parked_bytes),
            context_length,
        )| {
            MemoryNeed {
                weight_bytes,
                kv_cache_bytes,
                activation_bytes,
                cache_bytes,
                parked_bytes,
                context_length,
            }
        },
    )
}

proptest! {
    #[test]
    fn the_model_fits_with_the_returned_context(
        need in any_need(), memory in any::<u64>(), gpu in any::<Option<u64>>(),
        requested in any::<Option<u64>>(), in_use in 0..1u64 << 40, evictable in 0..1u64 << 40,
    ) {
        let budget = Budget::new(memory, gpu, requested).total_bytes;
        let fit = memory_fit(budget, &need, in_use, evictable);
        if let MemoryFit::FitsWithContext(tokens) = fit {
            prop_assert!((MIN_CONTEXT as usize..need.context_length).contains(&tokens));
            prop_assert_eq!(tokens % CONTEXT_STEP as usize, 0);
            let kv = u128::from(need.kv_cache_bytes) * tokens as u128 / need.context_length as u128;
            let shorter = MemoryNeed {
                kv_cache_bytes: u64::try_from(kv).unwrap(),
                context_length: tokens,
                ..need
            };
            let fit = memory_fit(budget, &shorter, in_use, evictable);
            prop_assert!(matches!(fit, MemoryFit::Fits | MemoryFit::FitsAfterEviction));
        }
        prop_assert!(budget <= memory);
    }
}
