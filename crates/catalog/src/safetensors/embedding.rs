//! How a model folder embeds, by the files of Sentence Transformers.
//!
//! `modules.json` lists what follows the transformer, and `1_Pooling/config.json` the kind of pooling.
//! Conversions leave out some of these files or all of them. Such a model is recognized by the name of
//! its folder, and a causal one pools the last token.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::folder_name;
use super::json::read_json;
use crate::facts::{EmbeddingFacts, Pooling, gguf_architecture};
use crate::fit::llama::has_kv_cache;

/// Maximum size of each file; published ones have less than a kilobyte.
const MAX_BYTES: u64 = 64 << 10;

/// An element of `modules.json`.
#[derive(Deserialize)]
struct Module {
    #[serde(rename = "type")]
    kind: String,
}

/// `1_Pooling/config.json`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PoolingConfig {
    pooling_mode_cls_token: bool,
    pooling_mode_mean_tokens: bool,
    pooling_mode_lasttoken: bool,
}

/// Returns how the model in `folder` embeds, with this `config.json`; `None` if it generates text.
/// Files that can't be read count as missing.
pub(super) fn facts(folder: &Path, config: &Value) -> Option<EmbeddingFacts> {
    let modules = read_json::<Vec<Module>>(&folder.join("modules.json"), MAX_BYTES).ok();
    let pooling = folder.join("1_Pooling").join("config.json");
    let pooling = read_json::<PoolingConfig>(&pooling, MAX_BYTES).ok();
    let is_named = || {
        let name = folder_name(folder).unwrap_or_default();
        name.to_ascii_lowercase().contains("embedding")
    };
    if modules.is_none() && pooling.is_none() && !is_named() {
        return None;
    }
    let flag = |key: &str| config.get(key).and_then(Value::as_bool);
    let model_type = config.get("model_type").and_then(Value::as_str);
    let is_causal = has_kv_cache(gguf_architecture(model_type.unwrap_or_default()))
        && flag("use_bidirectional_attention") != Some(true)
        && flag("is_causal") != Some(false);
    let pooling = match pooling.unwrap_or_default() {
        config if config.pooling_mode_lasttoken => Pooling::Last,
        config if config.pooling_mode_mean_tokens => Pooling::Mean,
        config if config.pooling_mode_cls_token => Pooling::Cls,
        _ if is_causal => Pooling::Last,
        _ => Pooling::Mean,
    };
    let modules = modules.unwrap_or_default();
    Some(EmbeddingFacts {
        pooling,
        is_causal,
        has_dense: modules.iter().any(|module| module.kind.ends_with("Dense")),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    /// Returns the facts of a folder `name` with these files.
    fn facts_of(name: &str, files: &[(&str, &str)], config: &Value) -> Option<EmbeddingFacts> {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(name);
        for (file, text) in files {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::create_dir_all(&folder).unwrap();
        facts(&folder, config)
    }

    const LAST: EmbeddingFacts = EmbeddingFacts {
        pooling: Pooling::Last,
        is_causal: true,
        has_dense: false,
    };

    #[test]
    fn the_files_of_sentence_transformers_say_how_a_model_embeds() {
        let qwen = json!({"model_type": "qwen3"});
        assert_eq!(facts_of("qwen3-4b", &[], &qwen), None);
        let last = (
            "1_Pooling/config.json",
            r#"{"pooling_mode_lasttoken": true}"#,
        );
        assert_eq!(facts_of("model", &[last], &qwen), Some(LAST));
        let mean = (
            "1_Pooling/config.json",
            r#"{"pooling_mode_mean_tokens": true}"#,
        );
        let found = facts_of("model", &[mean], &qwen).unwrap();
        assert_eq!((found.pooling, found.is_causal), (Pooling::Mean, true));
    }

    #[test]
    fn a_conversion_without_these_files_is_known_by_its_name() {
        let qwen = json!({"model_type": "qwen3"});
        let found = facts_of("Qwen3-Embedding-0.6B-4bit-DWQ", &[], &qwen);
        assert_eq!(found, Some(LAST));
    }

    #[test]
    fn a_model_that_reads_in_both_directions_is_not_causal() {
        let modules = r#"[{"type": "sentence_transformers.models.Transformer"},
            {"type": "sentence_transformers.models.Dense"}]"#;
        let gemma = json!({"model_type": "gemma3_text", "use_bidirectional_attention": true});
        let found = facts_of("model", &[("modules.json", modules)], &gemma).unwrap();
        let expected = EmbeddingFacts {
            pooling: Pooling::Mean,
            is_causal: false,
            has_dense: true,
        };
        assert_eq!(found, expected);
        let bert = json!({"model_type": "bert"});
        let cls = (
            "1_Pooling/config.json",
            r#"{"pooling_mode_cls_token": true}"#,
        );
        let found = facts_of("bge-small", &[cls], &bert).unwrap();
        assert_eq!((found.pooling, found.is_causal), (Pooling::Cls, false));
    }
}
