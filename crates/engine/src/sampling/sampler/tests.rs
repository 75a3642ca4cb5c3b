//! What is drawn against the exact probabilities, with fixed seeds.

use super::*;
use crate::sampling::tests::{FOUR, logits, plain};

/// Pearson's statistic of `n` draws; tokens of probability 0 must never be drawn.
fn chi_square(params: &SamplingParams, logits: &[f32], n: u32) -> (f64, usize) {
    let probabilities = params.distribution(logits, &[1], &[2, 2]);
    let mut sampler = Sampler::new(params.clone(), &[1]).unwrap();
    sampler.accept(2);
    sampler.accept(2);
    let mut counts = vec![0_u32; logits.len()];
    for _ in 0..n {
        counts[sampler.draw(logits).unwrap() as usize] += 1;
        // Not in the vocabulary: moves on without a penalty.
        sampler.accept(u32::MAX);
    }
    let mut statistic = 0.0;
    let mut n_kept = 0;
    for (&count, p) in counts.iter().zip(probabilities) {
        let expected = p * f64::from(n);
        if p == 0.0 {
            assert_eq!(count, 0, "a token of probability 0 was drawn");
        } else {
            statistic += (f64::from(count) - expected).powi(2) / expected;
            n_kept += 1;
        }
    }
    (statistic, n_kept)
}

#[test]
fn draws_follow_the_exact_probabilities() {
    let logits = logits(&[0.05, 0.3, 0.1, 0.2, 0.15, 0.08, 0.07, 0.05]);
    // The 99.9 % quantiles of chi-square with one to seven degrees of freedom.
    let bounds = [10.83, 13.82, 16.27, 18.47, 20.52, 22.46, 24.32];
    let cases = [
        plain(),
        SamplingParams {
            temperature: 0.6,
            ..plain()
        },
        SamplingParams {
            temperature: 1.7,
            top_k: 5,
            ..plain()
        },
        SamplingParams {
            top_p: 0.8,
            ..plain()
        },
        SamplingParams {
            min_p: 0.3,
            ..plain()
        },
        SamplingParams {
            repetition_penalty: 1.4,
            frequency_penalty: 0.6,
            ..plain()
        },
        SamplingParams {
            presence_penalty: 1.0,
            logit_bias: vec![(6, 1.5)],
            ..plain()
        },
    ];
    for params in cases {
        let (statistic, n_kept) = chi_square(&params, &logits, 20_000);
        assert!(n_kept >= 2, "{params:?} leaves nothing to draw");
        assert!(
            statistic < bounds[n_kept - 2],
            "{statistic} over {n_kept} tokens: {params:?}"
        );
    }
}

#[test]
fn a_seed_repeats_its_draws_on_every_platform() {
    let logits = logits(&FOUR);
    let draws = |seed| -> Vec<u32> {
        let mut sampler = Sampler::new(SamplingParams { seed, ..plain() }, &[]).unwrap();
        (0..12)
            .map(|_| {
                let token = sampler.draw(&logits).unwrap();
                sampler.accept(token);
                token
            })
            .collect()
    };
    assert_eq!(draws(Some(7)), SEED_7);
    assert_ne!(draws(Some(8)), SEED_7);
    let fresh = || {
        let params = SamplingParams {
            seed: None,
            ..plain()
        };
        Sampler::new(params, &[]).unwrap().seed()
    };
    assert_ne!(fresh(), fresh());
}

const SEED_7: [u32; 12] = [1, 1, 3, 3, 2, 1, 0, 3, 1, 3, 1, 1];
