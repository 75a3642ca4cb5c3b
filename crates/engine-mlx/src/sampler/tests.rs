//! Compares samples with the distribution that the engine crate defines.

use super::*;

const LOGITS: [f32; 10] = [2.0, -1.0, 0.5, 3.0, 0.0, 1.5, -4.0, 2.5, 1.0, -0.5];
const PROMPT: [u32; 4] = [3, 3, 5, 8];
const N_SAMPLES: usize = 6000;

fn logits() -> Array {
    Array::from_slice(&LOGITS, &[1, LOGITS.len() as i32])
}

/// Pearson's chi-square test against the exact probabilities. The bound is the 99.99 % quantile for
/// nine degrees of freedom. The seed is fixed, so only a wrong sampler fails.
#[track_caller]
fn check(change: impl FnOnce(&mut SamplingParams)) {
    let mut params = plain();
    params.seed = Some(7);
    change(&mut params);
    let expected = params.distribution(&LOGITS, &PROMPT, &[]);
    let mut counts = [0usize; LOGITS.len()];
    let mut sampler = Sampler::new(&params, &PROMPT, LOGITS.len());
    for _ in 0..N_SAMPLES {
        // Each sample is the first of a response, so that penalties do not accumulate.
        let generated = sampler.generated.clone();
        let seen = sampler.seen.clone();
        let token = sampler.sample(&logits()).expect("MLX samples");
        counts[token.item_exact::<u32>() as usize] += 1;
        (sampler.generated, sampler.seen) = (generated, seen);
    }
    let mut chi_square = 0.0;
    for (&count, &probability) in counts.iter().zip(&expected) {
        let mean = probability * N_SAMPLES as f64;
        if probability == 0.0 {
            assert_eq!(
                count, 0,
                "a filtered token was sampled: {params:?} {counts:?}"
            );
        } else {
            chi_square += (count as f64 - mean).powi(2) / mean;
        }
    }
    assert!(
        chi_square < 33.7,
        "{params:?}: chi-square {chi_square}, counts {counts:?}"
    );
}

fn plain() -> SamplingParams {
    SamplingParams {
        temperature: 1.0,
        top_p: 1.0,
        ..SamplingParams::default()
    }
}

#[test]
fn temperature_follows_the_distribution() {
    for temperature in [0.3, 1.0, 2.0] {
        check(|params| params.temperature = temperature);
    }
}

#[test]
fn every_filter_follows_the_distribution() {
    check(|params| params.top_k = 4);
    check(|params| params.top_p = 0.8);
    check(|params| params.min_p = 0.1);
    check(|params| params.top_k = 1);
    check(|params| params.top_p = 0.0);
    check(|params| params.top_k = 1000);
}

#[test]
fn filters_together_follow_the_distribution() {
    check(|params| {
        params.temperature = 1.7;
        params.top_k = 7;
        params.top_p = 0.9;
        params.min_p = 0.05;
    });
}

#[test]
fn bias_and_penalties_follow_the_distribution() {
    check(|params| params.logit_bias = vec![(6, 5.0), (3, -2.0), (6, 1.0)]);
    check(|params| params.repetition_penalty = 1.8);
    check(|params| {
        params.presence_penalty = 1.0;
        params.frequency_penalty = 0.5;
    });
}

#[test]
fn penalties_count_generated_tokens() {
    let params = SamplingParams {
        temperature: 0.0,
        repetition_penalty: 1.45,
        presence_penalty: 0.41,
        frequency_penalty: 0.33,
        ..plain()
    };
    let mut sampler = Sampler::new(&params, &PROMPT, LOGITS.len());
    let mut generated: Vec<u32> = Vec::new();
    for _ in 0..20 {
        let expected = params.distribution(&LOGITS, &PROMPT, &generated);
        let token = sampler.sample(&logits()).expect("MLX samples");
        let token = token.item_exact::<u32>();
        assert_eq!(expected[token as usize], 1.0, "after {generated:?}");
        generated.push(token);
    }
    assert!(generated.iter().any(|token| *token != generated[0]));
}

