//! Invalid configurations and weights of models with sliding windows, experts and shared keys are
//! errors that name the file and the value.

#[path = "fixtures/broken_models.rs"]
mod broken_models;
#[path = "fixtures/support.rs"]
mod support;

use std::path::Path;

use broken_models::{
    InvalidValue, Tensor, assert_bad_file, assert_not_loaded, with_config, with_tensors,
};
use serde_json::{Value, json};
use support::{assemble, load, lock_mlx};
use transom_engine::{Engine, Limits, LoadedModel, ModelSource};
use transom_engine_mlx::MlxEngine;

#[test]
fn the_error_names_an_invalid_window() {
    for name in [
        "mistral-window",
        "gemma3-bf16",
        "gpt-oss-bf16",
        "gemma4-bf16-tables",
    ] {
        assert_not_loaded(
            name,
            &[
                ("sliding_window", json!(0), &["sliding_window is 0"]),
                ("sliding_window", json!(-5), &["sliding_window is -5"]),
                (
                    "sliding_window",
                    json!(2_000_000_000),
                    &["sliding_window is 2000000000"],
                ),
                ("sliding_window", json!(8.5), &["8.5"]),
                ("sliding_window", json!("wide"), &["wide"]),
                (
                    "layer_types",
                    json!(["full_attention"]),
                    &["1 layers", "there are"],
                ),
                ("layer_types", json!("full_attention"), &["full_attention"]),
            ],
        );
    }
    let kinds = json!(["sliding_attention", "spiral_attention"]);
    assert_not_loaded(
        "mistral-window",
        &[(
            "layer_types",
            kinds,
            &["spiral_attention", "sliding_attention"],
        )],
    );
}

#[test]
fn the_error_names_a_sliding_layer_without_a_window() {
    for name in ["gemma3-bf16", "gpt-oss-bf16"] {
        let folder = with_config(name, |config| config["sliding_window"] = Value::Null);
        assert_bad_file(folder.path(), &["config.json", "layer 0", "sliding_window"]);
    }
    let folder = with_config("mistral-window", |config| {
        config["sliding_window"] = Value::Null;
        config["layer_types"] = json!(["full_attention", "sliding_attention"]);
    });
    assert_bad_file(folder.path(), &["config.json", "layer 1", "sliding_window"]);
}

#[test]
fn the_error_names_an_invalid_value_of_gemma_3() {
    let entries: [InvalidValue; 12] = [
        (
            "sliding_window_pattern",
            json!(0),
            &["sliding_window_pattern is 0"],
        ),
        (
            "query_pre_attn_scalar",
            json!(0.0),
            &["query_pre_attn_scalar is 0"],
        ),
        (
            "query_pre_attn_scalar",
            json!(-3.0),
            &["query_pre_attn_scalar is -3"],
        ),
        ("head_dim", json!(31), &["head_dim is 31"]),
        (
            "num_key_value_heads",
            json!(3),
            &["4 attention heads", "3 key-value heads"],
        ),
        ("num_hidden_layers", json!(0), &["num_hidden_layers is 0"]),
        ("rms_norm_eps", json!(-1.0), &["rms_norm_eps is -1"]),
        ("rope_theta", json!(0.0), &["rope_theta is 0"]),
        ("rope_local_base_freq", json!(-1.0), &["rope_theta is -1"]),
        (
            "attn_logit_softcapping",
            json!(50.0),
            &["attn_logit_softcapping 50"],
        ),
        (
            "final_logit_softcapping",
            json!(0.0),
            &["final_logit_softcapping is 0"],
        ),
        (
            "hidden_activation",
            json!("relu"),
            &["relu", "gelu_pytorch_tanh"],
        ),
    ];
    assert_not_loaded("gemma3-bf16", &entries);
    assert_not_loaded("gemma3-f32-nested", &entries);
    let folder = with_config("gemma3-f32-nested", |config| {
        config
            .as_object_mut()
            .expect("an object")
            .remove("text_config");
    });
    assert_bad_file(folder.path(), &["config.json", "text_config"]);
}

