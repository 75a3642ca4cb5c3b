//! Compares what the catalog says about a model before the download with what its files say after it.
//!
//! Rule: estimates must be equal before and after, so every number of an estimate is compared.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde_json::json;
use transom_catalog::fit;
use transom_catalog::machine::Machine;
use transom_catalog::test_support::convert::{Quantization, convert};
use transom_catalog::{Entry, Format, KvType, ModelFacts, inspect};
use transom_fit::KvCacheChoice;

use super::read;

fn starter() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/starter")
}

/// Returns an entry with these numbers and one variant.
fn entry(numbers: &str, variant: &str) -> Entry {
    let text = format!(
        "[[model]]\nid = \"m\"\nname = \"M\"\n[model.architecture]\n{numbers}\n\
         [[model.variant]]\nrepository = \"o/m\"\n{variant}\n"
    );
    let mut list = read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    list.entries.remove(0)
}

fn facts(numbers: &str, variant: &str) -> ModelFacts {
    let entry = entry(numbers, variant);
    entry.facts(&entry.variants[0])
}

#[track_caller]
fn close(what: &str, before: u64, after: u64) {
    let share = before.abs_diff(after) as f64 / after.max(1) as f64;
    assert!(share < 0.02, "{what}: {before} before, {after} after");
}

/// Compares all facts that estimates use; weights and parameters may differ by 2 %.
#[track_caller]
fn check_agree(before: &ModelFacts, after: &ModelFacts) {
    let shape = |facts: &ModelFacts| {
        (
            (
                facts.format,
                facts.architecture.clone(),
                facts.quantization(),
                facts.bits,
            ),
            (
                facts.n_layers,
                facts.n_heads,
                facts.context_length,
                facts.vocab_size,
            ),
            (
                facts.hidden_size,
                facts.feed_forward_length,
                facts.sliding_window,
            ),
            (facts.n_used_experts, facts.n_files),
        )
    };
    assert_eq!(shape(before), shape(after));
    close("parameters", before.n_parameters, after.n_parameters);
    close("weights", before.weight_bytes, after.weight_bytes);
    close(
        "active weights",
        before.active_weight_bytes,
        after.active_weight_bytes,
    );
    for context in [1, 1000, 2048, 32_768] {
        for kind in [KvType::F16, KvType::Q8_0] {
            let kv = |facts: &ModelFacts| facts.kv_cache_bytes(context, kind).unwrap();
            assert_eq!(kv(before), kv(after), "{context} tokens in {kind:?}");
        }
        for (chip, working_set_bytes) in [
            ("", None),
            ("Apple M1", Some(1 << 28)),
            ("Apple M4 Max", Some(1 << 28)),
        ] {
            for memory_bytes in [1 << 28, 16 << 30] {
                let machine = Machine::new(memory_bytes, working_set_bytes, chip, None);
                let need = |facts| fit::need(facts, &machine, KvCacheChoice::Automatic, context);
                let (before, after) = (need(before), need(after));
                close("need", before.total_bytes(), after.total_bytes());
                assert_eq!(before.kv_cache_bytes, after.kv_cache_bytes);
            }
        }
    }
}

const STARTER: &str = "model_type = \"qwen3\"\nparameters = 62_112_896\nlayers = 12\n\
    hidden_size = 640\nheads = 10\nkv_heads = 2\nhead_dim = 64\nintermediate_size = 1728\n\
    vocabulary = 16384\ncontext_length = 2048";

#[test]
fn the_catalog_agrees_with_the_starters_folder() {
    let bytes = starter()
        .join("model.safetensors")
        .metadata()
        .unwrap()
        .len();
    let with_files = format!(
        "format = \"mlx\"\nquantization = \"4-bit\"\n\
         files = [{{ name = \"model.safetensors\", size_bytes = {bytes} }}]"
    );
    let after = inspect(&starter()).unwrap();
    check_agree(&facts(STARTER, &with_files), &after);
    // Without a size it is computed from the quantization.
    let without = "format = \"mlx\"\nquantization = \"4-bit\"";
    check_agree(&facts(STARTER, without), &after);
}

