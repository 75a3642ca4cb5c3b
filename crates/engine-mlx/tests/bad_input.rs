//! Invalid model folders and requests are errors that name the file and the value, and never cause
//! a panic, an abort or a guess. `bad_weights.rs` tests weight files.

#[path = "fixtures/broken_models.rs"]
mod broken_models;
#[path = "fixtures/support.rs"]
mod support;

use std::fs;
use std::path::Path;

use broken_models::{assert_message, assert_refused, with_json};
use serde_json::{Value, json};
use support::{assemble, load, lock_mlx};
use transom_engine::{
    ChatPrompt, EngineError, GenerationParams, JobControl, Limits, LoadedModel, Message,
    PreparedPrompt, Prompt, Role, SamplingParams,
};
use transom_engine_mlx::{MlxEngine, MlxModel};

fn load_valid(folder: &Path) -> MlxModel {
    load(&MlxEngine::new(), folder, &Limits::default()).expect("the model is valid")
}

#[test]
fn the_error_names_a_missing_folder() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let folder = parent.path().join("no-such-model");
    let error = assert_refused(&folder, &["no-such-model", "not found"]);
    assert!(matches!(error, EngineError::NotFound { .. }));
}

#[test]
fn a_file_instead_of_a_folder_is_unsupported() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let file = parent.path().join("model.gguf");
    fs::write(&file, "GGUF").expect("written");
    let error = assert_refused(&file, &["model.gguf", "not a model folder"]);
    assert!(matches!(error, EngineError::Unsupported { .. }));
}

#[test]
fn the_error_names_a_missing_configuration() {
    let folder = assemble("qwen3-q4-g64");
    fs::remove_file(folder.path().join("config.json")).expect("the file existed");
    let error = assert_refused(folder.path(), &["config.json", "not found"]);
    assert!(matches!(error, EngineError::NotFound { .. }));
}

#[test]
fn the_error_names_the_line_of_invalid_json() {
    for (text, place) in [
        ("", "line 1"),
        ("{\"model_type\":", "line 1"),
        ("\u{0}", "line 1"),
    ] {
        let folder = assemble("qwen3-q4-g64");
        fs::write(folder.path().join("config.json"), text).expect("written");
        assert_refused(folder.path(), &["config.json", "not valid JSON", place]);
    }
    let folder = assemble("qwen3-q4-g64");
    fs::write(folder.path().join("config.json"), b"{\"a\": \"\xff\"}").expect("written");
    assert_refused(folder.path(), &["config.json", "not valid JSON"]);
}

#[test]
fn an_endlessly_nested_configuration_is_refused() {
    let folder = assemble("qwen3-q4-g64");
    let text = "[".repeat(1 << 20);
    fs::write(folder.path().join("config.json"), text).expect("written");
    assert_refused(folder.path(), &["config.json", "not valid JSON"]);
}

#[test]
fn the_error_names_an_unknown_architecture_and_the_supported_ones() {
    let folder = with_json("qwen3-q4-g64", "config.json", |config| {
        config["model_type"] = json!("mamba9");
    });
    let needles = [
        "config.json",
        "mamba9",
        "llama",
        "mistral",
        "qwen2",
        "qwen3",
    ];
    let error = assert_refused(folder.path(), &needles);
    assert!(matches!(error, EngineError::Unsupported { .. }));
}

#[test]
fn a_configuration_without_model_type_is_refused() {
    for value in [Value::Null, json!(5), json!(["qwen3"])] {
        let folder = with_json("qwen3-q4-g64", "config.json", |config| {
            config["model_type"] = value;
        });
        assert_refused(folder.path(), &["config.json", "model_type"]);
    }
}

