//! Reads the facts of a GGUF model from its metadata and tensor table.
//!
//! The keys are those of `docs/gguf.md` in ggml: `general.*`, `tokenizer.*`, and those of the
//! architecture, such as `llama.block_count`.

mod layers;

use std::collections::BTreeMap;

use super::split::GgufModel;
use super::tensor::{TensorInfo, TensorType};
use super::value::Value;
use super::view::Gguf;
use crate::facts::{EmbeddingFacts, Format, MAX_LAYERS, ModelFacts, Pooling, TensorTypeStats};
use crate::file_error::{Fault, FaultCode, FileError};
use crate::fit::llama::has_kv_cache;
use layers::layers;

const ARCHITECTURE: &str = "general.architecture";

impl GgufModel {
    /// Reads the facts.
    ///
    /// # Errors
    /// [`FaultCode::MissingEntry`] without `general.architecture`, which every model must have.
    pub fn facts(&self) -> Result<ModelFacts, FileError> {
        let view = self.first().view()?;
        let facts = base_facts(&view).map_err(|fault| fault.in_file(self.first().path()));
        let mut tally = TensorSums::new(facts?);
        self.for_each_tensor(|tensor| tally.add(tensor))?;
        Ok(tally.finish(self.files().len()))
    }
}

impl Gguf<'_> {
    /// Reads the facts of a model in a single file.
    ///
    /// # Errors
    /// [`FaultCode::MissingEntry`] without `general.architecture`, which every model must have.
    pub fn facts(&self) -> Result<ModelFacts, Fault> {
        let mut tally = TensorSums::new(base_facts(self)?);
        self.tensors().for_each(|tensor| tally.add(&tensor));
        Ok(tally.finish(1))
    }
}

struct TensorSums {
    facts: ModelFacts,
    /// In a mixture of experts: how many experts a token uses, and how many there are.
    experts: Option<(u64, u64)>,
    /// Bytes of experts that a token does not use.
    idle_bytes: u64,
    /// Bytes of the embedding table, of which a token reads one row.
    table_bytes: u64,
    has_head: bool,
    mix: BTreeMap<TensorType, (u64, u64)>,
}

impl TensorSums {
    fn new((facts, experts): (ModelFacts, Option<(u64, u64)>)) -> Self {
        Self {
            facts,
            experts,
            idle_bytes: 0,
            table_bytes: 0,
            has_head: false,
            mix: BTreeMap::new(),
        }
    }

    fn add(&mut self, tensor: &TensorInfo<'_>) {
        self.facts.n_parameters += tensor.n_elements();
        self.facts.weight_bytes += tensor.n_bytes;
        match tensor.name {
            "token_embd.weight" => self.table_bytes += tensor.n_bytes,
            "per_layer_token_embd.weight" => self.idle_bytes += tensor.n_bytes,
            "output.weight" => self.has_head = true,
            name => {
                if let Some((used, all)) = self.experts
                    && name.contains("_exps.")
                {
                    self.idle_bytes += tensor.n_bytes / all * (all - used);
                }
            }
        }
        let packed = self.mix.entry(tensor.kind).or_insert((0, 0));
        packed.0 += 1;
        packed.1 += tensor.n_bytes;
    }

    fn finish(self, n_files: usize) -> ModelFacts {
        let mix = self.mix.into_iter();
        let mut mix: Vec<TensorTypeStats> = mix
            .map(|(kind, (n_tensors, bytes))| TensorTypeStats {
                kind: kind.name().to_owned(),
                n_tensors,
                bytes,
            })
            .collect();
        mix.sort_by_key(|packed| std::cmp::Reverse(packed.bytes));
        // Without an output matrix the embedding table is the output matrix.
        let table_bytes = if self.has_head { self.table_bytes } else { 0 };
        let unread = self.idle_bytes + table_bytes;
        ModelFacts {
            mix,
            n_files,
            active_weight_bytes: self.facts.weight_bytes.saturating_sub(unread),
            ..self.facts
        }
    }
}

