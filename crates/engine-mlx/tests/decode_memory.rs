//! Decoding writes into the buffers of keys and values in place, on the device of this machine: MLX
//! would copy a buffer that the step before still reads, or to which an array still refers.

use std::fs;
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::json;
use tempfile::TempDir;
use transom_engine::{
    GenerationParams, JobControl, Limits, LoadedModel, ModelSource, PreparedPrompt, TokenEvent,
    TokenSink,
};
use transom_engine_mlx::MlxEngine;

const VOCABULARY: usize = 512;
const HIDDEN: usize = 64;
const LAYERS: usize = 3;
/// Elements of a token's keys in one layer; the values have as many.
const KEYS: usize = 8 * 128;
const CONTEXT: usize = 1024;
/// Keys and values of one layer.
const LAYER_BYTES: u64 = (CONTEXT * 2 * KEYS * 4) as u64;

/// Returns a folder with a model whose keys and values are much larger than all other arrays of a
/// step. Numbers do not matter, so all weights are zero.
fn model_folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = json!({
        "model_type": "llama",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e4,
        "tie_word_embeddings": true,
    });
    fs::write(folder.path().join("config.json"), config.to_string()).expect("written");
    let tokenizer = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tokenizer");
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(tokenizer.join(file), folder.path().join(file)).expect("copied");
    }
    let mut shapes = vec![
        ("embed_tokens".to_owned(), vec![VOCABULARY, HIDDEN]),
        ("norm".to_owned(), vec![HIDDEN]),
    ];
    for layer in 0..LAYERS {
        for (name, shape) in [
            ("self_attn.q_proj", vec![KEYS, HIDDEN]),
            ("self_attn.k_proj", vec![KEYS, HIDDEN]),
            ("self_attn.v_proj", vec![KEYS, HIDDEN]),
            ("self_attn.o_proj", vec![HIDDEN, KEYS]),
            ("mlp.gate_proj", vec![HIDDEN, HIDDEN]),
            ("mlp.up_proj", vec![HIDDEN, HIDDEN]),
            ("mlp.down_proj", vec![HIDDEN, HIDDEN]),
            ("input_layernorm", vec![HIDDEN]),
            ("post_attention_layernorm", vec![HIDDEN]),
        ] {
            shapes.push((format!("layers.{layer}.{name}"), shape));
        }
    }
    let zeros = vec![0; KEYS.max(VOCABULARY) * HIDDEN * 4];
    let views = shapes.iter().map(|(name, shape)| {
        let n_bytes = shape.iter().product::<usize>() * 4;
        let view = TensorView::new(Dtype::F32, shape.clone(), &zeros[..n_bytes]);
        let name = format!("model.{name}.weight");
        (name, view.expect("the tensor is valid"))
    });
    let bytes = safetensors::serialize(views, None).expect("the tensors are valid");
    fs::write(folder.path().join("model.safetensors"), bytes).expect("written");
    folder
}

/// Measures the memory from some token on, when prefill has released all that it used.
#[derive(Default)]
struct DecodeMemory {
    n_tokens: usize,
    at_start: u64,
}

impl TokenSink for DecodeMemory {
    fn on_event(&mut self, _: TokenEvent) {}

    fn on_token(&mut self, _: u32) {
        self.n_tokens += 1;
        if self.n_tokens == 4 {
            self.at_start = mlx_rs::memory::active_memory().expect("MLX counts") as u64;
            mlx_rs::memory::reset_peak_memory().expect("MLX counts");
        }
    }
}

#[test]
fn decoding_copies_no_buffer_of_keys_and_values() {
    let folder = model_folder();
    let source = ModelSource {
        path: folder.path().to_owned(),
    };
    let limits = Limits {
        context_length: CONTEXT,
        ..Limits::default()
    };
    let control = JobControl::new();
    let model = MlxEngine::new().load_model(&source, &limits, &control, &mut |_| ());
    let mut model = model.expect("the model loads");
    let prompt = PreparedPrompt {
        tokens: (0..CONTEXT - 100).map(|i| i as u32 % 90 + 5).collect(),
        starts_in_reasoning: None,
        continues_message: false,
        dropped_messages: 0,
        system_tokens: 0,
    };
    let params = GenerationParams {
        max_tokens: Some(60),
        ignore_end_of_text: true,
        ..GenerationParams::default()
    };
    let mut memory = DecodeMemory::default();
    model
        .generate(&prompt, &params, &control, &mut memory)
        .expect("the model generates");
    assert_eq!(memory.n_tokens, 60);
    let kv_cache_bytes = model.memory().kv_cache_bytes;
    assert_eq!(kv_cache_bytes, LAYERS as u64 * LAYER_BYTES);
    assert!(memory.at_start >= kv_cache_bytes);
    let more = model.memory().peak_bytes - memory.at_start;
    // A copy of a layer's keys alone is half of its bytes.
    assert!(more < LAYER_BYTES / 4, "decoding took {more} bytes more");
}