/// Invalid values of `config.json`, and parts of the error message other than the file.
fn invalid_values() -> Vec<(&'static str, Value, &'static [&'static str])> {
    vec![
        (
            "num_attention_heads",
            json!(0),
            &["num_attention_heads is 0"],
        ),
        ("num_attention_heads", json!(3), &["3", "2"]),
        (
            "num_attention_heads",
            json!(-4),
            &["num_attention_heads is -4"],
        ),
        (
            "num_key_value_heads",
            json!(0),
            &["num_key_value_heads is 0"],
        ),
        ("num_hidden_layers", json!(0), &["num_hidden_layers is 0"]),
        (
            "num_hidden_layers",
            json!(2_000_000_000),
            &["num_hidden_layers is 2000000000"],
        ),
        ("hidden_size", json!(-64), &["hidden_size is -64"]),
        (
            "hidden_size",
            json!(1_000_000_000_000_i64),
            &["1000000000000"],
        ),
        ("hidden_size", json!("many"), &["many"]),
        ("hidden_size", json!(64.5), &["64.5"]),
        ("hidden_size", Value::Null, &["null"]),
        ("intermediate_size", json!(0), &["intermediate_size is 0"]),
        ("vocab_size", json!(0), &["vocab_size is 0"]),
        (
            "vocab_size",
            json!(2_147_483_647),
            &["vocab_size is 2147483647"],
        ),
        ("head_dim", json!(7), &["head_dim is 7"]),
        ("head_dim", json!(0), &["head_dim is 0"]),
        ("head_dim", json!(1_000_000), &["head_dim is 1000000"]),
        (
            "max_position_embeddings",
            json!(0),
            &["max_position_embeddings is 0"],
        ),
        ("rms_norm_eps", json!(-1.0), &["rms_norm_eps is -1"]),
        ("rope_theta", json!(0.0), &["rope_theta is 0"]),
        (
            "rope_scaling",
            json!({"type": "linear", "factor": 0.0}),
            &["factor is 0"],
        ),
        (
            "rope_scaling",
            json!({"rope_type": "llama3"}),
            &["rope_scaling", "factor"],
        ),
        (
            "rope_scaling",
            json!({"rope_type": "spiral"}),
            &["spiral", "llama3"],
        ),
        ("hidden_act", json!("relu"), &["relu", "silu"]),
        (
            "quantization",
            json!({"group_size": 48, "bits": 4}),
            &["group_size is 48"],
        ),
        (
            "quantization",
            json!({"group_size": 64, "bits": 7}),
            &["bits is 7"],
        ),
        (
            "quantization",
            json!({"group_size": 0, "bits": 4}),
            &["group_size is 0"],
        ),
        (
            "quantization",
            json!({"bits": 4}),
            &["quantization", "group_size"],
        ),
        ("quantization", json!(4), &["quantization"]),
        (
            "quantization",
            json!({"group_size": 32, "bits": 4, "mode": "ternary"}),
            &["ternary", "affine"],
        ),
        (
            "quantization",
            json!({"group_size": 64, "bits": 4, "mode": "mxfp4"}),
            &["group_size is 64", "must be 32"],
        ),
        (
            "quantization",
            json!({"group_size": 64, "bits": 4, "lm_head": {"group_size": 64, "bits": 1}}),
            &["lm_head", "bits is 1"],
        ),
    ]
}

#[test]
fn the_error_names_an_invalid_value_of_the_configuration() {
    for (key, value, needles) in invalid_values() {
        let folder = with_json("qwen3-q4-g64", "config.json", |config| config[key] = value);
        assert_refused(folder.path(), needles);
        assert_refused(folder.path(), &["config.json"]);
    }
}

#[test]
fn the_error_names_a_missing_value_of_the_configuration() {
    for key in [
        "hidden_size",
        "vocab_size",
        "num_attention_heads",
        "rms_norm_eps",
    ] {
        let folder = with_json("llama-q4-g128", "config.json", |config| {
            config.as_object_mut().expect("an object").remove(key);
        });
        assert_refused(folder.path(), &["config.json", key]);
    }
}

#[test]
fn the_error_names_an_unsupported_quantization_method() {
    let folder = with_json("llama-f16-linear", "config.json", |config| {
        config["quantization_config"] = json!({"quant_method": "gptq", "bits": 4});
    });
    let error = assert_refused(folder.path(), &["config.json", "gptq"]);
    assert!(matches!(error, EngineError::Unsupported { .. }));
}

#[test]
fn the_error_names_a_missing_tokenizer() {
    let folder = assemble("qwen3-q4-g64");
    fs::remove_file(folder.path().join("tokenizer.json")).expect("the file existed");
    let error = assert_refused(folder.path(), &["tokenizer.json", "not found"]);
    assert!(matches!(error, EngineError::NotFound { .. }));
}

#[test]
fn the_error_names_a_broken_tokenizer_file() {
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        let folder = assemble("qwen3-q4-g64");
        let path = folder.path().join(file);
        let text = fs::read_to_string(&path).expect("the file exists");
        fs::write(&path, &text[..text.len() / 2]).expect("written");
        assert_refused(folder.path(), &[file]);
    }
}

#[test]
fn a_broken_chat_template_is_refused() {
    let folder = with_json("qwen3-q4-g64", "tokenizer_config.json", |config| {
        config["chat_template"] = json!("{% for message in %}");
    });
    assert_refused(folder.path(), &["chat template"]);
}

fn chat(role: Role, text: &str) -> Prompt {
    Prompt::Chat(ChatPrompt {
        messages: vec![Message::new(role, text)],
        ..ChatPrompt::default()
    })
}