/// Returns the facts in the metadata, and the used and total experts of a mixture.
fn base_facts(view: &Gguf<'_>) -> Result<(ModelFacts, Option<(u64, u64)>), Fault> {
    let text = |key: &str| Some(view.get(key)?.as_str()?.to_owned());
    let architecture = text(ARCHITECTURE).ok_or_else(|| {
        let reason = format!("{ARCHITECTURE} is missing, so this is no model");
        Fault::with_value(FaultCode::MissingEntry, ARCHITECTURE, reason)
    })?;
    let number = |key: &str| view.get(&format!("{architecture}.{key}"))?.as_u64();
    let n_layers = number("block_count");
    let n_heads = numbers(view, &architecture, "attention.head_count", n_layers);
    let n_kv_heads = numbers(view, &architecture, "attention.head_count_kv", n_layers);
    let most_heads = n_heads.iter().max().copied();
    let head_dim = number("embedding_length")
        .zip(most_heads)
        .and_then(|(width, n)| width.checked_div(n));
    let most = |key| {
        numbers(view, &architecture, key, n_layers)
            .into_iter()
            .max()
    };
    let n_experts = number("expert_used_count").unwrap_or(1).max(1);
    let expert = most("expert_feed_forward_length");
    let experts = expert.map(|length| length.saturating_mul(n_experts));
    let all_experts = number("expert_count").filter(|&all| all > 1 && n_experts <= all);
    let n_kv_heads = if n_kv_heads.is_empty() {
        n_heads
    } else {
        n_kv_heads
    };
    let layers = layers(view, &architecture, &n_kv_heads);
    // Multi-head latent attention computes its values from what it stores as keys.
    let is_latent = number("attention.key_length_mla").is_some();
    let value_length = number("attention.value_length").or(head_dim);
    let facts = ModelFacts {
        format: Format::Gguf,
        name: text("general.name"),
        context_length: number("context_length"),
        n_layers,
        n_heads: most_heads,
        n_kv_heads,
        key_length: number("attention.key_length").or(head_dim),
        value_length: value_length.map(|n| if is_latent { 0 } else { n }),
        sliding_window: layers.window,
        layers: layers.kinds,
        sliding_key_length: number("attention.key_length_swa"),
        sliding_value_length: number("attention.value_length_swa"),
        linear_state_bytes: layers.state_bytes,
        hidden_size: most("embedding_length"),
        feed_forward_length: most("feed_forward_length").max(experts),
        n_used_experts: all_experts.map_or(0, |_| n_experts),
        vocab_size: vocab_size(view).or_else(|| number("vocab_size")),
        n_parameters: 0,
        weight_bytes: 0,
        active_weight_bytes: 0,
        mix: Vec::new(),
        bits: None,
        chat_template: text("tokenizer.chat_template"),
        embedding: embedding(view, &architecture),
        n_files: 1,
        architecture,
    };
    Ok((facts, all_experts.map(|all| (n_experts, all))))
}

/// Returns how the model embeds, by the numbers of `llama_pooling_type`.
fn embedding(view: &Gguf<'_>, architecture: &str) -> Option<EmbeddingFacts> {
    let value = |key: &str| view.get(&format!("{architecture}.{key}"));
    let pooling = match value("pooling_type")?.as_u64()? {
        1 => Pooling::Mean,
        2 => Pooling::Cls,
        3 => Pooling::Last,
        4 => Pooling::Rank,
        _ => return None,
    };
    let is_causal = value("attention.causal").and_then(|value| value.as_bool());
    Some(EmbeddingFacts {
        pooling,
        is_causal: is_causal.unwrap_or(true) && has_kv_cache(architecture),
        // llama.cpp applies it by itself.
        has_dense: false,
    })
}

/// Returns one number per layer. The file has one for all layers, or an array.
fn numbers(view: &Gguf<'_>, architecture: &str, key: &str, n_layers: Option<u64>) -> Vec<u64> {
    match view.get(&format!("{architecture}.{key}")) {
        None => Vec::new(),
        Some(Value::Array(array)) => array
            .iter()
            .take(MAX_LAYERS as usize)
            .filter_map(|value| value.as_u64())
            .collect(),
        Some(value) => {
            let n_layers = n_layers.unwrap_or(1).min(MAX_LAYERS) as usize;
            value.as_u64().map_or(Vec::new(), |n| vec![n; n_layers])
        }
    }
}

