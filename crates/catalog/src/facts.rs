//! What a model is, whatever its files' format: the facts that people and memory estimates need.

use serde::Serialize;

/// Facts of a model that matter to people and to memory estimates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelFacts {
    /// Form of its files.
    pub format: Format,
    /// `llama`, `qwen3`, ….
    pub architecture: String,
    /// Name for people.
    pub name: Option<String>,
    /// Tokens that the model was made to attend to.
    pub context_length: Option<u64>,
    /// Transformer layers.
    pub n_layers: Option<u64>,
    /// Query heads of a layer.
    pub n_heads: Option<u64>,
    /// Key-value heads of each layer, one number a layer.
    pub n_kv_heads: Vec<u64>,
    /// Size of a key's head.
    pub key_length: Option<u64>,
    /// Size of a value's head.
    pub value_length: Option<u64>,
    /// Tokens that layers with a sliding window attend to.
    pub sliding_window: Option<u64>,
    /// Elements of a token between two layers.
    pub hidden_size: Option<u64>,
    /// Elements of a token inside the feed-forward part; of a mixture of experts, all that a token
    /// uses together, if that is more.
    pub feed_forward_length: Option<u64>,
    /// Tokens in the vocabulary.
    pub vocab_size: Option<u64>,
    /// Parameters, counted from the tensors.
    pub n_parameters: u64,
    /// Bytes of all tensors.
    pub weight_bytes: u64,
    /// Bytes by the way in which they are packed, most first.
    pub mix: Vec<Packed>,
    /// Bits of a quantised weight, where the files say it of all of them.
    pub bits: Option<u64>,
    /// The chat template, as Jinja text.
    pub chat_template: Option<String>,
    /// Files that the model is made of.
    pub n_files: usize,
}

/// Tensors packed in one way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Packed {
    /// `Q4_K`, `F32`, ….
    pub kind: String,
    /// How many tensors.
    pub n_tensors: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// Form of a model's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// llama.cpp's.
    Gguf,
    /// A folder with `config.json` and safetensors files, as of Hugging Face and mlx-lm.
    Safetensors,
}

/// How the elements of a KV cache are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KvType {
    /// Two bytes each.
    F16,
    /// 32 in 34 bytes, in blocks along a head.
    Q8_0,
}

impl KvType {
    /// Bytes of a head's row of `length` elements.
    fn row_bytes(self, length: u64) -> Option<u64> {
        match self {
            Self::F16 => length.checked_mul(2),
            Self::Q8_0 => length.div_ceil(32).checked_mul(34),
        }
    }
}

impl ModelFacts {
    /// How most of the weights are packed, in the words that people know: `4-bit`, `Q4_K`, `BF16`.
    pub fn packing(&self) -> String {
        match (self.bits, self.mix.first()) {
            (Some(bits), _) => format!("{bits}-bit"),
            (None, Some(most)) => most.kind.clone(),
            (None, None) => String::new(),
        }
    }

    /// Bytes of the KV cache for `context_length` tokens. `None` where the files do not say enough.
    ///
    /// Layers with a sliding window count in full: engines may keep less of them, so of such a model
    /// this is the most that is needed, as [`Self::may_need_less_than`] says.
    pub fn kv_cache_bytes(&self, context_length: u64, kind: KvType) -> Option<u64> {
        let key_bytes = kind.row_bytes(self.key_length?)?;
        let head_bytes = key_bytes.checked_add(kind.row_bytes(self.value_length?)?)?;
        let n_heads: u64 = match self.n_kv_heads.as_slice() {
            [] => return None,
            heads => heads.iter().try_fold(0u64, |sum, &n| sum.checked_add(n))?,
        };
        n_heads.checked_mul(head_bytes)?.checked_mul(context_length)
    }

    /// Whether [`Self::kv_cache_bytes`] is only the most that a context of this length needs, because
    /// some layers look no further back than their window.
    pub fn may_need_less_than(&self, context_length: u64) -> bool {
        self.sliding_window
            .is_some_and(|window| window < context_length)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn the_packing_is_told_in_words_that_people_know() {
        let starter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/starter");
        let mut facts = crate::inspect(&starter).unwrap();
        assert_eq!(facts.packing(), "4-bit", "and not that of its 32-bit words");
        facts.bits = None;
        assert_eq!(facts.packing(), "U32");
        facts.mix[0].kind = "Q4_K".to_owned();
        assert_eq!(facts.packing(), "Q4_K");
        facts.mix.clear();
        assert_eq!(facts.packing(), "");
    }
}
