//! Checks of the values in `config.json`, with the messages that all architectures share.

use std::ops::RangeInclusive;

use transom_engine::{EngineError, UnsupportedFeature};

use crate::config::ModelConfig;

/// Checks fields of `$args` against the ranges that are given for them.
macro_rules! check_ranges {
    ($config:expr, $args:expr, { $($field:ident: $range:expr,)+ }) => {
        $($config.check_range(stringify!($field), $args.$field, $range)?;)+
    };
}

pub(super) use check_ranges;

impl ModelConfig {
    /// Returns the error for a value in `config.json` that makes no sense.
    pub(super) fn bad(&self, reason: impl ToString) -> EngineError {
        EngineError::bad_file(&self.path, reason)
    }

    /// Returns the error for a value in `config.json` that this engine does not support.
    pub(super) fn unsupported(&self, reason: String) -> EngineError {
        EngineError::unsupported(&self.path, UnsupportedFeature::Other, reason)
    }

    /// Returns the error for an architecture that this engine does not support.
    pub(super) fn unsupported_architecture(&self, name: &str, reason: String) -> EngineError {
        let name = name.to_owned();
        let feature = UnsupportedFeature::Architecture { name };
        EngineError::unsupported(&self.path, feature, reason)
    }

    pub(super) fn check_range(
        &self,
        name: &str,
        value: i32,
        range: RangeInclusive<i32>,
    ) -> Result<(), EngineError> {
        if range.contains(&value) {
            return Ok(());
        }
        let (min, max) = range.into_inner();
        let reason = format!("{name} is {value}, but must be between {min} and {max}");
        Err(self.bad(reason))
    }

    pub(super) fn check_above_zero(&self, name: &str, value: f32) -> Result<(), EngineError> {
        if value.is_finite() && value > 0.0 {
            return Ok(());
        }
        Err(self.bad(format!("{name} is {value}, but must be above 0")))
    }

    /// Fails if `epsilon` is not a number of at least 0.
    pub(super) fn check_rms_norm_eps(&self, epsilon: f32) -> Result<(), EngineError> {
        if epsilon.is_finite() && epsilon >= 0.0 {
            return Ok(());
        }
        let reason = format!("rms_norm_eps is {epsilon}, but must be at least 0");
        Err(self.bad(reason))
    }

    /// Fails if heads of `head_dim` features cannot be split in halves, or if `n_heads` cannot
    /// share `n_kv_heads` evenly.
    pub(super) fn check_heads(
        &self,
        head_dim: i32,
        n_heads: i32,
        n_kv_heads: i32,
    ) -> Result<(), EngineError> {
        if !(2..=1 << 12).contains(&head_dim) || head_dim % 2 != 0 {
            let reason = format!("head_dim is {head_dim}, but must be even and between 2 and 4096");
            return Err(self.bad(reason));
        }
        if n_heads % n_kv_heads != 0 {
            let reason = format!(
                "{n_heads} attention heads cannot share {n_kv_heads} key-value heads evenly"
            );
            return Err(self.bad(reason));
        }
        Ok(())
    }

    /// Fails if `layer_types` has another length than the model has layers.
    pub(super) fn check_layer_types(
        &self,
        layer_types: &[String],
        n_layers: i32,
    ) -> Result<(), EngineError> {
        if layer_types.len() == n_layers as usize {
            return Ok(());
        }
        let n_types = layer_types.len();
        let reason = format!("layer_types names {n_types} layers, but there are {n_layers}");
        Err(self.bad(reason))
    }

    /// Fails if `activation`, the value of `name`, is none of `supported`; a missing value is fine.
    pub(super) fn check_activation(
        &self,
        name: &str,
        activation: Option<&str>,
        supported: &[&str],
    ) -> Result<(), EngineError> {
        match activation {
            Some(other) if !supported.contains(&other) => {
                let reason = format!("{name} {other:?} is not supported; {} is", supported[0]);
                Err(self.unsupported(reason))
            }
            _ => Ok(()),
        }
    }
}