#[test]
fn the_error_names_an_invalid_value_of_gemma_4() {
    assert_not_loaded(
        "gemma4-bf16-tables",
        &[
            (
                "num_kv_shared_layers",
                json!(6),
                &["num_kv_shared_layers is 6"],
            ),
            (
                "num_kv_shared_layers",
                json!(-1),
                &["num_kv_shared_layers is -1"],
            ),
            ("global_head_dim", json!(33), &["of 33 features"]),
            (
                "hidden_size_per_layer_input",
                json!(-8),
                &["hidden_size_per_layer_input is -8"],
            ),
            (
                "vocab_size_per_layer_input",
                json!(0),
                &["vocab_size_per_layer_input is 0"],
            ),
            (
                "final_logit_softcapping",
                json!(-30.0),
                &["final_logit_softcapping is -30"],
            ),
            (
                "rope_parameters",
                json!({"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 1.5}}),
                &["partial_rotary_factor is 1.5"],
            ),
        ],
    );
    assert_not_loaded(
        "gemma4-bf16-experts",
        &[
            ("num_experts", json!(0), &["num_experts is 0"]),
            ("top_k_experts", json!(7), &["top_k_experts is 7", "6"]),
            (
                "moe_intermediate_size",
                Value::Null,
                &["moe_intermediate_size"],
            ),
            (
                "num_global_key_value_heads",
                json!(3),
                &["4 attention heads", "3 key-value heads"],
            ),
        ],
    );
}

/// Layers may use only the keys of a layer with the same type of attention.
#[test]
fn shared_keys_of_a_type_without_own_keys_are_refused() {
    let folder = with_config("gemma4-bf16-tables", |config| {
        config["layer_types"] = json!([
            "sliding_attention",
            "sliding_attention",
            "sliding_attention",
            "sliding_attention",
            "sliding_attention",
            "full_attention"
        ]);
    });
    assert_bad_file(folder.path(), &["config.json", "layer 5", "full_attention"]);
}

#[test]
fn the_error_names_an_invalid_value_of_gpt_oss() {
    assert_not_loaded(
        "gpt-oss-bf16",
        &[
            ("num_local_experts", json!(0), &["num_local_experts is 0"]),
            (
                "num_experts_per_tok",
                json!(0),
                &["num_experts_per_tok is 0"],
            ),
            (
                "num_experts_per_tok",
                json!(7),
                &["num_experts_per_tok is 7", "6"],
            ),
            ("swiglu_limit", json!(5.0), &["swiglu_limit 5", "7"]),
            (
                "rope_scaling",
                json!({"rope_type": "yarn"}),
                &["rope_scaling", "factor"],
            ),
            (
                "rope_scaling",
                json!({"rope_type": "yarn", "factor": -2.0}),
                &["factor is -2"],
            ),
            (
                "rope_scaling",
                json!({"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 0}),
                &["original_max_position_embeddings is 0"],
            ),
            (
                "rope_scaling",
                json!({"rope_type": "yarn", "factor": 8.0, "beta_slow": 0}),
                &["beta_slow is 0"],
            ),
        ],
    );
}

#[test]
fn the_error_names_an_invalid_value_of_smollm3() {
    assert_not_loaded(
        "smollm3-bf16",
        &[
            (
                "no_rope_layers",
                json!([1, 0]),
                &["no_rope_layers names 2 layers", "4"],
            ),
            ("no_rope_layers", json!("all"), &["all"]),
            (
                "no_rope_layer_interval",
                json!(0),
                &["no_rope_layer_interval is 0"],
            ),
        ],
    );
}

#[test]
fn the_error_names_each_missing_tensor() {
    for (model, names) in [
        (
            "gemma3-bf16",
            vec![
                "model.layers.1.pre_feedforward_layernorm.weight",
                "model.layers.2.self_attn.k_norm.weight",
            ],
        ),
        (
            "gpt-oss-mxfp4",
            vec![
                "model.layers.0.self_attn.sinks",
                "model.layers.1.mlp.router.weight",
                "model.layers.1.mlp.experts.down_proj.weight",
                "lm_head.weight",
            ],
        ),
        (
            "gemma4-bf16-tables",
            vec![
                "model.embed_tokens_per_layer.weight",
                "model.layers.3.per_layer_input_gate.weight",
                "model.layers.2.self_attn.v_proj.weight",
            ],
        ),
        (
            "gemma4-bf16-experts",
            vec![
                "language_model.model.layers.0.router.scale",
                "language_model.model.layers.1.router.per_expert_scale",
                "language_model.model.layers.2.post_feedforward_layernorm_2.weight",
            ],
        ),
    ] {
        for name in names {
            let folder = with_tensors(model, |tensors| {
                assert!(tensors.remove(name).is_some(), "{model} has {name}");
            });
            // Without the first tensor of a stack, the loader looks for one tensor per expert.
            let prefix = name.split(".down_proj").next().unwrap_or(name);
            let path = folder.path().display().to_string();
            assert_bad_file(folder.path(), &[&path, prefix, "missing"]);
        }
    }
}

#[test]
fn the_error_of_a_tensor_with_another_shape_has_both_shapes() {
    for (model, name, found, expected) in [
        (
            "gpt-oss-bf16",
            "model.layers.0.self_attn.sinks",
            "[2]",
            "[4]",
        ),
        (
            "gemma3-bf16",
            "model.layers.0.self_attn.q_norm.weight",
            "[2]",
            "[32]",
        ),
        (
            "gemma4-bf16-tables",
            "model.layers.0.layer_scalar",
            "[2]",
            "[1]",
        ),
    ] {
        let folder = with_tensors(model, |tensors| {
            let dtype = tensors[name].dtype;
            let tensor = Tensor {
                dtype,
                shape: vec![2],
                data: vec![0; 2 * dtype.bitsize() / 8],
            };
            tensors.insert(name.to_owned(), tensor);
        });
        assert_bad_file(folder.path(), &["model.safetensors", name, found, expected]);
    }
}

/// Tensors for images are neither read nor counted.
#[test]
fn vision_tensors_are_not_counted() {
    let _mlx = lock_mlx();
    let engine = MlxEngine::new();
    let need = |folder: &Path| {
        let source = ModelSource {
            path: folder.to_owned(),
        };
        let need = engine.memory_need(&source, &Limits::default());
        need.expect("the files are valid").weight_bytes
    };
    let with = assemble("gemma3-f32-nested");
    let n_parameters = |folder: &Path| {
        let model = load(&engine, folder, &Limits::default()).expect("it loads");
        model.info().n_parameters
    };
    let before = (need(with.path()), n_parameters(with.path()));
    let without = with_tensors("gemma3-f32-nested", |tensors| {
        let n_tensors = tensors.len();
        tensors.retain(|name, _| name.starts_with("language_model."));
        assert_eq!(tensors.len(), n_tensors - 2);
    });
    assert_eq!((need(without.path()), n_parameters(without.path())), before);
}
