//! A model according to its files: only headers are read.

use std::path::Path;

use serde::Serialize;
use transom_catalog::{FileError, Format, KvType, ModelFacts};
use transom_terminal::{Layout, Rows, memory_text, parameters_text};

/// The facts that the files of a model contain.
#[derive(Serialize)]
pub struct ModelFiles {
    #[serde(flatten)]
    facts: ModelFacts,
    /// Weights and KV cache together, by context length, shortest first.
    memory: Vec<MemoryByContext>,
}

/// Bytes that a context length needs, with the weights.
#[derive(Debug, PartialEq, Serialize)]
struct MemoryByContext {
    context_length: u64,
    kv_f16_bytes: u64,
    kv_q8_0_bytes: u64,
}

/// Context lengths that are shown besides the model's own.
const CONTEXT_LENGTHS: [u64; 3] = [4096, 8192, 32_768];

fn memory_by_context(facts: &ModelFacts) -> Vec<MemoryByContext> {
    let own = facts.context_length.unwrap_or(0);
    let shorter = CONTEXT_LENGTHS.into_iter().filter(|&n| n < own);
    let lengths = shorter.chain((own > 0).then_some(own));
    let memory = |context_length| {
        let with = |kind| {
            let cache = facts.kv_cache_bytes(context_length, kind)?;
            cache.checked_add(facts.weight_bytes)
        };
        Some(MemoryByContext {
            context_length,
            kv_f16_bytes: with(KvType::F16)?,
            kv_q8_0_bytes: with(KvType::Q8_0)?,
        })
    };
    lengths.filter_map(memory).collect()
}

impl ModelFiles {
    /// Reads the headers of the file or folder at `path`.
    ///
    /// # Errors
    /// [`FileError`] if they can't be read, or are not those of a model.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let facts = transom_catalog::inspect(path)?;
        Ok(Self {
            memory: memory_by_context(&facts),
            facts,
        })
    }

    /// Returns the facts for people, `with_memory` that the model needs.
    pub fn text(&self, layout: Layout, with_memory: bool) -> String {
        let facts = &self.facts;
        let mut rows = Rows::new(15, layout);
        let name = facts.name.as_deref().unwrap_or("without a name");
        let format = match facts.format {
            Format::Gguf => "GGUF",
            Format::Safetensors => "safetensors",
        };
        let n_files = match facts.n_files {
            1 => String::new(),
            n => format!(" in {n} files"),
        };
        let architecture = &facts.architecture;
        rows.row(
            "model",
            &format!("{name} ({architecture}), {format}{n_files}"),
        );
        let weights = memory_text(facts.weight_bytes);
        let parameters = format!("{} in {weights}", parameters_text(facts.n_parameters));
        rows.row("parameters", &parameters);
        rows.row("quantization", &self.quantization_text());
        rows.row("layers", &self.layers_text());
        let number = |n: Option<u64>| n.map_or("unknown".to_owned(), |n| n.to_string());
        let length = facts.context_length.map(|n| format!("{n} tokens"));
        let window = facts.sliding_window.map(|n| format!("; windows of {n}"));
        let length = length.unwrap_or_else(|| number(None));
        rows.row("context", &(length + &window.unwrap_or_default()));
        rows.row("vocabulary", &number(facts.vocab_size));
        let template = match facts.chat_template {
            Some(_) => "yes",
            None => "none; it only continues text",
        };
        rows.row("chat template", template);
        if with_memory {
            rows.row("memory", &self.memory_text());
        }
        rows.finish()
    }

    fn quantization_text(&self) -> String {
        let parts = self.facts.mix.iter().map(|packed| {
            let (n, kind) = (packed.n_tensors, &packed.kind);
            format!("{} in {n} tensors of {kind}", memory_text(packed.bytes))
        });
        parts.collect::<Vec<_>>().join("\n")
    }

    fn layers_text(&self) -> String {
        let facts = &self.facts;
        let (Some(layers), Some(heads)) = (facts.n_layers, facts.n_heads) else {
            return "unknown".to_owned();
        };
        let min = facts.n_kv_heads.iter().min().copied().unwrap_or(heads);
        let max = facts.n_kv_heads.iter().max().copied().unwrap_or(heads);
        let kv = match min == max {
            true => max.to_string(),
            false => format!("{min} to {max}"),
        };
        let size = facts.key_length.map(|n| format!(" of {n}"));
        let size = size.unwrap_or_default();
        format!("{layers}, each with {heads} heads{size} and {kv} for keys and values")
    }

    fn memory_text(&self) -> String {
        if self.memory.is_empty() {
            return "unknown: the files do not contain the context length".to_owned();
        }
        let lines = self.memory.iter().map(|memory| {
            let is_upper_bound = self.facts.has_window_below(memory.context_length);
            format!(
                "{:>9} with {} tokens of context ({} with a q8_0 cache){}",
                memory_text(memory.kv_f16_bytes),
                memory.context_length,
                memory_text(memory.kv_q8_0_bytes),
                if is_upper_bound { ", at most" } else { "" }
            )
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn starter() -> PathBuf {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/starter"))
    }

    #[test]
    fn the_memory_is_listed_for_usual_contexts_and_the_models_own() {
        let mut facts = transom_catalog::inspect(&starter()).unwrap();
        facts.context_length = Some(8192);
        let memory = memory_by_context(&facts);
        let lengths: Vec<u64> = memory.iter().map(|memory| memory.context_length).collect();
        assert_eq!(lengths, [4096, 8192]);
        // 12 layers, 2 heads of 64 for keys and for values, 2 bytes each.
        let cache = 8192 * 6144;
        assert_eq!(memory[1].kv_f16_bytes, facts.weight_bytes + cache);
        assert_eq!(
            memory[1].kv_q8_0_bytes,
            facts.weight_bytes + cache * 17 / 32
        );
        facts.context_length = None;
        assert_eq!(memory_by_context(&facts), []);
    }

    #[test]
    fn a_model_is_described_for_people_and_for_programs() {
        let files = ModelFiles::read(&starter()).unwrap();
        let text = files.text(Layout::default(), true);
        for line in [
            "model          starter (qwen3), safetensors",
            "parameters     62.1M in 33 MB",
            "layers         12, each with 10 heads of 64 and 2 for keys and values",
            "vocabulary     16384",
            "chat template  yes",
        ] {
            assert!(
                text.lines().any(|other| other == line),
                "{line:?} is not in:\n{text}"
            );
        }
        let json = serde_json::to_value(&files).unwrap();
        assert_eq!(json["architecture"], "qwen3");
        assert_eq!(json["memory"][0]["context_length"], 2048);
    }

    #[test]
    fn a_file_that_is_no_model_is_refused() {
        let read = ModelFiles::read(&starter().join("README.md"));
        let error = read.err().unwrap();
        assert!(error.to_string().contains("not a GGUF file"), "{error}");
    }
}