#[test]
fn the_catalog_agrees_with_the_starters_gguf_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("starter.gguf");
    for (quantization, name) in [(Quantization::Q8_0, "Q8_0"), (Quantization::F16, "F16")] {
        convert(&starter(), &path, quantization).unwrap();
        let bytes = path.metadata().unwrap().len();
        let variant = format!(
            "format = \"gguf\"\nquantization = \"{name}\"\n\
             files = [{{ name = \"starter.gguf\", size_bytes = {bytes} }}]"
        );
        check_agree(&facts(STARTER, &variant), &inspect(&path).unwrap());
    }
}

/// Creates a folder with this configuration and this many parameters in 16 bits. The weight file has
/// only a header.
fn folder(config: &serde_json::Value, n_parameters: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let n_bytes = n_parameters * 2;
    let header =
        json!({"w": {"dtype": "BF16", "shape": [n_parameters], "data_offsets": [0, n_bytes]}});
    let header = header.to_string();
    let path = folder.path().join("model.safetensors");
    let start = (header.len() as u64).to_le_bytes();
    fs::write(&path, [&start, header.as_bytes()].concat()).unwrap();
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(8 + header.len() as u64 + n_bytes).unwrap();
    folder
}

#[track_caller]
fn check_folder(config: &serde_json::Value, n_parameters: u64, numbers: &str) -> ModelFacts {
    let folder = folder(config, n_parameters);
    let after = inspect(folder.path()).unwrap();
    let numbers = format!("parameters = {n_parameters}\n{numbers}");
    let before = facts(&numbers, "format = \"mlx\"\nquantization = \"BF16\"");
    check_agree(&before, &after);
    before
}

#[test]
fn the_catalog_agrees_with_a_model_with_sliding_windows() {
    let config = json!({
        "model_type": "gemma3_text", "hidden_size": 640, "num_hidden_layers": 18,
        "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256,
        "intermediate_size": 2048, "vocab_size": 262_144, "max_position_embeddings": 32_768,
        "sliding_window": 512, "sliding_window_pattern": 6,
    });
    let before = check_folder(
        &config,
        268_000_000,
        "model_type = \"gemma3_text\"\nlayers = 18\nhidden_size = 640\nheads = 4\nkv_heads = 1\n\
         head_dim = 256\nintermediate_size = 2048\nvocabulary = 262_144\ncontext_length = 32_768\n\
         sliding_window = 512\nsliding_layers = 15",
    );
    let kv = |n| before.kv_cache_bytes(n, KvType::F16).unwrap();
    assert_eq!(kv(32_768), (3 * 32_768 + 15 * 512) * 256 * 2 * 2);
}

#[test]
fn the_catalog_agrees_with_a_model_with_linear_layers() {
    let config = json!({
        "model_type": "qwen3_next", "hidden_size": 1024, "num_hidden_layers": 12,
        "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128,
        "intermediate_size": 3072, "vocab_size": 32_000, "max_position_embeddings": 65_536,
        "full_attention_interval": 4, "linear_num_value_heads": 8, "linear_num_key_heads": 4,
        "linear_key_head_dim": 64, "linear_value_head_dim": 64, "linear_conv_kernel_dim": 4,
    });
    // A matrix per head, and three inputs of the convolution over queries, keys and values.
    let state = (8 * 64 * 64 + 3 * (2 * 4 * 64 + 8 * 64)) * 4;
    check_folder(
        &config,
        200_000_000,
        &format!(
            "model_type = \"qwen3_next\"\nlayers = 12\nhidden_size = 1024\nheads = 8\nkv_heads = 2\n\
             head_dim = 128\nintermediate_size = 3072\nvocabulary = 32_000\n\
             context_length = 65_536\nlinear_layers = 9\nlinear_state_bytes = {state}"
        ),
    );
}