fn vocab_size(view: &Gguf<'_>) -> Option<u64> {
    Some(view.get("tokenizer.ggml.tokens")?.as_array()?.len())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::facts::{KvType, LayerKind, Pooling};
    use crate::gguf::TensorType;
    use crate::test_support::GgufWriter;

    fn facts(change: impl Fn(&mut GgufWriter)) -> Result<ModelFacts, FileError> {
        let mut writer = GgufWriter::new();
        change(&mut writer);
        let kind = |number| TensorType::from_number(number).unwrap();
        writer
            .tensor("token_embd.weight", &[256, 2], kind(12), vec![0; 288])
            .tensor("output_norm.weight", &[256], kind(0), vec![0; 1024]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        writer.write(&mut fs::File::create(&path).unwrap()).unwrap();
        GgufModel::open(&path)?.facts()
    }

    fn qwen(writer: &mut GgufWriter) {
        writer
            .string("general.architecture", "qwen3")
            .string("general.name", "Tiny")
            .u32("qwen3.block_count", 28)
            .u32("qwen3.context_length", 40_960)
            .u32("qwen3.embedding_length", 1024)
            .u32("qwen3.attention.head_count", 16)
            .u32("qwen3.attention.head_count_kv", 8)
            .u32("qwen3.attention.key_length", 128)
            .u32("qwen3.attention.value_length", 128)
            .strings("tokenizer.ggml.tokens", &["a", "b", "c"])
            .string("tokenizer.chat_template", "{{ messages }}");
    }

    #[test]
    fn a_model_is_described_by_its_metadata_and_tensors() {
        let facts = facts(qwen).unwrap();
        assert_eq!(facts.architecture, "qwen3");
        assert_eq!(facts.name.as_deref(), Some("Tiny"));
        assert_eq!((facts.n_layers, facts.n_heads), (Some(28), Some(16)));
        assert_eq!(facts.vocab_size, Some(3));
        assert_eq!((facts.n_parameters, facts.weight_bytes), (768, 1312));
        let mix: Vec<_> = facts.mix.iter().map(|p| (&*p.kind, p.n_tensors)).collect();
        assert_eq!(mix, [("F32", 1), ("Q4_K", 1)]);
        assert_eq!(facts.chat_template.as_deref(), Some("{{ messages }}"));
    }

    /// Qwen3-0.6B stores 28 layers x 8 heads x 128 x 2 numbers per token: 112 KiB in f16.
    #[test]
    fn the_kv_cache_follows_from_heads_and_layers() {
        let facts = facts(qwen).unwrap();
        assert_eq!(facts.kv_cache_bytes(1, KvType::F16), Some(114_688));
        assert_eq!(
            facts.kv_cache_bytes(4096, KvType::Q8_0),
            Some(114_688 * 4096 * 17 / 32)
        );
    }

    #[test]
    fn heads_may_differ_by_layer_and_head_size_may_be_left_out() {
        let facts = facts(|writer| {
            writer
                .string("general.architecture", "odd")
                .u32("odd.block_count", 3)
                .u32("odd.embedding_length", 512)
                .u32("odd.attention.head_count", 8)
                .i32s("odd.attention.head_count_kv", &[4, 0, 2]);
        })
        .unwrap();
        assert_eq!(facts.n_kv_heads, [4, 0, 2]);
        assert_eq!(facts.key_length, Some(64));
        assert_eq!(
            facts.kv_cache_bytes(10, KvType::F16),
            Some(6 * 128 * 10 * 2)
        );
    }

    fn kinds(architecture: &str, change: impl Fn(&mut GgufWriter)) -> Vec<LayerKind> {
        let facts = facts(|writer| {
            writer
                .string("general.architecture", architecture)
                .u32(&format!("{architecture}.block_count"), 6)
                .u32(&format!("{architecture}.attention.sliding_window"), 512);
            change(writer);
        });
        facts.unwrap().layers
    }

    /// As in llama.cpp, some architectures have their own pattern, and most have no window.
    #[test]
    fn the_architecture_decides_which_layers_have_a_window() {
        use LayerKind::{Full, Linear, Shared, Sliding};
        assert_eq!(kinds("llama", |_| ()), [Full; 6]);
        assert_eq!(
            kinds("gemma3", |_| ()),
            [Sliding, Sliding, Sliding, Sliding, Sliding, Full]
        );
        let pattern = |writer: &mut GgufWriter| {
            writer.u32("gemma3.attention.sliding_window_pattern", 3);
        };
        assert_eq!(
            kinds("gemma3", pattern),
            [Sliding, Sliding, Full, Sliding, Sliding, Full]
        );
        assert_eq!(
            kinds("gpt-oss", |_| ()),
            [Sliding, Full, Sliding, Full, Sliding, Full]
        );
        let listed = |writer: &mut GgufWriter| {
            writer
                .i32s(
                    "gemma4.attention.sliding_window_pattern",
                    &[1, 0, 1, 0, 1, 0],
                )
                .u32("gemma4.attention.shared_kv_layers", 2);
        };
        assert_eq!(
            kinds("gemma4", listed),
            [Sliding, Full, Sliding, Full, Shared, Shared]
        );
        let guessing = |writer: &mut GgufWriter| {
            writer
                .u32("qwen35.full_attention_interval", 3)
                .u32("qwen35.nextn_predict_layers", 1);
        };
        assert_eq!(
            kinds("qwen35", guessing),
            [Linear, Linear, Full, Linear, Linear, Shared]
        );
    }

    /// Qwen3-Next-80B-A3B, as llama.cpp counts: 32 matrices of 128 by 128, and the last three
    /// inputs of a convolution over 8192.
    #[test]
    fn a_recurrent_layer_has_a_state_of_fixed_size() {
        let facts = facts(|writer| {
            writer
                .string("general.architecture", "qwen3next")
                .u32("qwen3next.block_count", 48)
                .u32("qwen3next.ssm.conv_kernel", 4)
                .u32("qwen3next.ssm.inner_size", 4096)
                .u32("qwen3next.ssm.state_size", 128)
                .u32("qwen3next.ssm.group_count", 16);
        })
        .unwrap();
        assert_eq!(facts.linear_state_bytes, 4 * (32 * 128 * 128 + 3 * 8192));
        assert_eq!(facts.n_layers_of(LayerKind::Linear), 36);
    }

    #[test]
    fn an_embedding_model_is_known_by_its_pooling() {
        let embedding = |architecture: &str, pooling: Option<u32>, is_causal: Option<bool>| {
            let facts = facts(|writer| {
                writer.string("general.architecture", architecture);
                if let Some(pooling) = pooling {
                    writer.u32(&format!("{architecture}.pooling_type"), pooling);
                }
                if let Some(is_causal) = is_causal {
                    writer.bool(&format!("{architecture}.attention.causal"), is_causal);
                }
            });
            let facts = facts.unwrap();
            let in_steps = facts.embeds_in_steps();
            let embedding = facts.embedding;
            (embedding.map(|one| (one.pooling, one.is_causal)), in_steps)
        };
        assert_eq!(embedding("qwen3", None, None), (None, true));
        assert_eq!(embedding("qwen3", Some(0), None), (None, true));
        let of = |pooling, is_causal| Some((pooling, is_causal));
        let last = of(Pooling::Last, true);
        assert_eq!(embedding("qwen3", Some(3), None), (last, true));
        let both = of(Pooling::Last, false);
        assert_eq!(embedding("qwen2", Some(3), Some(false)), (both, false));
        let cls = of(Pooling::Cls, false);
        assert_eq!(embedding("bert", Some(2), None), (cls, false));
        let mean = of(Pooling::Mean, false);
        assert_eq!(embedding("nomic-bert", Some(1), None), (mean, false));
        assert_eq!(embedding("bert", Some(4), None).0, of(Pooling::Rank, false));
    }

    #[test]
    fn missing_numbers_are_not_invented() {
        let message = facts(|_| ()).unwrap_err().to_string();
        assert!(
            message.contains("general.architecture is missing"),
            "{message}"
        );
        let facts = facts(|writer| {
            writer.string("general.architecture", "x");
        })
        .unwrap();
        assert_eq!(facts.kv_cache_bytes(1, KvType::F16), None);
        assert_eq!((facts.context_length, facts.vocab_size), (None, None));
    }

    #[test]
    fn absurd_numbers_do_not_overflow() {
        let facts = facts(|writer| {
            writer
                .string("general.architecture", "x")
                .u32("x.block_count", u32::MAX)
                .u32("x.embedding_length", u32::MAX)
                .u32("x.attention.head_count", 0)
                .u32("x.attention.head_count_kv", u32::MAX)
                .u32("x.attention.key_length", u32::MAX)
                .u32("x.attention.value_length", u32::MAX);
        })
        .unwrap();
        assert_eq!(facts.kv_cache_bytes(u64::MAX, KvType::F16), None);
    }
}
