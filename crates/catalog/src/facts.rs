//! The facts of a model in any format that people and memory estimates need.

use serde::Serialize;

/// The facts of a model that people and memory estimates need.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelFacts {
    /// Format of the files.
    pub format: Format,
    /// `llama`, `qwen3`, ….
    pub architecture: String,
    /// Display name.
    pub name: Option<String>,
    /// Context length in tokens that the model was trained for.
    pub context_length: Option<u64>,
    /// Number of transformer layers.
    pub n_layers: Option<u64>,
    /// Query heads per layer.
    pub n_heads: Option<u64>,
    /// Key-value heads of each layer.
    pub n_kv_heads: Vec<u64>,
    /// Elements of a key head.
    pub key_length: Option<u64>,
    /// Elements of a value head.
    pub value_length: Option<u64>,
    /// Size of the sliding window in tokens.
    pub sliding_window: Option<u64>,
    /// The kind of each layer. Layers that are not listed attend to all tokens.
    pub layers: Vec<LayerKind>,
    /// Elements of a key head in layers with a sliding window, if different.
    pub sliding_key_length: Option<u64>,
    /// Elements of a value head in layers with a sliding window, if different.
    pub sliding_value_length: Option<u64>,
    /// Bytes of state of a [`LayerKind::Linear`] layer, whatever the length of the conversation, at 4
    /// bytes per element. The state of its convolution is included.
    pub linear_state_bytes: u64,
    /// Elements of a token's hidden state.
    pub hidden_size: Option<u64>,
    /// Width of the feed-forward layer; in a mixture of experts, of all experts that a token uses, if
    /// that is more.
    pub feed_forward_length: Option<u64>,
    /// Experts per layer that a token uses. Each works on its own copy of the token. 0 without experts.
    pub n_used_experts: u64,
    /// Number of tokens in the vocabulary.
    pub vocab_size: Option<u64>,
    /// Number of parameters, counted from the tensors.
    pub n_parameters: u64,
    /// Bytes of all tensors.
    pub weight_bytes: u64,
    /// Bytes of the weights that computing one token reads: in a mixture of experts only those that it
    /// uses. Equal to `weight_bytes` if the files don't say it.
    pub active_weight_bytes: u64,
    /// Bytes by tensor type, the largest first.
    pub mix: Vec<TensorTypeStats>,
    /// Bits per quantized weight, if the files state one number for all.
    pub bits: Option<u64>,
    /// Chat template, as Jinja text.
    pub chat_template: Option<String>,
    /// How the model embeds; `None` if it generates text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding: Option<EmbeddingFacts>,
    /// Number of files.
    pub n_files: usize,
}

/// How an embedding model turns the tokens of a text into one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EmbeddingFacts {
    /// How the vectors of the tokens become one.
    pub pooling: Pooling,
    /// True if a token attends only to those before it, so that a long text can be read in steps. Else
    /// every token attends to all others, and the whole text is one step.
    pub is_causal: bool,
    /// True if a matrix follows the pooling (the module `Dense` of Sentence Transformers).
    pub has_dense: bool,
}

/// How the vectors of the tokens of a text become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// The mean of all.
    Mean,
    /// That of the first token (`[CLS]`).
    Cls,
    /// That of the last token.
    Last,
    /// A score instead of a vector: the model ranks documents for a query.
    Rank,
}

/// What a layer stores of the tokens that it has processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerKind {
    /// Keys and values of all tokens.
    Full,
    /// Keys and values of the last [`ModelFacts::sliding_window`] tokens.
    Sliding,
    /// A state of fixed size ([`ModelFacts::linear_state_bytes`]), as in linear attention and
    /// state-space layers.
    Linear,
    /// Nothing: the layer reads the cache of an earlier layer.
    Shared,
}

impl LayerKind {
    /// Returns layers by their counts, in an arbitrary order, which doesn't matter to the memory need.
    /// Counts beyond `n_layers` are ignored.
    pub fn from_counts(n_layers: u64, n_sliding: u64, n_linear: u64) -> Vec<Self> {
        let n_layers = n_layers.min(MAX_LAYERS);
        let n_sliding = n_sliding.min(n_layers);
        let n_linear = n_linear.min(n_layers - n_sliding);
        let of = |kind, n: u64| std::iter::repeat_n(kind, n as usize);
        of(Self::Sliding, n_sliding)
            .chain(of(Self::Linear, n_linear))
            .chain(of(Self::Full, n_layers - n_sliding - n_linear))
            .collect()
    }
}

/// More layers than any model has. The reader stops at this number.
pub(crate) const MAX_LAYERS: u64 = 4096;

/// Number and size of the tensors of one type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TensorTypeStats {
    /// Type of the tensors: `Q4_K`, `F32`, ….
    pub kind: String,
    /// Number of tensors.
    pub n_tensors: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// Format of a model's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// GGUF, for llama.cpp.
    Gguf,
    /// A folder with `config.json` and safetensors files, as Hugging Face and mlx-lm write it.
    Safetensors,
}

/// Type of the elements of a KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KvType {
    /// Two bytes per element.
    F16,
    /// 34 bytes per 32 elements, in blocks along a head.
    Q8_0,
}

impl KvType {
    fn row_bytes(self, length: u64) -> Option<u64> {
        match self {
            Self::F16 => length.checked_mul(2),
            Self::Q8_0 => length.div_ceil(32).checked_mul(34),
        }
    }
}

impl ModelFacts {
    /// Returns the quantization of most weights, in the usual words: `4-bit`, `Q4_K`, `BF16`.
    pub fn quantization(&self) -> String {
        match (self.bits, self.mix.first()) {
            (Some(bits), _) => format!("{bits}-bit"),
            (None, Some(most)) => most.kind.clone(),
            (None, None) => String::new(),
        }
    }

