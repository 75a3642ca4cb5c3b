//! Tests of model folders: real, made-up and damaged ones.
//!
//! Configurations are as published, shortened to the keys that are read.

use super::*;
use crate::facts::{KvType, LayerKind};

fn starter() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/starter")
}

/// Compares with the numbers on the model's card.
#[test]
fn the_starter_is_described_by_its_files() {
    let facts = facts(&starter()).unwrap();
    assert_eq!(
        (&*facts.architecture, facts.format),
        ("qwen3", Format::Safetensors)
    );
    assert_eq!(facts.name.as_deref(), Some("starter"));
    assert_eq!(facts.n_parameters, 62_112_896);
    assert_eq!((facts.n_layers, facts.vocab_size), (Some(12), Some(16_384)));
    assert_eq!(facts.n_kv_heads, [2; 12]);
    assert_eq!(
        facts.kv_cache_bytes(1, KvType::F16),
        Some(12 * 2 * 64 * 2 * 2)
    );
    assert!(facts.chat_template.is_some());
    let bytes = fs::metadata(starter().join("model.safetensors"))
        .unwrap()
        .len();
    assert!(facts.weight_bytes < bytes && facts.weight_bytes > bytes / 10 * 9);
    assert_eq!(facts.mix[0].kind, "U32");
}

fn folder_with(config: &str, weights: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), config).unwrap();
    fs::write(folder.path().join("model.safetensors"), weights).unwrap();
    folder
}

fn weights(header: &str, n_data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + n_data, 0);
    bytes
}

const ONE: &str = r#"{"a.weight":{"dtype":"F16","shape":[2,3],"data_offsets":[0,12]}}"#;

/// The engine loads no tensors for images or multi-token prediction.
#[test]
fn parts_that_are_not_loaded_are_not_counted() {
    for other in ["vision_tower.a", "model.visual.b", "model.mtp.c", "mtp.d"] {
        let header = format!(
            r#"{{"model.a.weight":{{"dtype":"F16","shape":[2,3],"data_offsets":[0,12]}},
                "{other}":{{"dtype":"F16","shape":[4],"data_offsets":[12,20]}}}}"#
        );
        let folder = folder_with("{}", &weights(&header, 20));
        let facts = facts(folder.path()).unwrap();
        assert_eq!((facts.n_parameters, facts.weight_bytes), (6, 12), "{other}");
        assert_eq!(facts.mix[0].n_tensors, 1);
    }
}

#[test]
fn a_folder_with_few_numbers_is_described_partially() {
    let folder = folder_with("{}", &weights(ONE, 12));
    let facts = facts(folder.path()).unwrap();
    assert_eq!((facts.n_parameters, facts.weight_bytes), (6, 12));
    assert_eq!(facts.architecture, "unknown");
    assert_eq!(facts.kv_cache_bytes(1, KvType::F16), None);
}