#[test]
fn extreme_parameters_do_not_overflow() {
    for temperature in [f32::from_bits(1), f32::MIN_POSITIVE, 1e-30, f32::MAX] {
        check(|params| params.temperature = temperature);
    }
    for top_p in [0.9, 1.0] {
        check(|params| {
            params.logit_bias = vec![(6, f32::MAX), (6, f32::MAX), (3, f32::MIN), (3, f32::MIN)];
            params.top_p = top_p;
        });
        check(|params| {
            params.repetition_penalty = 1e-40;
            params.logit_bias = vec![(3, -2.0), (5, -5.0)];
            params.top_p = top_p;
        });
    }
}

#[test]
fn the_lowest_id_wins_between_equal_logits() {
    let equal = Array::from_slice(&[1.0_f32, 4.0, 2.0, 4.0, 4.0], &[1, 5]);
    let greedy = [
        SamplingParams {
            temperature: 0.0,
            ..plain()
        },
        SamplingParams {
            top_k: 1,
            ..plain()
        },
    ];
    for params in greedy {
        let mut sampler = Sampler::new(&params, &[], 5);
        for _ in 0..20 {
            let token = sampler.sample(&equal).expect("MLX samples");
            assert_eq!(token.item_exact::<u32>(), 1, "{params:?}");
        }
    }
}

#[test]
fn the_same_seed_repeats_the_samples_and_another_does_not() {
    let samples = |seed: Option<u64>| {
        let params = SamplingParams { seed, ..plain() };
        let mut sampler = Sampler::new(&params, &PROMPT, LOGITS.len());
        (0..40)
            .map(|_| {
                sampler
                    .sample(&logits())
                    .expect("MLX samples")
                    .item_exact::<u32>()
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(samples(Some(1)), samples(Some(1)));
    assert_ne!(samples(Some(1)), samples(Some(2)));
    assert_ne!(samples(None), samples(None));
}

#[test]
fn half_precision_logits_are_sampled_in_full_precision() {
    let half = logits().as_dtype(Dtype::Bfloat16).expect("MLX casts");
    let mut sampler = Sampler::new(&plain(), &PROMPT, LOGITS.len());
    let token = sampler.sample(&half).expect("MLX samples");
    assert!(token.item_exact::<u32>() < LOGITS.len() as u32);
}

#[test]
fn a_token_that_is_not_allowed_is_never_sampled() {
    let n_tokens = LOGITS.len() as u32;
    // More masks than are kept.
    let pairs = (0..n_tokens).flat_map(|first| (0..first).map(move |second| [first, second]));
    let masks: Vec<_> = pairs
        .map(|pair| TokenMask::of(&pair, LOGITS.len()))
        .collect();
    assert!(masks.len() > MAX_MASKS);
    let bias = vec![(3, 100.0)];
    let logit = |id: u32| LOGITS[id as usize] + if id == 3 { 100.0 } else { 0.0 };
    for (temperature, top_p) in [(0.0, 1.0), (1.5, 1.0), (1.0, 0.9)] {
        let params = SamplingParams {
            temperature,
            top_p,
            logit_bias: bias.clone(),
            ..plain()
        };
        let mut sampler = Sampler::new(&params, &PROMPT, LOGITS.len());
        // Each mask comes again at once, after few others, and after all others.
        let all = 0..masks.len();
        let order = all.clone().flat_map(|index| [index, index, index / 2]);
        for allowed in order
            .chain(all.clone())
            .chain(all)
            .map(|index| &masks[index])
        {
            let token = sampler.sample_from(&logits(), Some(allowed));
            let token = token.expect("MLX samples").item_exact::<u32>();
            assert!(allowed.allows(token), "{token}");
            if temperature == 0.0 {
                let tokens = (0..n_tokens).filter(|&id| allowed.allows(id));
                let best = tokens.max_by(|&a, &b| logit(a).total_cmp(&logit(b)));
                assert_eq!(Some(token), best);
            }
        }
        assert_eq!(sampler.masks.len(), MAX_MASKS);
    }
}
