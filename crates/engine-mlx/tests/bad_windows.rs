//! Configurations and weights of models with windows, experts and shared keys that are wrong are
//! refused with a message that names the file and the value.

#[path = "fixtures/support.rs"]
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};
use support::{assemble, hold_mlx, load};
use tempfile::TempDir;
use transom_engine::{EngineError, Limits, ModelSource};
use transom_engine_mlx::MlxEngine;

type Nonsense = (&'static str, Value, &'static [&'static str]);

/// Loads `folder`, and asks what it needs, which must both fail with a message that holds all
/// `needles`.
fn assert_refused(folder: &Path, needles: &[&str]) {
    let _mlx = hold_mlx();
    let Err(error) = load(&MlxEngine::new(), folder, &Limits::default()) else {
        panic!("loaded, but must be refused for {needles:?}");
    };
    assert!(
        matches!(
            error,
            EngineError::BadFile { .. } | EngineError::Unsupported { .. }
        ),
        "{error:?}"
    );
    let message = error.to_string();
    for needle in needles {
        assert!(
            message.contains(needle),
            "{message:?} does not say {needle:?}"
        );
    }
}

/// A model whose configuration went through `change`.
fn spoiled(name: &str, change: impl FnOnce(&mut Value)) -> TempDir {
    let folder = assemble(name);
    let path = folder.path().join("config.json");
    let text = fs::read_to_string(&path).expect("the file is there");
    let mut config = serde_json::from_str(&text).expect("valid JSON");
    change(&mut config);
    fs::write(&path, config.to_string()).expect("the file can be written");
    folder
}

/// Each entry in the configuration of `name`, or in its text part.
fn check_entries(name: &str, entries: Vec<Nonsense>) {
    for (key, value, needles) in entries {
        let folder = spoiled(name, |config| {
            if config.get("text_config").is_some() {
                config["text_config"][key] = value;
            } else {
                config[key] = value;
            }
        });
        assert_refused(folder.path(), needles);
        assert_refused(folder.path(), &["config.json"]);
    }
}

#[test]
fn a_window_that_makes_no_sense_is_refused_with_its_value() {
    for name in [
        "mistral-window",
        "gemma3-bf16",
        "gpt-oss-bf16",
        "gemma4-bf16-tables",
    ] {
        check_entries(
            name,
            vec![
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
    check_entries(
        "mistral-window",
        vec![(
            "layer_types",
            kinds,
            &["spiral_attention", "sliding_attention"],
        )],
    );
}

#[test]
fn a_layer_that_slides_without_a_window_is_named() {
    for name in ["gemma3-bf16", "gpt-oss-bf16"] {
        let folder = spoiled(name, |config| config["sliding_window"] = Value::Null);
        assert_refused(folder.path(), &["config.json", "layer 0", "sliding_window"]);
    }
    let folder = spoiled("mistral-window", |config| {
        config["sliding_window"] = Value::Null;
        config["layer_types"] = json!(["full_attention", "sliding_attention"]);
    });
    assert_refused(folder.path(), &["config.json", "layer 1", "sliding_window"]);
}

#[test]
fn nonsense_in_a_gemma_3_is_refused_with_its_value() {
    let entries = || -> Vec<Nonsense> {
        vec![
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
        ]
    };
    check_entries("gemma3-bf16", entries());
    check_entries("gemma3-f32-nested", entries());
    let folder = spoiled("gemma3-f32-nested", |config| {
        config
            .as_object_mut()
            .expect("an object")
            .remove("text_config");
    });
    assert_refused(folder.path(), &["config.json", "text_config"]);
}

#[test]
fn nonsense_in_a_gemma_4_is_refused_with_its_value() {
    check_entries(
        "gemma4-bf16-tables",
        vec![
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
    check_entries(
        "gemma4-bf16-experts",
        vec![
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

/// Layers may share the keys only of a layer of their own kind.
#[test]
fn shared_keys_of_a_kind_that_no_layer_has_are_refused() {
    let folder = spoiled("gemma4-bf16-tables", |config| {
        config["layer_types"] = json!([
            "sliding_attention",
            "sliding_attention",
            "sliding_attention",
            "sliding_attention",
            "sliding_attention",
            "full_attention"
        ]);
    });
    assert_refused(folder.path(), &["config.json", "layer 5", "full_attention"]);
}

#[test]
fn nonsense_in_a_gpt_oss_is_refused_with_its_value() {
    check_entries(
        "gpt-oss-bf16",
        vec![
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
fn nonsense_in_a_smollm3_is_refused_with_its_value() {
    check_entries(
        "smollm3-bf16",
        vec![
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

/// The model `name` with its tensors gone through `change`.
fn with_tensors(
    name: &str,
    change: impl FnOnce(&mut BTreeMap<String, (safetensors::Dtype, Vec<usize>, Vec<u8>)>),
) -> TempDir {
    let folder = assemble(name);
    let path = folder.path().join("model.safetensors");
    let bytes = fs::read(&path).expect("the weights are there");
    let tensors = SafeTensors::deserialize(&bytes).expect("the fixture is sound");
    let mut tensors = tensors
        .iter()
        .map(|(name, view)| {
            let form = (view.dtype(), view.shape().to_vec(), view.data().to_vec());
            (name.to_owned(), form)
        })
        .collect();
    change(&mut tensors);
    let views = tensors.iter().map(|(name, (dtype, shape, data))| {
        let view = TensorView::new(*dtype, shape.clone(), data);
        (name, view.expect("the tensor is sound"))
    });
    let bytes = safetensors::serialize(views, None).expect("the tensors are sound");
    fs::write(&path, bytes).expect("it can be written");
    folder
}

#[test]
fn each_tensor_that_is_missing_is_named() {
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
            // A stack without its first tensor is looked for as one tensor an expert.
            let said = name.split(".down_proj").next().unwrap_or(name);
            let path = folder.path().display().to_string();
            assert_refused(folder.path(), &[&path, said, "missing"]);
        }
    }
}

#[test]
fn a_tensor_of_another_shape_is_refused_with_both_shapes() {
    for (model, name, found, wanted) in [
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
            let (dtype, ..) = tensors[name];
            tensors.insert(
                name.to_owned(),
                (dtype, vec![2], vec![0; 2 * dtype.bitsize() / 8]),
            );
        });
        assert_refused(folder.path(), &["model.safetensors", name, found, wanted]);
    }
}

/// What pictures need is neither read nor counted.
#[test]
fn tensors_that_only_pictures_need_cost_nothing() {
    let _mlx = hold_mlx();
    let engine = MlxEngine::new();
    let need = |folder: &Path| {
        let source = ModelSource {
            path: folder.to_owned(),
        };
        let need = transom_engine::Engine::memory_need(&engine, &source, &Limits::default());
        need.expect("the files are sound").weight_bytes
    };
    let with = assemble("gemma3-f32-nested");
    let n_parameters = |folder: &Path| {
        let model = load(&engine, folder, &Limits::default()).expect("it loads");
        transom_engine::LoadedModel::info(&model).n_parameters
    };
    let before = (need(with.path()), n_parameters(with.path()));
    let without = with_tensors("gemma3-f32-nested", |tensors| {
        let n_tensors = tensors.len();
        tensors.retain(|name, _| name.starts_with("language_model."));
        assert_eq!(tensors.len(), n_tensors - 2);
    });
    assert_eq!((need(without.path()), n_parameters(without.path())), before);
}
