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
    /// What each layer keeps, one a layer; layers that are not listed attend to all tokens.
    pub layers: Vec<LayerKind>,
    /// Size of a key's head in layers with a sliding window, where it is another.
    pub sliding_key_length: Option<u64>,
    /// Size of a value's head in layers with a sliding window, where it is another.
    pub sliding_value_length: Option<u64>,
    /// Bytes that a [`LayerKind::Linear`] layer keeps of a conversation however long it is, at 4
    /// bytes an element, the state of its convolution included.
    pub linear_state_bytes: u64,
    /// Elements of a token between two layers.
    pub hidden_size: Option<u64>,
    /// Elements of a token inside the feed-forward part; of a mixture of experts, all that a token
    /// uses together, if that is more.
    pub feed_forward_length: Option<u64>,
    /// Experts that a token passes through in a layer, each of which works on a copy of it; 0 without
    /// experts.
    pub n_used_experts: u64,
    /// Tokens in the vocabulary.
    pub vocab_size: Option<u64>,
    /// Parameters, counted from the tensors.
    pub n_parameters: u64,
    /// Bytes of all tensors.
    pub weight_bytes: u64,
    /// Bytes of the weights that computing one token reads: of a mixture of experts only those that
    /// it uses. As `weight_bytes` where the files do not tell.
    pub active_weight_bytes: u64,
    /// Bytes by the way in which they are packed, most first.
    pub mix: Vec<TensorTypeStats>,
    /// Bits of a quantized weight, where the files say it of all of them.
    pub bits: Option<u64>,
    /// The chat template, as Jinja text.
    pub chat_template: Option<String>,
    /// Files that the model is made of.
    pub n_files: usize,
}

/// What a layer keeps of the tokens that it has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerKind {
    /// Keys and values of all.
    Full,
    /// Those of the last ones, as many as [`ModelFacts::sliding_window`].
    Sliding,
    /// A state of fixed size ([`ModelFacts::linear_state_bytes`]), as linear attention and
    /// state-space layers do.
    Linear,
    /// Nothing: it reads what an earlier layer keeps.
    Shared,
}

impl LayerKind {
    /// The layers of a model of which only the counts are known; their order is made up, and does
    /// not matter to what they need. Counts beyond `n_layers` are left out.
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

/// No model has more layers; a file that says so is not followed.
pub(crate) const MAX_LAYERS: u64 = 4096;

/// Tensors packed in one way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TensorTypeStats {
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

    /// Bytes of keys, values and states for `context_length` tokens. `None` where the files do not
    /// say enough.
    ///
    /// Layers with a sliding window count with it and no more. Engines keep some steps beyond it,
    /// which `fit::need` adds.
    pub fn kv_cache_bytes(&self, context_length: u64, kind: KvType) -> Option<u64> {
        let in_window = context_length.min(self.sliding_window.unwrap_or(u64::MAX));
        self.cache_bytes(context_length, in_window, kind)
    }

    /// Bytes of keys, values and states where layers that attend to all have room for `n_tokens`,
    /// and layers with a window for `n_sliding`. `None` where the files do not say enough.
    pub fn cache_bytes(&self, n_tokens: u64, n_sliding: u64, kind: KvType) -> Option<u64> {
        let row = |length| kind.row_bytes(length);
        self.kept(n_tokens, n_sliding, row)?
            .checked_add(self.state_bytes()?)
    }

    /// As [`Self::cache_bytes`], without states, and with `row` bytes for elements of a head.
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

    /// Key-value heads of all layers of the kind `of` together. `None` where the files do not say.
    pub(crate) fn kv_heads(&self, of: LayerKind) -> Option<u64> {
        if self.n_kv_heads.is_empty() {
            return None;
        }
        let heads = self.n_kv_heads.iter().enumerate();
        let mut counted = heads.filter(|(layer, _)| self.layer(*layer) == of);
        counted.try_fold(0u64, |sum, (_, &n)| sum.checked_add(n))
    }

    /// What layer number `layer` keeps.
    pub fn layer(&self, layer: usize) -> LayerKind {
        self.layers.get(layer).copied().unwrap_or(LayerKind::Full)
    }

    /// How many layers are of the kind `of`.
    pub fn n_layers_of(&self, of: LayerKind) -> u64 {
        let listed = self.layers.iter().filter(|&&kind| kind == of).count() as u64;
        let unlisted = self.n_layers.unwrap_or(0);
        let unlisted = unlisted.saturating_sub(self.layers.len() as u64);
        match of {
            LayerKind::Full => listed.saturating_add(unlisted),
            _ => listed,
        }
    }

    /// Bytes of the states of all linear layers.
    pub(crate) fn state_bytes(&self) -> Option<u64> {
        let n_linear = self.n_layers_of(LayerKind::Linear);
        self.linear_state_bytes.checked_mul(n_linear)
    }

    /// Whether at this length some layers look no further back than their window.
    pub fn has_window_below(&self, context_length: u64) -> bool {
        let has_sliding = self.n_layers_of(LayerKind::Sliding) > 0;
        let window = self.sliding_window.filter(|_| has_sliding);
        window.is_some_and(|window| window < context_length)
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
