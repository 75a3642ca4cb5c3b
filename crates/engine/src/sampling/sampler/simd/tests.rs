//! Compares each pass with a simple implementation.

use proptest::prelude::*;

use super::*;

fn some_logits() -> impl Strategy<Value = Vec<f32>> {
    prop_oneof![
        prop::collection::vec((-9..9_i8).prop_map(f32::from), 0..700),
        prop::collection::vec(prop::num::f32::ANY, 0..700),
        // Each is a new maximum, or none is.
        (0..700_u16).prop_map(|n| (0..n).map(f32::from).collect()),
        (0..700_u16).prop_map(|n| (0..n).rev().map(f32::from).collect()),
    ]
}

fn all(logits: &[f32]) -> Vec<Candidate> {
    logits
        .iter()
        .enumerate()
        .filter(|(_, logit)| **logit > f32::NEG_INFINITY)
        .map(|(id, &logit)| Candidate {
            id: id as u32,
            logit,
        })
        .collect()
}

proptest! {
    #[test]
    fn the_highest_logit_is_found(logits in some_logits()) {
        let expected = all(&logits).into_iter().map(|candidate| candidate.logit);
        let expected = expected.fold(f32::NEG_INFINITY, f32::max);
        prop_assert_eq!(highest(&logits), expected);
    }

    #[test]
    fn all_from_a_threshold_on_are_gathered(
        logits in some_logits(),
        threshold in prop_oneof![Just(f32::NEG_INFINITY), Just(0.0), -9.0..700.0_f32],
    ) {
        let mut found = vec![Candidate { id: 1, logit: 2.0 }];
        gather(&logits, threshold, &mut found);
        let mut expected = all(&logits);
        expected.retain(|candidate| candidate.logit >= threshold);
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn weights_are_as_exact_as_they_say(
        mut logits in prop::collection::vec(prop_oneof![
            4 => -30.0..0.0_f32,
            1 => -2000.0..0.0_f32,
            1 => Just(f32::NEG_INFINITY),
            1 => Just(f32::NAN),
        ], 1..5000),
        top in -50.0..50.0_f32,
        temperature in prop_oneof![1e-3..0.1_f32, 0.1..3.0_f32, 3.0..1e6_f32],
    ) {
        for logit in &mut logits {
            *logit += top;
        }
        logits[0] = top;
        let mut sums = Vec::new();
        block_weights(&logits, top, temperature, &mut sums);
        let expected: Vec<f64> = logits
            .chunks(BLOCK)
            .map(|block| {
                block
                    .iter()
                    .filter(|logit| !logit.is_nan())
                    .map(|&logit| f64::from(logit) - f64::from(top))
                    .map(|below| (below / f64::from(temperature)).exp())
                    .sum()
            })
            .collect();
        let bound = 1e-5 * expected.iter().sum::<f64>();
        for (sum, expected) in sums.iter().zip(expected) {
            prop_assert!((sum - expected).abs() <= bound, "{} is not {}", sum, expected);
        }
    }
}