#[test]
fn the_catalog_agrees_with_layers_of_different_heads() {
    let config = json!({
        "model_type": "gemma4_text", "hidden_size": 1536, "num_hidden_layers": 35,
        "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256,
        "global_head_dim": 512, "intermediate_size": 6144, "vocab_size": 262_144,
        "max_position_embeddings": 131_072, "sliding_window": 512, "num_kv_shared_layers": 20,
    });
    check_folder(
        &config,
        2_000_000_000,
        "model_type = \"gemma4_text\"\nlayers = 35\nhidden_size = 1536\nheads = 8\nkv_heads = 1\n\
         head_dim = 512\nintermediate_size = 12_288\nvocabulary = 262_144\ncontext_length = 131_072\n\
         sliding_window = 512\nsliding_layers = 28\nsliding_head_dim = 256\nshared_layers = 20",
    );
}

#[test]
fn the_catalog_agrees_with_a_mixture_of_experts() {
    let config = json!({
        "model_type": "qwen3_moe", "hidden_size": 1024, "num_hidden_layers": 12,
        "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128,
        "intermediate_size": 3072, "moe_intermediate_size": 512, "num_experts": 64,
        "num_experts_per_tok": 10, "vocab_size": 32_000, "max_position_embeddings": 65_536,
    });
    // A token reads all of the folder's only tensor.
    let numbers = "model_type = \"qwen3_moe\"\nactive_parameters = 900_000_000\nlayers = 12\n\
        hidden_size = 1024\nheads = 8\nkv_heads = 2\nhead_dim = 128\n\
        intermediate_size = 5120\nvocabulary = 32_000\ncontext_length = 65_536";
    let said = format!("{numbers}\nexperts_per_token = 10");
    check_folder(&config, 900_000_000, &said);
    let variant = "format = \"mlx\"\nquantization = \"BF16\"";
    let unsaid = facts(&format!("parameters = 900_000_000\n{numbers}"), variant);
    assert_eq!(unsaid.n_used_experts, 8, "most have as many");
    assert_eq!(facts(STARTER, variant).n_used_experts, 0);
}

#[test]
fn a_mixture_of_experts_reads_only_what_it_uses() {
    let numbers = "model_type = \"qwen3_moe\"\nparameters = 30_000_000_000\n\
        active_parameters = 3_000_000_000\nlayers = 48\nhidden_size = 2048\nheads = 32\n\
        kv_heads = 4\nhead_dim = 128\nintermediate_size = 6144\nvocabulary = 151_936\n\
        context_length = 40_960";
    let mlx = facts(numbers, "format = \"mlx\"\nquantization = \"4-bit\"");
    close(
        "active weights",
        mlx.active_weight_bytes,
        mlx.weight_bytes / 10,
    );
    assert_eq!(
        (&*mlx.architecture, mlx.format),
        ("qwen3_moe", Format::Safetensors)
    );
    let gguf = facts(numbers, "format = \"gguf\"\nquantization = \"Q4_K_M\"");
    assert_eq!(
        (&*gguf.architecture, gguf.format),
        ("qwen3moe", Format::Gguf)
    );
    assert_eq!(gguf.quantization(), "Q4_K");
}

#[test]
fn image_weights_are_downloaded_but_not_counted_as_loaded() {
    let numbers = format!("{STARTER}\nvision_parameters = 1_000_000");
    let mlx = facts(
        &numbers,
        "format = \"mlx\"\nquantization = \"4-bit\"\nsize_bytes = 37_000_000",
    );
    assert_eq!(mlx.weight_bytes, 35_000_000);
    let gguf = facts(
        &numbers,
        "format = \"gguf\"\nquantization = \"Q4_0\"\nsize_bytes = 37_000_000",
    );
    assert_eq!(gguf.weight_bytes, 37_000_000);
}