#[test]
fn the_error_contains_the_message_that_a_template_raises() {
    let folder = with_json("qwen3-q4-g64", "tokenizer_config.json", |config| {
        config["chat_template"] = json!("{{ raise_exception('Only users may speak.') }}");
    });
    let _mlx = lock_mlx();
    let model = load_valid(folder.path());
    let error = model
        .prepare(&chat(Role::System, "Hello"))
        .expect_err("the template raises");
    assert_message(&error, &["Only users may speak."]);
    assert!(matches!(error, EngineError::Template { .. }));
}

#[test]
fn a_model_without_a_chat_template_accepts_only_text() {
    let folder = with_json("qwen3-q4-g64", "tokenizer_config.json", |config| {
        config
            .as_object_mut()
            .expect("an object")
            .remove("chat_template");
    });
    let _mlx = lock_mlx();
    let model = load_valid(folder.path());
    assert!(!model.info().has_chat_template);
    let error = model
        .prepare(&chat(Role::User, "Hello"))
        .expect_err("there is no template");
    assert!(matches!(error, EngineError::Template { .. }));
    assert!(model.prepare(&Prompt::Text("Hello".to_owned())).is_ok());
}

#[test]
fn an_empty_prompt_is_refused() {
    let folder = assemble("qwen3-q4-g64");
    let _mlx = lock_mlx();
    let model = load_valid(folder.path());
    for prompt in [
        Prompt::Tokens(Vec::new()),
        Prompt::Text(String::new()),
        Prompt::Chat(ChatPrompt::default()),
    ] {
        assert_eq!(
            model.prepare(&prompt),
            Err(EngineError::EmptyPrompt),
            "{prompt:?}"
        );
    }
    assert_eq!(model.logits(&[]), Err(EngineError::EmptyPrompt));
}

#[test]
fn the_error_of_a_too_long_prompt_has_both_lengths() {
    let folder = assemble("qwen3-q4-g64");
    let _mlx = lock_mlx();
    let limits = Limits {
        context_length: 16,
        ..Limits::default()
    };
    let model = load(&MlxEngine::new(), folder.path(), &limits).expect("the model is valid");
    assert_eq!(model.info().context_length, 16);
    assert!(model.prepare(&Prompt::Tokens(vec![7; 15])).is_ok());
    for n_tokens in [16, 300] {
        let error = model
            .prepare(&Prompt::Tokens(vec![7; n_tokens]))
            .expect_err("no space for a response");
        assert_message(&error, &[&n_tokens.to_string(), "16"]);
    }
    // The model's own limit applies if the caller's is larger.
    let model = load_valid(folder.path());
    let error = model
        .prepare(&Prompt::Tokens(vec![7; 512]))
        .expect_err("it holds 512");
    assert_message(&error, &["512"]);
}

#[test]
fn the_error_names_a_token_outside_the_vocabulary() {
    let folder = assemble("qwen3-q4-g64");
    let _mlx = lock_mlx();
    let model = load_valid(folder.path());
    let error = model
        .prepare(&Prompt::Tokens(vec![1, 272]))
        .expect_err("ids go up to 271");
    assert_message(&error, &["272"]);
    assert!(model.logits(&[272]).is_err());
}

#[test]
fn invalid_parameters_are_refused_before_any_event() {
    let folder = assemble("qwen3-q4-g64");
    let _mlx = lock_mlx();
    let mut model = load_valid(folder.path());
    let prompt = PreparedPrompt::new(vec![1, 2, 3]);
    let sampling = |change: fn(&mut SamplingParams)| {
        let mut sampling = SamplingParams::default();
        change(&mut sampling);
        sampling
    };
    for (invalid, needles) in [
        (sampling(|s| s.temperature = -1.0), ["temperature", "-1"]),
        (
            sampling(|s| s.temperature = f32::NAN),
            ["temperature", "NaN"],
        ),
        (sampling(|s| s.top_p = 1.5), ["top-p", "1.5"]),
        (sampling(|s| s.min_p = -0.5), ["min-p", "-0.5"]),
        (
            sampling(|s| s.repetition_penalty = 0.0),
            ["repetition-penalty", "0"],
        ),
        (
            sampling(|s| s.logit_bias = vec![(272, 1.0)]),
            ["logit-bias", "272"],
        ),
    ] {
        let params = GenerationParams {
            sampling: invalid,
            ..GenerationParams::default()
        };
        let mut n_events = 0;
        let error = model
            .generate(&prompt, &params, &JobControl::new(), &mut |_| n_events += 1)
            .expect_err("the parameter is invalid");
        assert_message(&error, &needles);
        assert_eq!(n_events, 0, "{needles:?}");
    }
}