#[test]
fn a_window_counts_unless_it_is_turned_off() {
    let facts = |config: &str| {
        let folder = folder_with(config, &weights(ONE, 12));
        facts(folder.path()).unwrap()
    };
    let on = facts(r#"{"model_type": "mistral", "num_hidden_layers": 2, "sliding_window": 512}"#);
    assert_eq!(on.sliding_window, Some(512));
    assert!(on.has_window_below(513) && !on.has_window_below(512));
    let off = facts(r#"{"sliding_window": 512, "use_sliding_window": false}"#);
    assert_eq!(off.sliding_window, None);
    assert!(!off.has_window_below(1 << 20));
}

/// Some folders contain the weights a second time, in the format of another program.
#[test]
fn weights_of_other_programs_are_not_counted() {
    let folder = folder_with("{}", &weights(ONE, 12));
    let copy = folder.path().join("consolidated.safetensors");
    fs::write(copy, weights(ONE, 12)).unwrap();
    let facts = facts(folder.path()).unwrap();
    assert_eq!((facts.n_parameters, facts.n_files), (6, 1));
    let parts = folder.path().join("model-part.safetensors");
    fs::rename(folder.path().join("model.safetensors"), &parts).unwrap();
    fs::write(folder.path().join("model.safetensors"), weights(ONE, 12)).unwrap();
    let index = r#"{"weight_map": {"a.weight": "model-part.safetensors"}}"#;
    fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
    let indexed = super::facts(folder.path()).unwrap();
    assert_eq!((indexed.n_parameters, indexed.n_files), (6, 1));
}

#[test]
fn each_fault_is_reported_with_its_file() {
    let check = |config: &str, weights: &[u8], expected: &str| {
        let folder = folder_with(config, weights);
        let message = facts(folder.path()).unwrap_err().to_string();
        assert!(
            message.contains(expected),
            "{message:?} does not say {expected:?}"
        );
    };
    let good = weights(ONE, 12);
    check("{", &good, "config.json: not JSON");
    check(
        "{}",
        &good[..5],
        "model.safetensors: cut short in its first 8 bytes",
    );
    check("{}", &good[..20], "says that its header has");
    check(
        "{}",
        &good[..good.len() - 1],
        "tensor a.weight ends behind the file",
    );
    check("{}", &weights("{\"a\":3}", 0), "a bad header");
    check(
        "{}",
        &u64::MAX.to_le_bytes(),
        "says that its header has 18446744073709551615",
    );
    let empty = tempfile::tempdir().unwrap();
    let message = facts(empty.path()).unwrap_err().to_string();
    assert!(message.contains("config.json"), "{message}");
    fs::write(empty.path().join("config.json"), "{}").unwrap();
    let message = facts(empty.path()).unwrap_err().to_string();
    assert!(message.contains("no *.safetensors files"), "{message}");
}

/// Returns the number of full, sliding, linear and shared layers of a configuration.
fn counts(config: &str) -> [u64; 4] {
    let folder = folder_with(config, &weights(ONE, 12));
    let facts = facts(folder.path()).unwrap();
    [
        LayerKind::Full,
        LayerKind::Sliding,
        LayerKind::Linear,
        LayerKind::Shared,
    ]
    .map(|kind| facts.n_layers_of(kind))
}

#[test]
fn each_family_has_its_own_rule_for_layers_with_a_window() {
    let cases: [(&str, [u64; 4]); 11] = [
        // Gemma 3 4B, with a separate part for the language model.
        (
            r#"{"model_type": "gemma3", "text_config": {"num_hidden_layers": 34,
                "sliding_window": 1024}}"#,
            [5, 29, 0, 0],
        ),
        // Gemma 3 1B.
        (
            r#"{"model_type": "gemma3_text", "num_hidden_layers": 26, "sliding_window": 512,
                "sliding_window_pattern": 6}"#,
            [4, 22, 0, 0],
        ),
        (
            r#"{"model_type": "gpt_oss", "num_hidden_layers": 24, "sliding_window": 128}"#,
            [12, 12, 0, 0],
        ),
        // A list has priority over every rule.
        (
            r#"{"model_type": "gpt_oss", "num_hidden_layers": 3, "sliding_window": 128,
                "layer_types": ["full_attention", "sliding_attention", "full_attention"]}"#,
            [2, 1, 0, 0],
        ),
        // Mistral 7B v0.1, and v0.3 without a window.
        (
            r#"{"model_type": "mistral", "num_hidden_layers": 32, "sliding_window": 4096}"#,
            [0, 32, 0, 0],
        ),
        (
            r#"{"model_type": "mistral", "num_hidden_layers": 32, "sliding_window": null}"#,
            [32, 0, 0, 0],
        ),
        // Qwen2 states a window and turns it off.
        (
            r#"{"model_type": "qwen2", "num_hidden_layers": 28, "sliding_window": 131072,
                "use_sliding_window": false, "max_window_layers": 21}"#,
            [28, 0, 0, 0],
        ),
        (
            r#"{"model_type": "qwen2", "num_hidden_layers": 28, "sliding_window": 131072,
                "use_sliding_window": true, "max_window_layers": 21}"#,
            [21, 7, 0, 0],
        ),
        (
            r#"{"model_type": "qwen3_next", "num_hidden_layers": 48,
                "full_attention_interval": 4}"#,
            [12, 0, 36, 0],
        ),
        (
            r#"{"model_type": "nemotron_h", "num_hidden_layers": 6,
                "hybrid_override_pattern": "M-M*-M"}"#,
            [1, 0, 3, 2],
        ),
        // Gemma 4: the last layers read the cache of earlier ones.
        (
            r#"{"model_type": "gemma4", "text_config": {"num_hidden_layers": 10,
                "num_kv_shared_layers": 5, "sliding_window": 512}}"#,
            [1, 4, 0, 5],
        ),
    ];
    for (config, expected) in cases {
        assert_eq!(counts(config), expected, "{config}");
    }
}

/// Qwen3-Next-80B-A3B: 32 matrices of 128 by 128, and three inputs of a convolution over 8192.
#[test]
fn a_linear_layer_has_a_state_of_fixed_size() {
    let config = r#"{"model_type": "qwen3_next", "num_hidden_layers": 48, "head_dim": 256,
        "num_key_value_heads": 2, "num_attention_heads": 16, "linear_num_value_heads": 32,
        "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4}"#;
    let folder = folder_with(config, &weights(ONE, 12));
    let facts = facts(folder.path()).unwrap();
    assert_eq!(facts.linear_state_bytes, 4 * (32 * 128 * 128 + 3 * 8192));
    let kept = |n| facts.kv_cache_bytes(n, KvType::F16).unwrap();
    assert_eq!(kept(1001) - kept(1), 1000 * 12 * 2 * 256 * 2 * 2);
    assert_eq!(kept(0), 36 * facts.linear_state_bytes);
}

