//! Invalid configurations and weights of mixtures of experts, hybrids and Ministral 3 are errors
//! that name the file and the value.

#[path = "fixtures/broken_models.rs"]
mod broken_models;
#[path = "fixtures/support.rs"]
mod support;

use std::fs;

use broken_models::{Tensors, assert_bad_file, assert_values_refused, with_entry, with_tensors};
use safetensors::Dtype;
use serde_json::{Value, json};
use support::assemble;

/// Removes the last row along the first axis.
fn remove_row(tensors: &mut Tensors, name: &str) {
    let tensor = tensors.get_mut(name).expect("the tensor exists");
    let row = tensor.data.len() / tensor.shape[0];
    tensor.shape[0] -= 1;
    tensor.data.truncate(row * tensor.shape[0]);
}

#[test]
fn the_error_names_an_invalid_value_of_experts() {
    assert_values_refused(
        "qwen3-moe-q4-g64",
        &[
            ("num_experts", json!(0), &["num_experts is 0"]),
            ("num_experts", json!(-8), &["num_experts is -8"]),
            (
                "num_experts",
                json!(1 << 20),
                &["num_experts is 1048576", "4096"],
            ),
            (
                "num_experts_per_tok",
                json!(0),
                &["num_experts_per_tok is 0"],
            ),
            (
                "num_experts_per_tok",
                json!(9),
                &["num_experts_per_tok is 9", "between 1 and 8"],
            ),
            (
                "moe_intermediate_size",
                json!(0),
                &["moe_intermediate_size is 0"],
            ),
            ("moe_intermediate_size", json!("wide"), &["invalid type"]),
            (
                "decoder_sparse_step",
                json!(0),
                &["decoder_sparse_step is 0"],
            ),
            (
                "shared_expert_intermediate_size",
                json!(-1),
                &["shared_expert_intermediate_size is -1"],
            ),
            ("mlp_only_layers", json!(3), &["invalid type"]),
        ],
    );
}

#[test]
fn the_error_names_an_invalid_value_of_recurrent_layers() {
    assert_values_refused(
        "qwen3-5-q5-g32",
        &[
            (
                "linear_num_key_heads",
                json!(0),
                &["linear_num_key_heads is 0"],
            ),
            (
                "linear_num_value_heads",
                json!(5),
                &["5 value heads cannot share 2 key heads"],
            ),
            (
                "linear_key_head_dim",
                json!(-1),
                &["linear_key_head_dim is -1"],
            ),
            (
                "linear_value_head_dim",
                json!(1 << 20),
                &["linear_value_head_dim is 1048576"],
            ),
            (
                "linear_conv_kernel_dim",
                json!(1),
                &["linear_conv_kernel_dim is 1"],
            ),
            (
                "linear_conv_kernel_dim",
                json!(65),
                &["linear_conv_kernel_dim is 65"],
            ),
            (
                "full_attention_interval",
                json!(0),
                &["full_attention_interval is 0"],
            ),
            (
                "layer_types",
                json!(["linear_attention"]),
                &["layer_types names 1 layers", "there are 4"],
            ),
            (
                "layer_types",
                json!([
                    "linear_attention",
                    "spiral",
                    "full_attention",
                    "full_attention"
                ]),
                &["spiral", "linear_attention"],
            ),
            ("head_dim", json!(15), &["head_dim is 15"]),
        ],
    );
}

#[test]
fn the_error_names_an_invalid_value_of_the_query_scale() {
    let rope = |beta: Value, original: Value| {
        json!({
            "rope_type": "yarn",
            "rope_theta": 1e6,
            "factor": 16.0,
            "llama_4_scaling_beta": beta,
            "original_max_position_embeddings": original,
        })
    };
    for (value, needles) in [
        (
            rope(json!(-1.0), json!(32)),
            &["llama_4_scaling_beta is -1"][..],
        ),
        (rope(Value::Null, json!(32)), &["llama_4_scaling_beta"]),
        (
            rope(json!(0.1), json!(0)),
            &["original_max_position_embeddings", "0"],
        ),
        (
            rope(json!(0.1), Value::Null),
            &["original_max_position_embeddings"],
        ),
    ] {
        let folder = with_entry("ministral3-bf16", "rope_parameters", &value);
        assert_bad_file(folder.path(), needles);
    }
}

