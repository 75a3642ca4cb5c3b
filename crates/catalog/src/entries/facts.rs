//! What a model is before any of its files is here.
//!
//! Rule: the same numbers as [`inspect`](crate::inspect) finds in the files once they are.

use super::{Entry, Variant};
use crate::facts::{LayerKind, ModelFacts};

impl Entry {
    /// What this variant will be when it is here, for the same sums as of a model that is.
    pub fn facts(&self, variant: &Variant) -> ModelFacts {
        let numbers = &self.architecture;
        let weight_bytes = variant.size_bytes().unwrap_or(0);
        ModelFacts {
            format: variant.format,
            architecture: numbers.model_type.clone(),
            name: Some(self.name.clone()),
            context_length: Some(self.context_length),
            n_layers: Some(numbers.layers),
            n_heads: Some(numbers.heads),
            n_kv_heads: vec![numbers.kv_heads; numbers.layers as usize],
            key_length: Some(numbers.head_dim),
            value_length: Some(numbers.value_dim),
            sliding_window: numbers.sliding_window,
            layers: LayerKind::counted(
                numbers.layers,
                numbers.sliding_layers,
                numbers.linear_layers,
            ),
            sliding_key_length: None,
            sliding_value_length: None,
            linear_state_bytes: numbers.linear_state_bytes,
            hidden_size: Some(numbers.hidden_size),
            feed_forward_length: Some(numbers.intermediate_size),
            vocab_size: Some(numbers.vocabulary),
            n_parameters: numbers.parameters,
            weight_bytes,
            active_weight_bytes: weight_bytes,
            mix: Vec::new(),
            bits: None,
            chat_template: None,
            n_files: variant.files.len().max(1),
        }
    }
}
