//! Determines the kind of each layer of a GGUF model, as llama.cpp does.
//!
//! llama.cpp knows by the architecture's name what a file leaves out. The names and defaults below
//! are those of its `load_arch_hparams` functions (`src/models/` of the version that this product
//! builds). Architectures that are not listed attend to all tokens, even if the file has a window.

use crate::facts::{LayerKind, MAX_LAYERS};
use crate::gguf::value::Value;
use crate::gguf::view::Gguf;

pub(super) struct Layers {
    pub(super) window: Option<u64>,
    pub(super) kinds: Vec<LayerKind>,
    pub(super) state_bytes: u64,
}

/// Reads the layers of the model in `view`; `n_kv_heads` has the number of each layer.
pub(super) fn layers(view: &Gguf<'_>, architecture: &str, n_kv_heads: &[u64]) -> Layers {
    let file = File { view, architecture };
    let n_layers = file.number("block_count").unwrap_or(0).min(MAX_LAYERS);
    // Blocks at the end for multi-token prediction are loaded, but have no part in the context.
    let n_guessing = file.number("nextn_predict_layers").unwrap_or(0);
    let n_own = n_layers.saturating_sub(n_guessing);
    let mut kinds: Vec<LayerKind> = (0..n_layers)
        .map(|layer| match layer < n_own {
            true => file.kind(layer, n_kv_heads),
            false => LayerKind::Shared,
        })
        .collect();
    let n_keeping = match architecture {
        "gemma3n" => Some(20),
        "gemma4" => {
            let n_shared = file.number("attention.shared_kv_layers").unwrap_or(0);
            Some(n_layers.saturating_sub(n_shared))
        }
        _ => None,
    };
    if let Some(n_keeping) = n_keeping {
        for kind in kinds.iter_mut().skip(n_keeping as usize) {
            *kind = LayerKind::Shared;
        }
    }
    Layers {
        window: file.window(),
        kinds,
        state_bytes: file.state_elements().saturating_mul(4),
    }
}

struct File<'a, 'b> {
    view: &'a Gguf<'b>,
    architecture: &'a str,
}

impl File<'_, '_> {
    fn get(&self, key: &str) -> Option<Value<'_>> {
        self.view.get(&format!("{}.{key}", self.architecture))
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.get(key)?.as_u64()
    }

    fn window(&self) -> Option<u64> {
        let named = self.number("attention.sliding_window");
        let window = match self.architecture {
            "gemma2" => named.or(Some(4096)),
            "llama4" => named.filter(|&n| n == 0).or(Some(8192)),
            // Only the larger EXAONE 4 model has a window.
            "exaone4" if self.number("block_count") != Some(64) => None,
            "exaone4" => named.or(Some(4096)),
            _ => named,
        };
        window.filter(|&n| n > 0)
    }

    fn kind(&self, layer: u64, n_kv_heads: &[u64]) -> LayerKind {
        if self.is_recurrent(layer, n_kv_heads) {
            return LayerKind::Linear;
        }
        match self.window().is_some() && self.slides(layer) {
            true => LayerKind::Sliding,
            false => LayerKind::Full,
        }
    }

    fn slides(&self, layer: u64) -> bool {
        // Every n-th layer attends to all tokens.
        let each = match self.architecture {
            "gemma3" | "gemma-embedding" => 6,
            "gemma3n" => 5,
            "cohere2" | "cohere2moe" | "exaone4" | "llama4" | "olmo2" | "smallthinker" => 4,
            "gemma2" | "gpt-oss" => 2,
            "plamo3" => 8,
            "lfm2" | "lfm2moe" => 0,
            // The files of these architectures list the layers, or they have no window.
            "gemma4" | "step35" | "mimo2" | "granite-swa" | "afmoe" | "exaone-moe" | "laguna" => 1,
            _ => return false,
        };
        let key = "attention.sliding_window_pattern";
        let listed = self.listed(key, layer);
        listed.unwrap_or_else(|| slides(layer, self.number(key).unwrap_or(each)))
    }

    /// Returns the entry of a layer in a list of booleans or numbers; `None` if `key` is no list.
    fn listed(&self, key: &str, layer: u64) -> Option<bool> {
        let entry = self.get(key)?.as_array()?.iter().nth(layer as usize);
        Some(entry.is_some_and(|one| one.as_bool().unwrap_or(one.as_u64() == Some(1))))
    }

    fn is_recurrent(&self, layer: u64, n_kv_heads: &[u64]) -> bool {
        match self.architecture {
            "mamba" | "mamba2" | "rwkv6" | "rwkv6qwen2" | "rwkv7" | "arwkv7" => true,
            "qwen3next" | "qwen35" | "qwen35moe" => {
                let each = self.number("full_attention_interval").unwrap_or(4);
                let listed = self.listed("attention.recurrent_layers", layer);
                listed.unwrap_or(!(layer + 1).is_multiple_of(each.max(1)))
            }
            // A layer without keys and values, with a state or, in Nemotron-H, with neither.
            "granitehybrid" | "jamba" | "plamo2" | "lfm2" | "lfm2moe" | "kimi-linear"
            | "nemotron_h" | "nemotron_h_moe" => n_kv_heads.get(layer as usize) == Some(&0),
            _ => false,
        }
    }

    /// Returns the elements of a recurrent layer's state (llama.cpp's `n_embd_r` and `n_embd_s`).
    fn state_elements(&self) -> u64 {
        let number = |key: &str| self.number(key).unwrap_or(0);
        if let Some(kernel) = self.number("shortconv.l_cache") {
            return number("embedding_length").saturating_mul(kernel.saturating_sub(1));
        }
        if let Some(head) = self.number("wkv.head_size") {
            let width = number("embedding_length");
            return width.saturating_mul(head.saturating_add(2));
        }
        let (inner, state) = (number("ssm.inner_size"), number("ssm.state_size"));
        let groups = number("ssm.group_count").saturating_mul(2);
        let channels = groups.saturating_mul(state).saturating_add(inner);
        let kept = number("ssm.conv_kernel").saturating_sub(1);
        let of_state = inner.saturating_mul(state);
        of_state.saturating_add(kept.saturating_mul(channels))
    }
}

/// Returns true if the layer has a window. With 0 all layers have one, with 1 none has.
fn slides(layer: u64, each: u64) -> bool {
    each == 0 || layer % each < each - 1
}
