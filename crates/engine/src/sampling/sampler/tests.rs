//! Compares draws with the exact probabilities, with fixed seeds.

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof, proptest};

use super::*;
use crate::sampling::tests::{FOUR, logits, plain};

/// Returns Pearson's chi-square statistic of `n` draws. Tokens of probability 0 must never be drawn.
fn chi_square(params: &SamplingParams, logits: &[f32], n: u32) -> (f64, usize) {
    let probabilities = params.distribution(logits, &[1], &[2, 2]);
    let mut sampler = Sampler::new(params.clone(), &[1]).unwrap();
    sampler.accept(2);
    sampler.accept(2);
    let mut counts = vec![0_u32; logits.len()];
    for _ in 0..n {
        counts[sampler.draw(logits).unwrap() as usize] += 1;
        // Not in the vocabulary: advances without a penalty.
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
fn a_seed_gives_the_same_draws_on_every_platform() {
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
        Sampler::new(params, &[]).unwrap().random
    };
    assert_ne!(fresh(), fresh());
}

const SEED_7: [u32; 12] = [1, 1, 3, 3, 2, 1, 0, 3, 1, 3, 1, 1];

/// The sampler's sums over the whole vocabulary are exact to within this.
const TOLERANCE: f64 = 2e-5;

/// Returns true if the reference gives the token `drawn` for a random number near `random`.
fn is_expected(probabilities: &[f64], random: f64, drawn: u32) -> bool {
    let (before, rest) = probabilities.split_at(drawn as usize);
    let before: f64 = before.iter().sum();
    let range = before - TOLERANCE..=before + rest[0] + TOLERANCE;
    rest[0] > 0.0 && range.contains(&random)
}

/// Draws `n` tokens, and asserts that the reference gives the same tokens for the same random numbers.
fn compare(params: &SamplingParams, logits: &[Vec<f32>], prompt: &[u32], n: usize) {
    let mut sampler = Sampler::new(params.clone(), prompt).unwrap();
    let mut generated = Vec::new();
    for i in 0..n {
        let logits = &logits[i % logits.len()];
        let drawn = sampler.draw(logits).unwrap();
        let close = -SUM_ERROR / f64::from(params.top_p);
        let is_expected = [close, 0.0, -TOLERANCE, TOLERANCE]
            .into_iter()
            .any(|change| {
                let top_p = (f64::from(params.top_p) * (1.0 + change)) as f32;
                let params = SamplingParams {
                    top_p,
                    ..params.clone()
                };
                let probabilities = params.distribution(logits, prompt, &generated);
                is_expected(&probabilities, sampler.random, drawn)
            });
        assert!(is_expected, "token {i} is {drawn} with {params:?}");
        assert_eq!(
            sampler.draw(logits),
            Some(drawn),
            "drawing advanced the sampler"
        );
        sampler.accept(drawn);
        generated.push(drawn);
    }
}

/// Logits of one vocabulary: many equal ones, those of trained models, flat ones, and invalid ones.
fn some_logits(n: usize) -> impl Strategy<Value = Vec<f32>> {
    let odd = prop_oneof![
        6 => -20.0..20.0_f32,
        1 => Just(f32::NAN),
        1 => Just(f32::NEG_INFINITY),
    ];
    let any = prop_oneof![
        3 => prop::num::f32::ANY,
        1 => Just(f32::INFINITY),
        1 => Just(-0.0),
    ];
    let peaked = prop_oneof![
        20 => -12.0..0.0_f32,
        1 => 0.0..15.0_f32,
    ];
    prop_oneof![
        prop::collection::vec((-30..30_i8).prop_map(|l| f32::from(l) / 7.0), n),
        prop::collection::vec(peaked, n),
        prop::collection::vec(-1.0..1.0_f32, n),
        prop::collection::vec(odd, n),
        prop::collection::vec(any, n),
        prop::sample::select(vec![0.0, -3.0, f32::NAN, f32::INFINITY])
            .prop_map(move |l| vec![l; n]),
    ]
}

fn some_params() -> impl Strategy<Value = SamplingParams> {
    let bias = prop::collection::vec(
        (0..40_u32, prop_oneof![-100.0..100.0_f32, Just(-0.0)]),
        0..6,
    );
    (
        prop_oneof![Just(0.0), Just(1.0), 0.05..3.0_f32, Just(1e-30), Just(1e6)],
        prop_oneof![3 => Just(0), 1 => Just(1), 4 => 2..60_usize, 1 => Just(2000)],
        prop_oneof![1 => Just(1.0), 2 => 0.001..1.0_f32, 1 => 0.999..1.0_f32],
        prop_oneof![2 => Just(0.0), 1 => 0.0..=1.0_f32],
        prop_oneof![Just(1.0), 0.5..2.0_f32],
        prop_oneof![Just(0.0), -2.0..2.0_f32],
        prop_oneof![Just(0.0), -2.0..2.0_f32],
        prop_oneof![2 => Just(Vec::new()), 1 => bias],
        any::<u64>(),
    )
        .prop_map(
            |(temperature, top_k, top_p, min_p, repetition, presence, frequency, bias, seed)| {
                SamplingParams {
                    temperature,
                    top_k,
                    top_p,
                    min_p,
                    repetition_penalty: repetition,
                    presence_penalty: presence,
                    frequency_penalty: frequency,
                    logit_bias: bias,
                    seed: Some(seed),
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn the_sampler_draws_the_same_tokens_as_the_reference(
        params in some_params(),
        logits in prop_oneof![1..40_usize, 900..1100_usize, 1..3000_usize]
            .prop_flat_map(|n| prop::collection::vec(some_logits(n), 3)),
        prompt in prop::collection::vec(0..60_u32, 0..20),
    ) {
        compare(&params, &logits, &prompt, 6);
    }
}

/// A vocabulary of the usual size, and every path through the sampler.
#[test]
fn draws_from_large_vocabularies_equal_the_reference() {
    let n_tokens = 152_064;
    let logits = |spread: f32, n_likely: u32| -> Vec<f32> {
        let mut rng = ChaCha8Rng::seed_from_u64(u64::from(n_likely));
        let mut logits: Vec<f32> = (0..n_tokens)
            .map(|_| (0..4).map(|_| uniform(&mut rng) as f32 - 0.5).sum::<f32>() * spread)
            .collect();
        for i in 0..n_likely {
            logits[rng.next_u32() as usize % n_tokens] = spread * 2.0 + 10.0 / (1 + i) as f32;
        }
        logits
    };
    let logits = [logits(5.0, 40), logits(2.0, 0), logits(8.0, 2000)];
    let prompt: Vec<u32> = (0..500).map(|i| i * 301).collect();
    let without = SamplingParams {
        top_p: 1.0,
        ..SamplingParams::default()
    };
    let cases = [
        SamplingParams {
            temperature: 0.0,
            ..without.clone()
        },
        SamplingParams::default(),
        SamplingParams {
            repetition_penalty: 1.1,
            presence_penalty: 0.4,
            ..SamplingParams::default()
        },
        SamplingParams {
            top_k: 40,
            top_p: 0.9,
            min_p: 0.02,
            ..without.clone()
        },
        SamplingParams {
            min_p: 0.05,
            ..without.clone()
        },
        SamplingParams {
            top_p: 0.999,
            min_p: 0.001,
            temperature: 1.3,
            ..without.clone()
        },
        without,
    ];
    for params in cases {
        let params = SamplingParams {
            seed: Some(5),
            ..params
        };
        compare(&params, &logits, &prompt, 3);
    }
}

#[test]
fn a_drawn_token_that_is_not_accepted_changes_nothing() {
    let params = SamplingParams {
        frequency_penalty: 0.5,
        ..plain()
    };
    let (ours, others) = (logits(&FOUR), logits(&[0.9, 0.05, 0.03, 0.02]));
    let answer = |n_discarded: usize| -> Vec<u32> {
        let mut sampler = Sampler::new(params.clone(), &[]).unwrap();
        (0..50)
            .map(|_| {
                for _ in 0..n_discarded {
                    sampler.draw(&others);
                }
                let token = sampler.draw(&ours).unwrap();
                sampler.accept(token);
                token
            })
            .collect()
    };
    assert_eq!(answer(0), answer(3));
}

/// In f32, the weights of these tokens add up to slightly more.
#[test]
fn a_sum_that_is_too_great_does_not_draw_the_last_token() {
    let likely = (0..100_u32).map(|id| (id % 97) as f32 / -10.0);
    let logits: Vec<f32> = likely.chain([-60.0]).collect();
    let mut sampler = Sampler::new(plain(), &[]).unwrap();
    sampler.random = 1.0 - 1e-9;
    assert_ne!(sampler.draw(&logits), Some(100));
}

#[test]
fn buffers_are_reused() {
    let params = SamplingParams {
        repetition_penalty: 1.1,
        seed: Some(1),
        ..SamplingParams::default()
    };
    let logits: Vec<f32> = (0..5000_u32).map(|id| (id % 97) as f32 / 10.0).collect();
    let mut sampler = Sampler::new(params, &[1, 2, 3]).unwrap();
    let pointers = |buffers: &Buffers| {
        (
            buffers.logits.as_ptr(),
            buffers.kept.as_ptr(),
            buffers.sums.as_ptr(),
        )
    };
    sampler.draw(&logits).unwrap();
    let before = pointers(&sampler.buffers);
    for _ in 0..20 {
        let token = sampler.draw(&logits).unwrap();
        sampler.accept(token % 3);
    }
    assert_eq!(pointers(&sampler.buffers), before);
}

/// Bias, penalties and filters see only allowed tokens.
#[test]
fn a_token_that_is_not_allowed_does_not_exist() {
    let logits: Vec<f32> = (0..100_u32).map(|id| (id * 37 % 83) as f32 / 9.0).collect();
    let allowed: Vec<u32> = (0..100).filter(|id| id % 7 == 3 || *id > 96).collect();
    let mask = TokenMask::of(&allowed, logits.len());
    let masked = |(id, logit): (u32, &f32)| match allowed.contains(&id) {
        true => *logit,
        false => f32::NEG_INFINITY,
    };
    let masked: Vec<f32> = (0..).zip(&logits).map(masked).collect();
    for (temperature, top_k, top_p) in [(0.0, 0, 1.0), (1.0, 0, 1.0), (0.8, 5, 1.0), (1.2, 0, 0.6)]
    {
        let params = SamplingParams {
            temperature,
            top_k,
            top_p,
            repetition_penalty: 1.3,
            logit_bias: vec![(0, 100.0), (10, 3.0)],
            seed: Some(9),
            ..SamplingParams::default()
        };
        let mut sampler = Sampler::new(params.clone(), &[3]).unwrap();
        let mut reference = Sampler::new(params, &[3]).unwrap();
        for _ in 0..200 {
            let token = sampler.draw_from(&logits, Some(&mask)).unwrap();
            assert_eq!(Some(token), reference.draw(&masked));
            assert!(mask.allows(token));
            sampler.accept(token);
            reference.accept(token);
        }
    }
    let impossible = [f32::NAN; 100];
    let mut sampler = Sampler::new(plain(), &[]).unwrap();
    assert_eq!(sampler.draw_from(&impossible, Some(&mask)), Some(3));
}
