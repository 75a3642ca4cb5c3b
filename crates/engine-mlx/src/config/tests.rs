//! Tests of the recommended sampling parameters.

use serde_json::json;

use super::*;

fn sampling(json: Value) -> SamplingParams {
    let generation = GenerationConfig {
        path: PathBuf::from("generation_config.json"),
        json,
    };
    generation.sampling()
}

#[test]
fn recommended_parameters_are_used() {
    let recommended = sampling(json!({
        "temperature": 0.6, "top_k": 20, "top_p": 0.8, "min_p": 0.05, "repetition_penalty": 1.1,
        "do_sample": true
    }));
    let expected = SamplingParams {
        temperature: 0.6,
        top_k: 20,
        top_p: 0.8,
        min_p: 0.05,
        repetition_penalty: 1.1,
        ..SamplingParams::default()
    };
    assert_eq!(recommended, expected);
    assert_eq!(
        sampling(json!({"temperature": 0.6, "do_sample": false})).temperature,
        0.0
    );
}

#[test]
fn invalid_recommendations_are_ignored_and_valid_ones_used() {
    for (field, value) in [
        ("top_k", json!(-1)),
        ("top_k", json!(2.5)),
        ("top_k", json!("fifty")),
        ("temperature", json!(-0.5)),
        ("temperature", json!(1e300)),
        ("temperature", json!([0.7])),
        ("top_p", json!(0)),
        ("top_p", json!(20)),
        ("min_p", json!(2)),
        ("repetition_penalty", json!(0)),
        ("repetition_penalty", json!(1e-40)),
        ("do_sample", json!("yes")),
        ("top_k", json!(null)),
    ] {
        let mut json = json!({"temperature": 0.6, "top_k": 20, "top_p": 0.8, "min_p": 0.05});
        let mut expected = sampling(json.clone());
        json[field] = value.clone();
        let default = SamplingParams::default();
        match field {
            "top_k" => expected.top_k = default.top_k,
            "temperature" => expected.temperature = default.temperature,
            "top_p" => expected.top_p = default.top_p,
            "min_p" => expected.min_p = default.min_p,
            _ => {}
        }
        assert_eq!(sampling(json), expected, "{field}: {value}");
        assert!(expected.validate(1).is_ok());
    }
    for invalid in [
        json!(null),
        json!([]),
        json!("x"),
        json!({"eos_token_id": "x"}),
    ] {
        assert_eq!(sampling(invalid), SamplingParams::default());
    }
}