    /// Returns the share of the weights that a token uses.
    pub(crate) fn active_share(&self) -> f64 {
        self.active_weight_bytes as f64 / self.weight_bytes.max(1) as f64
    }

    /// Returns the bytes of keys, values and states for `context_length` tokens. `None` if the files
    /// don't say enough.
    ///
    /// Layers with a sliding window count with exactly the window. Engines store some more tokens,
    /// which `fit::need` adds.
    pub fn kv_cache_bytes(&self, context_length: u64, kind: KvType) -> Option<u64> {
        let in_window = context_length.min(self.sliding_window.unwrap_or(u64::MAX));
        self.cache_bytes(context_length, in_window, kind)
    }

    /// Returns the bytes of keys, values and states with room for `n_tokens` in layers that attend to
    /// all tokens, and for `n_sliding` in layers with a window. `None` if the files don't say enough.
    pub fn cache_bytes(&self, n_tokens: u64, n_sliding: u64, kind: KvType) -> Option<u64> {
        let row = |length| kind.row_bytes(length);
        self.kept(n_tokens, n_sliding, row)?
            .checked_add(self.state_bytes()?)
    }

    /// Like [`Self::cache_bytes`], without states, and with `row` bytes for the elements of a head.
    pub(crate) fn kept(
        &self,
        n_tokens: u64,
        n_sliding: u64,
        row: impl Fn(u64) -> Option<u64>,
    ) -> Option<u64> {
        let (key, value) = (self.key_length?, self.value_length?);
        let head = |key, value| row(key)?.checked_add(row(value)?);
        let full = self
            .kv_heads(LayerKind::Full)?
            .checked_mul(head(key, value)?)?;
        let key = self.sliding_key_length.unwrap_or(key);
        let value = self.sliding_value_length.unwrap_or(value);
        let sliding = self.kv_heads(LayerKind::Sliding)?;
        let sliding = sliding.checked_mul(head(key, value)?)?;
        full.checked_mul(n_tokens)?
            .checked_add(sliding.checked_mul(n_sliding)?)
    }

    pub(crate) fn kv_heads(&self, of: LayerKind) -> Option<u64> {
        if self.n_kv_heads.is_empty() {
            return None;
        }
        let heads = self.n_kv_heads.iter().enumerate();
        let mut counted = heads.filter(|(layer, _)| self.layer(*layer) == of);
        counted.try_fold(0u64, |sum, (_, &n)| sum.checked_add(n))
    }

    /// Returns the kind of layer number `layer`.
    pub fn layer(&self, layer: usize) -> LayerKind {
        self.layers.get(layer).copied().unwrap_or(LayerKind::Full)
    }

    /// Returns the number of layers of the kind `of`.
    pub fn n_layers_of(&self, of: LayerKind) -> u64 {
        let listed = self.layers.iter().filter(|&&kind| kind == of).count() as u64;
        let unlisted = self.n_layers.unwrap_or(0);
        let unlisted = unlisted.saturating_sub(self.layers.len() as u64);
        match of {
            LayerKind::Full => listed.saturating_add(unlisted),
            _ => listed,
        }
    }

    /// Returns true if embedding reads a text in several steps: nothing depends on later tokens, and
    /// only the last one is in the result.
    pub fn embeds_in_steps(&self) -> bool {
        let embedding = self.embedding.as_ref();
        embedding.is_none_or(|one| one.is_causal && one.pooling == Pooling::Last)
    }

    pub(crate) fn state_bytes(&self) -> Option<u64> {
        let n_linear = self.n_layers_of(LayerKind::Linear);
        self.linear_state_bytes.checked_mul(n_linear)
    }

    /// Returns true if some layers have a window that is shorter than this context.
    pub fn has_window_below(&self, context_length: u64) -> bool {
        let has_sliding = self.n_layers_of(LayerKind::Sliding) > 0;
        let window = self.sliding_window.filter(|_| has_sliding);
        window.is_some_and(|window| window < context_length)
    }
}

/// Returns llama.cpp's name of the architecture that `config.json` calls `model_type`. Other names
/// are the same in both, and llama.cpp's own names stay as they are.
pub(crate) fn gguf_architecture(model_type: &str) -> &str {
    match model_type {
        "bert" | "xlm-roberta" => "bert",
        "cohere" => "command-r",
        "deepseek_v2" | "deepseek_v3" => "deepseek2",
        "gemma3_text" => "gemma3",
        "gemma3n_text" => "gemma3n",
        "gemma4_text" | "gemma4_unified" => "gemma4",
        "glm4_moe" => "glm4moe",
        "gpt_oss" => "gpt-oss",
        "granitemoehybrid" => "granitehybrid",
        "lfm2_moe" => "lfm2moe",
        "ministral3" => "mistral3",
        "mistral" | "mixtral" => "llama",
        "nomic_bert" => "nomic-bert",
        "olmo3" => "olmo2",
        "qwen2_moe" => "qwen2moe",
        "qwen3_5" | "qwen3_5_text" => "qwen35",
        "qwen3_5_moe" | "qwen3_5_moe_text" => "qwen35moe",
        "qwen3_moe" => "qwen3moe",
        "qwen3_next" => "qwen3next",
        same => same,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn the_quantization_has_its_usual_name() {
        let starter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/starter");
        let mut facts = crate::inspect(&starter).unwrap();
        assert_eq!(
            facts.quantization(),
            "4-bit",
            "and not that of its 32-bit words"
        );
        facts.bits = None;
        assert_eq!(facts.quantization(), "U32");
        facts.mix[0].kind = "Q4_K".to_owned();
        assert_eq!(facts.quantization(), "Q4_K");
        facts.mix.clear();
        assert_eq!(facts.quantization(), "");
    }
}