#[test]
fn the_error_names_an_invalid_text_part() {
    let folder = with_entry("ministral3-bf16", "model_type", &json!("abacus"));
    assert_bad_file(folder.path(), &["abacus", "ministral3"]);
    let folder = assemble("qwen3-5-moe-q4-g64");
    let config = json!({"model_type": "qwen3_5_moe", "text_config": 7});
    fs::write(folder.path().join("config.json"), config.to_string()).expect("written");
    assert_bad_file(folder.path(), &["text_config", "config.json"]);
}

#[test]
fn the_error_names_a_missing_expert() {
    let tensor = "model.layers.2.mlp.experts.5.down_proj.weight";
    let folder = with_tensors("qwen3-moe-bf16-experts-apart", |tensors| {
        tensors.remove(tensor).expect("the tensor exists");
    });
    assert_bad_file(folder.path(), &[tensor, "missing"]);
}

#[test]
fn the_error_of_an_expert_of_another_size_has_both_shapes() {
    let tensor = "model.layers.0.mlp.experts.3.up_proj.weight";
    let folder = with_tensors("qwen3-moe-bf16-experts-apart", |tensors| {
        remove_row(tensors, tensor)
    });
    assert_bad_file(folder.path(), &[tensor, "[23, 64]", "[24, 64]"]);
}

#[test]
fn the_error_of_a_stack_with_too_few_experts_has_both_shapes() {
    let tensor = "model.layers.1.mlp.switch_mlp.gate_proj.weight";
    let folder = with_tensors("qwen3-moe-q4-g64", |tensors| remove_row(tensors, tensor));
    assert_bad_file(folder.path(), &[tensor, "[7, 64, 8]", "[8, 64, 8]"]);
    let tensor = "model.language_model.layers.1.mlp.experts.gate_up_proj";
    let folder = with_tensors("qwen3-5-moe-bf16-authors", |tensors| {
        remove_row(tensors, tensor)
    });
    assert_bad_file(folder.path(), &[tensor, "[7, 48, 64]", "[8, 48, 64]"]);
}

#[test]
fn the_error_names_scales_of_another_type_and_missing_biases() {
    let tensor = "model.layers.0.mlp.switch_mlp.up_proj.scales";
    let folder = with_tensors("qwen3-moe-mxfp4", |tensors| {
        let scales = tensors.get_mut(tensor).expect("the tensor exists");
        scales.dtype = Dtype::F32;
        scales.data = scales.data.iter().flat_map(|_| [0; 4]).collect();
    });
    assert_bad_file(folder.path(), &[tensor, "Float32", "8 bits"]);
    let biases = "model.layers.0.mlp.switch_mlp.up_proj.biases";
    let folder = with_tensors("qwen3-moe-q4-g64", |tensors| {
        tensors.remove(biases).expect("the tensor exists");
    });
    assert_bad_file(folder.path(), &[biases, "missing"]);
}

#[test]
fn a_router_for_fewer_experts_is_refused() {
    let tensor = "model.layers.0.mlp.gate.weight";
    let folder = with_tensors("qwen3-moe-bf16-experts-apart", |tensors| {
        remove_row(tensors, tensor)
    });
    assert_bad_file(folder.path(), &[tensor, "[7, 64]", "[8, 64]"]);
}

#[test]
fn the_error_names_tensors_of_a_recurrent_layer_with_other_sizes() {
    let layer = "language_model.model.layers.0.linear_attn";
    for (part, needles) in [
        ("A_log", &["[3]", "[4]"]),
        ("dt_bias", &["[3]", "[4]"]),
        ("norm.weight", &["[15]", "[16]"]),
        ("conv1d.weight", &["[127, 3, 1]", "[128, 3, 1]"]),
    ] {
        let tensor = format!("{layer}.{part}");
        let folder = with_tensors("qwen3-5-q5-g32", |tensors| remove_row(tensors, &tensor));
        assert_bad_file(folder.path(), &[&[tensor.as_str()], &needles[..]].concat());
    }
    let missing = format!("{layer}.conv1d.weight");
    let folder = with_tensors("qwen3-5-q5-g32", |tensors| {
        tensors.remove(&missing).expect("the tensor exists");
    });
    assert_bad_file(folder.path(), &[&missing, "missing"]);
}
