//! Checks every range and its error message.

use super::*;
use crate::request::GenerationParams;
use crate::sampling::tests::plain;

#[test]
fn parameters_outside_their_range_are_named_with_value_and_range() {
    let reject = |params: SamplingParams, message: &str| {
        assert_eq!(params.validate(10).unwrap_err().to_string(), message);
    };
    plain().validate(10).unwrap();
    SamplingParams::default().validate(10).unwrap();
    reject(
        SamplingParams {
            temperature: -1.0,
            ..plain()
        },
        "temperature is -1, but must be at least 0",
    );
    reject(
        SamplingParams {
            temperature: f32::NAN,
            ..plain()
        },
        "temperature is NaN, but must be at least 0",
    );
    reject(
        SamplingParams {
            temperature: f32::INFINITY,
            ..plain()
        },
        "temperature is inf, but must be at least 0",
    );
    reject(
        SamplingParams {
            top_p: 0.0,
            ..plain()
        },
        "top-p is 0, but must be above 0 and at most 1",
    );
    reject(
        SamplingParams {
            top_p: 1.5,
            ..plain()
        },
        "top-p is 1.5, but must be above 0 and at most 1",
    );
    reject(
        SamplingParams {
            min_p: -0.1,
            ..plain()
        },
        "min-p is -0.1, but must be from 0 to 1",
    );
    reject(
        SamplingParams {
            repetition_penalty: 0.0,
            ..plain()
        },
        "repetition-penalty is 0, but must be from 0.01 to 1000000",
    );
    reject(
        SamplingParams {
            presence_penalty: 2.5,
            ..plain()
        },
        "presence-penalty is 2.5, but must be from -2 to 2",
    );
    reject(
        SamplingParams {
            frequency_penalty: -3.0,
            ..plain()
        },
        "frequency-penalty is -3, but must be from -2 to 2",
    );
    reject(
        SamplingParams {
            logit_bias: vec![(3, f32::NAN)],
            ..plain()
        },
        "logit-bias is NaN, but must be finite",
    );
    reject(
        SamplingParams {
            logit_bias: vec![(10, 1.0)],
            ..plain()
        },
        "logit-bias is for token 10, but must be for a token id of the model's vocabulary",
    );
}

#[test]
fn no_valid_repetition_penalty_makes_logits_infinite() {
    let with_penalty = |repetition_penalty| SamplingParams {
        temperature: 0.0,
        repetition_penalty,
        ..plain()
    };
    // A low penalty divides high logits, a high penalty multiplies low ones.
    for (penalty, logits) in [(0.01, [1e4, 2e4]), (1e6, [-2e4, -1e4])] {
        let params = with_penalty(penalty);
        params.validate(2).unwrap();
        let distribution = params.distribution(&logits, &[0, 1], &[]);
        assert_eq!(distribution, [0.0, 1.0], "{penalty}");
    }
    for penalty in [1e-40, 0.009, 1.1e6, 1e38, f32::INFINITY, f32::NAN] {
        let error = with_penalty(penalty).validate(2).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("repetition-penalty is {penalty}, but must be from 0.01 to 1000000")
        );
    }
}

#[test]
fn limits_of_a_generation_are_checked_too() {
    let params = GenerationParams {
        sampling: plain(),
        ..GenerationParams::default()
    };
    params.validate(10).unwrap();
    let none = GenerationParams {
        max_tokens: Some(0),
        ..params.clone()
    };
    assert_eq!(
        none.validate(10).unwrap_err().to_string(),
        "max-tokens is 0, but must be at least 1"
    );
    let many = GenerationParams {
        logprobs: Some(21),
        ..params.clone()
    };
    assert_eq!(
        many.validate(10).unwrap_err().to_string(),
        "logprobs is 21, but must be from 0 to 20"
    );
    let empty = GenerationParams {
        stop: vec!["a".to_owned(), String::new()],
        ..params
    };
    assert!(matches!(
        empty.validate(10),
        Err(EngineError::InvalidParameter { name, .. }) if name == "stop"
    ));
}