/// Gemma 3 4B in the authors' own repository leaves out all default values.
#[test]
fn numbers_that_gemma_leaves_out_are_those_of_the_reference() {
    let config = r#"{"model_type": "gemma3", "text_config": {"num_hidden_layers": 34,
        "hidden_size": 2560, "intermediate_size": 10240, "sliding_window": 1024}}"#;
    let folder = folder_with(config, &weights(ONE, 12));
    let facts = facts(folder.path()).unwrap();
    assert_eq!(facts.n_heads, Some(8));
    assert_eq!(facts.context_length, Some(131_072));
    let kept = |n| facts.kv_cache_bytes(n, KvType::F16).unwrap();
    assert_eq!(kept(1), 34 * 2 * 2 * 4 * 256);
    assert_eq!(kept(4096) - kept(1024), 3072 * 5 * 2 * 2 * 4 * 256);
}

/// Gemma 4 31B has 16 heads of 256 in layers with a window, and 4 of 512 in the others.
#[test]
fn heads_may_differ_between_layers_with_a_window_and_others() {
    let config = r#"{"model_type": "gemma4", "text_config": {"num_hidden_layers": 5,
        "head_dim": 256, "global_head_dim": 512, "num_key_value_heads": 16,
        "num_global_key_value_heads": 4, "attention_k_eq_v": true, "sliding_window": 1024}}"#;
    let folder = folder_with(config, &weights(ONE, 12));
    let facts = facts(folder.path()).unwrap();
    let kept = |n| facts.kv_cache_bytes(n, KvType::F16).unwrap();
    assert_eq!(kept(1), 2 * 2 * (4 * 16 * 256 + 4 * 512));
    assert_eq!(kept(4096) - kept(1024), 3072 * 2 * 2 * 4 * 512);
}

#[test]
fn a_token_reads_only_its_experts_and_no_embedding_table() {
    let tensor = |name: &str, at: usize| {
        format!(
            r#""{name}":{{"dtype":"F16","shape":[8],"data_offsets":[{at},{}]}}"#,
            at + 16
        )
    };
    let names = [
        "model.embed_tokens.weight",
        "model.layers.0.mlp.switch_mlp.up_proj.weight",
        "model.norm.weight",
    ];
    let header = |names: &[&str]| {
        let tensors: Vec<String> = names
            .iter()
            .enumerate()
            .map(|(i, n)| tensor(n, 16 * i))
            .collect();
        weights(&format!("{{{}}}", tensors.join(",")), 16 * names.len())
    };
    let config = r#"{"num_experts": 8, "num_experts_per_tok": 2}"#;
    let read = |names: &[&str]| {
        let folder = folder_with(config, &header(names));
        facts(folder.path()).unwrap().active_weight_bytes
    };
    assert_eq!(read(&names), 16 + 4 + 16, "the table is also the output");
    let mut untied = names.to_vec();
    untied.push("lm_head.weight");
    assert_eq!(read(&untied), 4 + 16 + 16);
}

/// Compares with what mlx-lm allocates for the caches of tiny models of each family, with these
/// configurations and numbers of tokens.
#[test]
fn computed_cache_sizes_equal_those_of_mlx_lm() {
    let goldens = include_str!("../../tests/fixtures/kv_cache_goldens.json");
    let goldens: Value = serde_json::from_str(goldens).unwrap();
    let mut n_compared = 0;
    for case in goldens["cases"].as_array().unwrap() {
        let config = &case["config"];
        let folder = folder_with(&config.to_string(), &weights(ONE, 12));
        let facts = facts(folder.path()).unwrap();
        let element_bytes = case["element_bytes"].as_u64().unwrap();
        for held in case["held"].as_array().unwrap() {
            let n_tokens = held[0].as_u64().unwrap();
            let bytes = held[1].as_array().unwrap().iter();
            let bytes: Vec<u64> = bytes.map(|n| n.as_u64().unwrap()).collect();
            // mlx-lm grows in steps of 256. With a window, prefilled tokens are kept as they are, and
            // the first of the four tokens after them adds a step, up to the window.
            let stepped = n_tokens.next_multiple_of(256);
            let window = facts.sliding_window.unwrap_or(u64::MAX);
            let in_window = (n_tokens - 4 + 256).min(window);
            let kept = facts.kept(stepped, in_window, |length| Some(length * element_bytes));
            let n_linear = facts.n_layers_of(LayerKind::Linear) as usize;
            let is_linear = |layer: usize| facts.layer(layer) == LayerKind::Linear;
            let (mut states, mut rows) = (Vec::new(), 0);
            for (layer, &n) in bytes.iter().enumerate() {
                match is_linear(layer) {
                    true => states.push(n),
                    false => rows += n,
                }
            }
            assert_eq!(Some(rows), kept, "{config} with {n_tokens} tokens");
            assert_eq!(states.len(), n_linear, "{config}");
            for state in states {
                // Computed with 4 bytes per element; mlx-lm may keep some in 2.
                let most = facts.linear_state_bytes;
                assert!(
                    state <= most && most <= 2 * state,
                    "{config}: {state} {most}"
                );
                assert!(
                    element_bytes == 2 || state == most,
                    "{config}: {state} {most}"
                );
            }
            n_compared += 1;
        }
    }
    assert!(n_compared > 60, "{n_compared}");
}
