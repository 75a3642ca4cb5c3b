//! Determines the kind of each layer of a model folder from its `config.json`.
//!
//! The keys and their defaults are those of the published configurations, as transformers and
//! mlx-lm read them.
//!
//! Rule: if the file leaves a doubt, a layer counts as one with full attention.

use serde_json::Value;

use crate::facts::{LayerKind, MAX_LAYERS};

pub(crate) struct Layers {
    pub(crate) window: Option<u64>,
    pub(crate) kinds: Vec<LayerKind>,
    pub(crate) n_kv_heads: Vec<u64>,
    pub(crate) key_length: Option<u64>,
    pub(crate) value_length: Option<u64>,
    /// Elements of a head in layers with a window, if different.
    pub(crate) sliding_head: Option<u64>,
    pub(crate) state_bytes: u64,
}

/// A configuration. Those of multimodal models have a separate part for the language model.
pub(crate) struct Config<'a> {
    whole: &'a Value,
    text: Option<&'a Value>,
}

impl<'a> Config<'a> {
    pub(crate) fn new(whole: &'a Value) -> Self {
        let text = whole.get("text_config").filter(|part| part.is_object());
        Self { whole, text }
    }

    /// Returns the value in the language model's part, else in the whole configuration.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        let own = self.text.and_then(|text| text.get(key));
        own.or_else(|| self.whole.get(key))
            .filter(|value| !value.is_null())
    }

    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        match self.get(key) {
            Some(value) => value.as_u64(),
            None => self.left_out(key),
        }
    }

    /// Returns a value that Gemma's files leave out because it is the reference implementation's default.
    fn left_out(&self, key: &str) -> Option<u64> {
        let defaults: &[(&str, u64)] = match self.family() {
            "gemma3" => &[
                ("head_dim", 256),
                ("hidden_size", 2304),
                ("intermediate_size", 9216),
                ("max_position_embeddings", 131_072),
                ("num_attention_heads", 8),
                ("num_hidden_layers", 26),
                ("num_key_value_heads", 4),
                ("vocab_size", 262_208),
            ],
            "gemma4" => &[
                ("global_head_dim", 512),
                ("head_dim", 256),
                ("hidden_size", 1536),
                ("intermediate_size", 6144),
                ("max_position_embeddings", 131_072),
                ("num_attention_heads", 8),
                ("num_hidden_layers", 35),
                ("num_key_value_heads", 1),
                ("vocab_size", 262_144),
            ],
            _ => &[],
        };
        let found = defaults.iter().find(|(name, _)| *name == key);
        found.map(|(_, number)| *number)
    }

    /// Returns the first number that the file has; different families have different keys.
    fn first<const N: usize>(&self, keys: [&str; N]) -> Option<u64> {
        keys.into_iter().find_map(|key| self.number(key))
    }

    fn number_or(&self, key: &str, default: u64) -> u64 {
        self.number(key).unwrap_or(default)
    }

    /// Returns the `model_type` of the whole, which engines use as the name of the architecture.
    pub(crate) fn model_type(&self) -> &'a str {
        let own = self.whole.get("model_type").and_then(Value::as_str);
        own.unwrap_or("unknown")
    }

    /// Returns the `model_type` without suffixes for the language model's part or for multimodal models.
    fn family(&self) -> &'a str {
        let name = self.model_type();
        let name = name.strip_suffix("_text").unwrap_or(name);
        name.strip_suffix("_unified").unwrap_or(name)
    }

    fn is_false(&self, key: &str) -> bool {
        self.get(key) == Some(&Value::Bool(false))
    }

    pub(crate) fn n_layers(&self) -> u64 {
        self.number_or("num_hidden_layers", 0).min(MAX_LAYERS)
    }

    /// Returns the width of the feed-forward layer; in a mixture of experts, of all experts that a token
    /// uses.
    pub(crate) fn feed_forward_length(&self) -> Option<u64> {
        let mut dense = self.number("intermediate_size");
        // Layers that share keys are twice as wide in Gemma 4.
        let is_gemma4 = self.family() == "gemma4";
        let shares = is_gemma4 && self.number_or("num_kv_shared_layers", 20) > 0;
        if shares && !self.is_false("use_double_wide_mlp") {
            dense = dense.map(|dense| dense.saturating_mul(2));
        }
        let Some((used, _)) = self.experts() else {
            return dense;
        };
        let expert = self.number("moe_intermediate_size").or(dense)?;
        let shared = self.number("shared_expert_intermediate_size");
        let shared = shared
            .or_else(|| Some(self.number("n_shared_experts")?.saturating_mul(expert)))
            .unwrap_or(0);
        let together = expert.saturating_mul(used).saturating_add(shared);
        if is_gemma4 {
            // Each layer has a dense part in addition to the experts.
            return Some(together.saturating_add(dense?));
        }
        // Some of the layers may be dense.
        let has_dense = self.number("moe_intermediate_size").is_some();
        Some(together.max(dense.filter(|_| has_dense).unwrap_or(0)))
    }

    /// Returns how many experts a token uses in a mixture, and how many there are.
    pub(crate) fn experts(&self) -> Option<(u64, u64)> {
        let all = self.first(["num_local_experts", "num_experts", "n_routed_experts"])?;
        let used = self.first(["num_experts_per_tok", "experts_per_token", "top_k_experts"])?;
        (used > 0 && used <= all && all > 1).then_some((used, all))
    }

    pub(crate) fn layers(&self) -> Layers {
        let n_heads = self.number("num_attention_heads");
        let width = self.number("hidden_size").zip(n_heads);
        let head = width.and_then(|(width, n)| width.checked_div(n));
        let head = self.number("head_dim").or(head);
        let kinds = self.kinds();
        let n_kv_heads = self.number("num_key_value_heads").or(n_heads);
        let mut layers = Layers {
            window: self.window(),
            n_kv_heads: n_kv_heads.map_or(Vec::new(), |n| vec![n; kinds.len()]),
            kinds,
            key_length: head,
            value_length: self.number("v_head_dim").or(head),
            sliding_head: None,
            state_bytes: self.state_elements().saturating_mul(4),
        };
        self.differ_by_kind(&mut layers);
        self.compress(&mut layers);
        layers
    }

    /// Sets the heads of Gemma 4: layers with full attention have larger heads, in some models fewer.
    fn differ_by_kind(&self, layers: &mut Layers) {
        let Some(global) = self.number("global_head_dim") else {
            return;
        };
        layers.sliding_head = layers.key_length;
        layers.key_length = Some(global);
        layers.value_length = Some(global);
        let shares_keys = self.get("attention_k_eq_v") == Some(&Value::Bool(true));
        let heads = self.number("num_global_key_value_heads");
        if let Some(heads) = heads.filter(|_| shares_keys) {
            for (kind, n) in layers.kinds.iter().zip(&mut layers.n_kv_heads) {
                if *kind == LayerKind::Full {
                    *n = heads;
                }
            }
        }
    }

    /// Multi-head latent attention stores one compressed row, from which it computes keys and values.
    fn compress(&self, layers: &mut Layers) {
        const LATENT: [&str; 6] = [
            "deepseek_v2",
            "deepseek_v3",
            "deepseek_v32",
            "glm4_moe_lite",
            "kimi_k2",
            "mistral4",
        ];
        let Some(rank) = self.number("kv_lora_rank") else {
            return;
        };
        if LATENT.contains(&self.family()) {
            layers.n_kv_heads.fill(1);
            // llama.cpp describes it in the same way.
            layers.key_length = Some(rank.saturating_add(self.number_or("qk_rope_head_dim", 0)));
            layers.value_length = Some(0);
        }
    }

    /// Returns the window of the layers that have one. Some files state a window and turn it off.
    fn window(&self) -> Option<u64> {
        let default = match self.family() {
            "gpt_oss" => Some(128),
            "gemma3" => Some(4096),
            "gemma4" => Some(512),
            "cohere2" => Some(4096),
            _ => None,
        };
        let window = self.number("sliding_window").or(default);
        // A window of at least the whole context is none.
        let context = self.number_or("max_position_embeddings", u64::MAX);
        window.filter(|&n| n > 0 && n < context && !self.is_false("use_sliding_window"))
    }

    fn kinds(&self) -> Vec<LayerKind> {
        let n_layers = self.n_layers() as usize;
        let mut kinds: Vec<LayerKind> = match self.listed() {
            Some(listed) if !listed.is_empty() => listed,
            _ => (0..n_layers).map(|layer| self.unlisted(layer)).collect(),
        };
        kinds.resize(n_layers, LayerKind::Full);
        let n_shared = self.number_or("num_kv_shared_layers", 0);
        let n_shared = usize::try_from(n_shared).unwrap_or(usize::MAX);
        for kind in kinds.iter_mut().rev().take(n_shared) {
            *kind = LayerKind::Shared;
        }
        if self.window().is_none() {
            for kind in kinds.iter_mut().filter(|kind| **kind == LayerKind::Sliding) {
                *kind = LayerKind::Full;
            }
        }
        kinds
    }

    fn listed(&self) -> Option<Vec<LayerKind>> {
        if let Some(pattern) = self.get("hybrid_override_pattern") {
            let kind = |letter| match letter {
                'M' => LayerKind::Linear,
                '*' => LayerKind::Full,
                _ => LayerKind::Shared,
            };
            return Some(pattern.as_str()?.chars().map(kind).collect());
        }
        let list = self
            .get("layer_types")
            .or_else(|| self.get("layers_block_type"));
        let kind = |name: &Value| match name.as_str().unwrap_or_default() {
            "sliding_attention" | "chunked_attention" => LayerKind::Sliding,
            "linear_attention" | "mamba" | "conv" | "recurrent" => LayerKind::Linear,
            _ => LayerKind::Full,
        };
        Some(list?.as_array()?.iter().map(kind).collect())
    }

    /// Returns the kind of a layer by the rule of its family, for files that list no layers.
    fn unlisted(&self, layer: usize) -> LayerKind {
        let layer = layer as u64;
        // All but every n-th layer, counted from one.
        let all_but_each = |n: u64, kind| match (layer + 1).is_multiple_of(n.max(1)) {
            true => LayerKind::Full,
            false => kind,
        };
        let sliding = |default| {
            let each = self.first(["sliding_window_pattern", "_sliding_window_pattern"]);
            all_but_each(each.unwrap_or(default), LayerKind::Sliding)
        };
        match self.family() {
            "gemma3" => sliding(6),
            "gemma4" => sliding(5),
            "cohere2" | "olmo3" => sliding(4),
            "gemma2" | "gpt_oss" => sliding(2),
            "exaone4" => self.by_letter(layer),
            "mistral" | "mixtral" => LayerKind::Sliding,
            "qwen2" | "qwen3" | "qwen2_moe" | "qwen3_moe" => {
                // These have a window only if it is turned on, and only from a certain layer on.
                let is_on = self.get("use_sliding_window") == Some(&Value::Bool(true));
                match is_on && layer >= self.number_or("max_window_layers", u64::MAX) {
                    true => LayerKind::Sliding,
                    false => LayerKind::Full,
                }
            }
            "qwen3_next" | "qwen3_5" | "qwen3_5_moe" => {
                let each = self.number_or("full_attention_interval", 4);
                all_but_each(each, LayerKind::Linear)
            }
            "lfm2" | "lfm2_moe" => {
                let full = self.get("full_attn_idxs").and_then(Value::as_array);
                match full.is_some_and(|list| list.iter().any(|n| n.as_u64() == Some(layer))) {
                    true => LayerKind::Full,
                    false => LayerKind::Linear,
                }
            }
            _ => LayerKind::Full,
        }
    }

    /// Returns a layer of EXAONE 4, which writes its pattern as letters: `LLLG`.
    fn by_letter(&self, layer: u64) -> LayerKind {
        let pattern = self.get("sliding_window_pattern").and_then(Value::as_str);
        let pattern = pattern.unwrap_or_default().as_bytes();
        let at = layer.checked_rem(pattern.len() as u64);
        match at.map(|at| pattern[at as usize]) {
            Some(b'L') => LayerKind::Sliding,
            _ => LayerKind::Full,
        }
    }

    /// Returns the elements of a linear layer's state, and of the last inputs of its convolution.
    fn state_elements(&self) -> u64 {
        let product = |a: u64, b: u64| a.saturating_mul(b);
        if let Some(heads) = self.number("linear_num_value_heads") {
            // Gated delta net: one matrix per head, of keys by values.
            let key = self.number_or("linear_key_head_dim", 0);
            let value = self.number_or("linear_value_head_dim", 0);
            let keys = product(self.number_or("linear_num_key_heads", 0), key);
            let kept = self
                .number_or("linear_conv_kernel_dim", 4)
                .saturating_sub(1);
            let channels = product(2, keys).saturating_add(product(heads, value));
            return product(product(heads, key), value).saturating_add(product(kept, channels));
        }
        if let Some(heads) = self.first(["mamba_n_heads", "mamba_num_heads"]) {
            let head = self.first(["mamba_d_head", "mamba_head_dim"]);
            let inner = product(heads, head.unwrap_or(0));
            let state = self.first(["mamba_d_state", "ssm_state_size"]);
            let state = state.unwrap_or(0);
            let groups = self.first(["mamba_n_groups", "n_groups"]);
            let kernel = self.first(["mamba_d_conv", "conv_kernel"]);
            let kept = kernel.unwrap_or(4).saturating_sub(1);
            let channels = product(product(2, groups.unwrap_or(1)), state).saturating_add(inner);
            return product(inner, state).saturating_add(product(kept, channels));
        }
        if let Some(kernel) = self.number("conv_L_cache") {
            return product(kernel.saturating_sub(1), self.number_or("hidden_size", 0));
        }
        0
    }
}
