//! Compares the memory need of mixtures of experts and hybrids with the memory that MLX used. The
//! widths are chosen so that temporary arrays dominate. Numbers do not matter, so all weights are
//! zero.

use std::fs;
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};
use tempfile::TempDir;
use transom_engine::{
    Engine, GenerationParams, JobControl, Limits, LoadedModel, ModelSource, PreparedPrompt,
};
use transom_engine_mlx::MlxEngine;

const VOCABULARY: usize = 512;
const HIDDEN: usize = 256;

type Shapes = Vec<(String, Vec<usize>)>;

/// Returns a folder with this configuration and tensors of these shapes.
fn folder(config: &Value, shapes: &Shapes) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("config.json"), config.to_string()).expect("written");
    let tokenizer = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tokenizer");
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(tokenizer.join(file), folder.path().join(file)).expect("copied");
    }
    let size = |shape: &[usize]| shape.iter().product::<usize>() * 4;
    let largest = shapes.iter().map(|(_, shape)| size(shape)).max();
    let zeros = vec![0; largest.expect("there are tensors")];
    let views = shapes.iter().map(|(name, shape)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), &zeros[..size(shape)]);
        (name, view.expect("the tensor is valid"))
    });
    let bytes = safetensors::serialize(views, None).expect("the tensors are valid");
    fs::write(folder.path().join("model.safetensors"), bytes).expect("written");
    folder
}

fn config(own: Value) -> Value {
    let mut config = json!({
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "tie_word_embeddings": true,
    });
    let Value::Object(own) = own else {
        panic!("an object");
    };
    config.as_object_mut().expect("an object").extend(own);
    config
}

/// Returns the shapes of a model whose layers have the tensors that `layer` returns for their
/// number.
fn shapes(layer: impl Fn(usize) -> Vec<(&'static str, Vec<usize>)>) -> Shapes {
    let mut all = vec![
        (
            "model.embed_tokens.weight".to_owned(),
            vec![VOCABULARY, HIDDEN],
        ),
        ("model.norm.weight".to_owned(), vec![HIDDEN]),
    ];
    for number in 0..4 {
        let norms = ["input_layernorm.weight", "post_attention_layernorm.weight"];
        let norms = norms.map(|name| (name, vec![HIDDEN]));
        for (name, shape) in layer(number).into_iter().chain(norms) {
            all.push((format!("model.layers.{number}.{name}"), shape));
        }
    }
    all
}

fn attention(query_rows: usize) -> Vec<(&'static str, Vec<usize>)> {
    vec![
        ("self_attn.q_proj.weight", vec![query_rows, HIDDEN]),
        ("self_attn.k_proj.weight", vec![128, HIDDEN]),
        ("self_attn.v_proj.weight", vec![128, HIDDEN]),
        ("self_attn.o_proj.weight", vec![HIDDEN, 256]),
        ("self_attn.q_norm.weight", vec![64]),
        ("self_attn.k_norm.weight", vec![64]),
    ]
}

fn mixture() -> TempDir {
    let own = json!({
        "model_type": "qwen3_moe",
        "num_experts": 16,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 96,
        "norm_topk_prob": true,
    });
    let experts = || {
        vec![
            ("mlp.gate.weight", vec![16, HIDDEN]),
            ("mlp.switch_mlp.gate_proj.weight", vec![16, 96, HIDDEN]),
            ("mlp.switch_mlp.up_proj.weight", vec![16, 96, HIDDEN]),
            ("mlp.switch_mlp.down_proj.weight", vec![16, HIDDEN, 96]),
        ]
    };
    let shapes = shapes(|_| [attention(256), experts()].concat());
    folder(&config(own), &shapes)
}

fn hybrid() -> TempDir {
    let own = json!({
        "model_type": "qwen3_5",
        "full_attention_interval": 4,
        "linear_num_key_heads": 4,
        "linear_num_value_heads": 8,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
    });
    let recurrent = || {
        vec![
            ("linear_attn.in_proj_qkv.weight", vec![2048, HIDDEN]),
            ("linear_attn.in_proj_z.weight", vec![1024, HIDDEN]),
            ("linear_attn.in_proj_b.weight", vec![8, HIDDEN]),
            ("linear_attn.in_proj_a.weight", vec![8, HIDDEN]),
            ("linear_attn.conv1d.weight", vec![2048, 4, 1]),
            ("linear_attn.A_log", vec![8]),
            ("linear_attn.dt_bias", vec![8]),
            ("linear_attn.norm.weight", vec![128]),
            ("linear_attn.out_proj.weight", vec![HIDDEN, 1024]),
        ]
    };
    let mlp = || {
        vec![
            ("mlp.gate_proj.weight", vec![512, HIDDEN]),
            ("mlp.up_proj.weight", vec![512, HIDDEN]),
            ("mlp.down_proj.weight", vec![HIDDEN, 512]),
        ]
    };
    let shapes = shapes(|number| {
        let mixer = if number == 3 {
            attention(512)
        } else {
            recurrent()
        };
        [mixer, mlp()].concat()
    });
    folder(&config(own), &shapes)
}

/// Fills the context of a model and compares the memory.
fn check(folder: &Path, context_length: usize, prefill_chunk: usize) {
    let engine = MlxEngine::new();
    let source = ModelSource {
        path: folder.to_owned(),
    };
    let limits = Limits {
        context_length,
        prefill_chunk,
        ..Limits::default()
    };
    let case = format!("a context of {context_length}, chunks of {prefill_chunk}");
    let need = engine
        .memory_need(&source, &limits)
        .expect("a valid folder");
    let model = engine.load_model(&source, &limits, &JobControl::new(), &mut |_| ());
    let mut model = model.expect("the model loads");
    let weights = model.memory().weight_bytes;
    assert!(
        need.weight_bytes.abs_diff(weights) <= need.weight_bytes / 50,
        "{case}: weights take {weights}, not {}",
        need.weight_bytes
    );
    let prompt = PreparedPrompt::new((0..context_length - 8).map(|i| i as u32 % 90 + 5).collect());
    let params = GenerationParams {
        ignore_end_of_text: true,
        ..GenerationParams::default()
    };
    let response = model.generate(&prompt, &params, &JobControl::new(), &mut |_| ());
    response.expect("the model generates");
    let memory = model.memory();
    // Without the weights, because these tests are about caches and temporary arrays.
    let used = memory.peak_bytes - weights;
    let need = need.total_bytes() - need.cache_bytes - need.weight_bytes;
    assert!(
        used <= need,
        "{case}: {used} bytes were used, but the need is {need}"
    );
    assert!(
        used >= need / 3,
        "{case}: only {used} bytes of {need} were used"
    );
}

#[test]
fn the_memory_need_of_mixtures_and_hybrids_covers_the_used_memory() {
    mlx_rs::Device::set_default(&mlx_rs::Device::cpu());
    for folder in [mixture(), hybrid()] {
        for (context_length, prefill_chunk) in [(300, 512), (1024, 512), (700, 128)] {
            check(folder.path(), context_length, prefill_chunk);
        }
    }
}
