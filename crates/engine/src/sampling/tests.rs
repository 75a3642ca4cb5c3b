//! Checks the reference distribution: each parameter by hand, and that any give a distribution.

use proptest::prelude::*;

use super::*;

/// Parameters that change nothing, as a base for the cases.
pub(super) fn plain() -> SamplingParams {
    SamplingParams {
        temperature: 1.0,
        top_p: 1.0,
        seed: Some(1),
        ..SamplingParams::default()
    }
}

/// Returns logits with these probabilities.
pub(super) fn logits(probabilities: &[f64]) -> Vec<f32> {
    probabilities.iter().map(|p| p.ln() as f32).collect()
}

fn check(
    params: &SamplingParams,
    logits: &[f32],
    prompt: &[u32],
    generated: &[u32],
    expected: &[f64],
) {
    let distribution = params.distribution(logits, prompt, generated);
    assert_eq!(distribution.len(), expected.len());
    for (p, e) in distribution.iter().zip(expected) {
        assert!((p - e).abs() < 1e-6, "{distribution:?} is not {expected:?}");
    }
}

pub(super) const FOUR: [f64; 4] = [0.1, 0.4, 0.2, 0.3];

#[test]
fn without_parameters_the_distribution_is_the_models_own() {
    check(&plain(), &logits(&FOUR), &[0, 1], &[2], &FOUR);
}

#[test]
fn temperature_raises_probabilities_to_its_inverse() {
    let halved = SamplingParams {
        temperature: 0.5,
        ..plain()
    };
    // 0.01, 0.16, 0.04 and 0.09 of 0.30.
    check(
        &halved,
        &logits(&FOUR),
        &[],
        &[],
        &[1.0 / 30.0, 16.0 / 30.0, 4.0 / 30.0, 9.0 / 30.0],
    );
    let greedy = SamplingParams {
        temperature: 0.0,
        ..plain()
    };
    check(&greedy, &logits(&FOUR), &[], &[], &[0.0, 1.0, 0.0, 0.0]);
    check(&greedy, &[1.0, 3.0, 3.0], &[], &[], &[0.0, 1.0, 0.0]);
}

#[test]
fn greedy_takes_the_likeliest_after_bias_and_penalties() {
    let params = SamplingParams {
        temperature: 0.0,
        logit_bias: vec![(1, -100.0)],
        presence_penalty: 2.0,
        ..plain()
    };
    check(&params, &logits(&FOUR), &[], &[3], &[0.0, 0.0, 1.0, 0.0]);
}

#[test]
fn top_k_keeps_the_likeliest_and_of_equals_the_lower_ids() {
    let params = SamplingParams {
        top_k: 2,
        ..plain()
    };
    check(
        &params,
        &logits(&FOUR),
        &[],
        &[],
        &[0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0],
    );
    check(&params, &[1.0, 1.0, 1.0], &[], &[], &[0.5, 0.5, 0.0]);
    let more = SamplingParams {
        top_k: 9,
        ..plain()
    };
    check(&more, &logits(&FOUR), &[], &[], &FOUR);
}

#[test]
fn top_p_keeps_the_smallest_set_that_reaches_it_over_what_top_k_left() {
    let with = |top_p, top_k| SamplingParams {
        top_p,
        top_k,
        ..plain()
    };
    check(
        &with(0.65, 0),
        &logits(&FOUR),
        &[],
        &[],
        &[0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0],
    );
    check(
        &with(0.75, 0),
        &logits(&FOUR),
        &[],
        &[],
        &[0.0, 4.0 / 9.0, 2.0 / 9.0, 3.0 / 9.0],
    );
    check(
        &with(0.01, 0),
        &logits(&FOUR),
        &[],
        &[],
        &[0.0, 1.0, 0.0, 0.0],
    );
    // Of the two that top-k leaves the first has 4/7 = 0.571 of the weight.
    check(
        &with(0.5, 2),
        &logits(&FOUR),
        &[],
        &[],
        &[0.0, 1.0, 0.0, 0.0],
    );
    check(
        &with(0.6, 2),
        &logits(&FOUR),
        &[],
        &[],
        &[0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0],
    );
    // Reached exactly: the next token is not needed.
    check(
        &with(0.5, 0),
        &[0.0, 0.0, f32::NEG_INFINITY],
        &[],
        &[],
        &[1.0, 0.0, 0.0],
    );
}

#[test]
fn min_p_is_relative_to_the_likeliest() {
    let with = |min_p| SamplingParams { min_p, ..plain() };
    check(
        &with(0.6),
        &logits(&FOUR),
        &[],
        &[],
        &[0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0],
    );
    check(&with(1.0), &logits(&FOUR), &[], &[], &[0.0, 1.0, 0.0, 0.0]);
    check(&with(1.0), &[2.0, 2.0], &[], &[], &[0.5, 0.5]);
}

#[test]
fn temperature_comes_after_the_filters() {
    let hot = SamplingParams {
        temperature: 100.0,
        top_p: 0.65,
        ..plain()
    };
    let distribution = hot.distribution(&logits(&FOUR), &[], &[]);
    assert_eq!((distribution[0], distribution[2]), (0.0, 0.0));
    assert!((distribution[1] - 0.5).abs() < 0.01);
}

#[test]
fn the_repetition_penalty_looks_at_prompt_and_answer_once_each_token() {
    let params = SamplingParams {
        repetition_penalty: 2.0,
        ..plain()
    };
    let expected: [f64; 3] = [1.0, 4.0_f64, -4.0];
    let sum: f64 = expected.iter().map(|l| l.exp()).sum();
    let expected = expected.map(|l| l.exp() / sum);
    check(&params, &[2.0, 4.0, -2.0], &[0, 0], &[2, 0, 2], &expected);
}

#[test]
fn presence_and_frequency_penalties_look_at_the_answer_only() {
    let expect = |logits: [f64; 3]| {
        let sum: f64 = logits.iter().map(|l| l.exp()).sum();
        logits.map(|l| l.exp() / sum)
    };
    let presence = SamplingParams {
        presence_penalty: 0.5,
        ..plain()
    };
    check(
        &presence,
        &[1.0, 1.0, 1.0],
        &[0],
        &[2, 2],
        &expect([1.0, 1.0, 0.5]),
    );
    let frequency = SamplingParams {
        frequency_penalty: 0.5,
        ..plain()
    };
    check(
        &frequency,
        &[1.0, 1.0, 1.0],
        &[0],
        &[2, 2],
        &expect([1.0, 1.0, 0.0]),
    );
    let inviting = SamplingParams {
        presence_penalty: -1.0,
        ..plain()
    };
    check(
        &inviting,
        &[1.0, 1.0, 1.0],
        &[0],
        &[2, 2],
        &expect([1.0, 1.0, 2.0]),
    );
}

#[test]
fn bias_comes_before_the_penalties_and_adds_up() {
    let params = SamplingParams {
        logit_bias: vec![(0, 2.0), (0, 1.0), (77, 5.0)],
        repetition_penalty: 2.0,
        ..plain()
    };
    // (1 + 3) / 2 = 2 against 1. The penalty first would give 1 / 2 + 3.
    let e = std::f64::consts::E;
    check(
        &params,
        &[1.0, 1.0],
        &[0],
        &[],
        &[e / (e + 1.0), 1.0 / (e + 1.0)],
    );
}

#[test]
fn odd_logits_do_no_harm() {
    check(
        &plain(),
        &[f32::NAN, 1.0, f32::NEG_INFINITY],
        &[],
        &[],
        &[0.0, 1.0, 0.0],
    );
    check(
        &plain(),
        &[f32::INFINITY, 1.0, f32::INFINITY],
        &[],
        &[],
        &[0.5, 0.0, 0.5],
    );
    check(&plain(), &[f32::NEG_INFINITY; 2], &[], &[], &[1.0, 0.0]);
    check(&plain(), &[1.0, 1.0], &[99], &[98], &[0.5, 0.5]);
    check(&plain(), &[], &[], &[], &[]);
    assert_eq!(Sampler::new(plain(), &[]).unwrap().draw(&[]), None);
}

proptest! {
    #[test]
    fn any_parameters_give_a_distribution(
        logits in prop::collection::vec(prop::num::f32::ANY, 1..20),
        temperature in 0.0..5.0_f32,
        top_k in 0..25_usize,
        top_p in 0.001..=1.0_f32,
        min_p in 0.0..=1.0_f32,
        penalties in (0.1..3.0_f32, -2.0..=2.0_f32, -2.0..=2.0_f32),
        seen in prop::collection::vec(0..25_u32, 0..10),
    ) {
        let params = SamplingParams {
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty: penalties.0,
            presence_penalty: penalties.1,
            frequency_penalty: penalties.2,
            logit_bias: vec![(0, 1.0)],
            seed: Some(3),
        };
        params.validate(25).unwrap();
        let distribution = params.distribution(&logits, &seen, &seen);
        prop_assert!(distribution.iter().all(|p| (0.0..=1.0).contains(p)), "{:?}", distribution);
        prop_assert!((distribution.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        if top_k > 0 {
            prop_assert!(distribution.iter().filter(|p| **p > 0.0).count() <= top_k);
        }
        let mut sampler = Sampler::new(params, &seen).unwrap();
        seen.iter().for_each(|&token| sampler.accept(token));
        let drawn = sampler.draw(&logits).unwrap();
        prop_assert!(distribution[drawn as usize] > 0.0);
    }
}
