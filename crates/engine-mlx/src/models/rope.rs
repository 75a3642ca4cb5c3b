//! The rotary embedding that a `config.json` describes, checked. Its entries have moved and changed
//! their names over the years; only this file knows all of their forms.

use serde::Deserialize;
use serde_json::Value;
use transom_engine::EngineError;

use crate::config::ModelConfig;
use crate::nn::{Llama3Scaling, LongScaling, RopeConfig, RopeScaling, YarnScaling};

/// The newer form of `config.json`: a rotary embedding for each type of layer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct RopeParameters {
    pub(super) full_attention: Option<Value>,
    pub(super) sliding_attention: Option<Value>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RopeSource<'a> {
    /// `rope_scaling`, or the newer `rope_parameters`, which may contain all other values.
    pub(super) entry: Option<&'a Value>,
    /// The base, if it is outside the entry.
    pub(super) theta: Option<f32>,
    pub(super) head_dim: i32,
    /// Fraction of the features that is rotated, if it is outside the entry.
    pub(super) partial_rotary_factor: Option<f32>,
    /// Context length of the model.
    pub(super) max_positions: i32,
    /// Context length before it was extended, if it is outside the entry.
    pub(super) original_max_positions: Option<i32>,
}

impl RopeSource<'_> {
    /// Returns the same with `base` as the default, in place of 10000.
    pub(super) fn or_base(self, base: f32) -> Self {
        let theta = self.theta.or(self.number("rope_theta")).or(Some(base));
        Self { theta, ..self }
    }

    pub(super) fn parse(&self, config: &ModelConfig) -> Result<RopeConfig, EngineError> {
        let base = self.theta.or(self.number("rope_theta")).unwrap_or(10_000.0);
        config.check_above_zero("rope_theta", base)?;
        let fraction = self
            .partial_rotary_factor
            .or(self.number("partial_rotary_factor"))
            .unwrap_or(1.0);
        if !(fraction > 0.0 && fraction <= 1.0) {
            return Err(config.bad(format!(
                "partial_rotary_factor is {fraction}, but must be above 0 and at most 1"
            )));
        }
        let scaling = self.scaling(config, fraction)?;
        let n_rotated = match scaling {
            RopeScaling::Proportional { .. } => self.head_dim,
            _ => (self.head_dim as f32 * fraction) as i32,
        };
        if n_rotated < 2 || n_rotated % 2 != 0 {
            return Err(config.bad(format!(
                "partial_rotary_factor {fraction} rotates {n_rotated} of {} features, but must \
                 rotate an even number",
                self.head_dim
            )));
        }
        if let RopeScaling::Long(LongScaling { name, factors, .. }) = &scaling
            && factors.len() as i32 != n_rotated / 2
        {
            let (found, expected) = (factors.len(), n_rotated / 2);
            let reason = format!("{name} has {found} numbers, but must have {expected}");
            return Err(config.bad(reason));
        }
        Ok(RopeConfig {
            head_dim: self.head_dim,
            n_rotated,
            base,
            scaling,
        })
    }

    fn number(&self, name: &str) -> Option<f32> {
        let value = self.entry?.get(name)?.as_f64()?;
        Some(value as f32)
    }

    fn scaling(&self, config: &ModelConfig, fraction: f32) -> Result<RopeScaling, EngineError> {
        let Some(entry) = self.entry.filter(|entry| !entry.is_null()) else {
            return Ok(RopeScaling::None);
        };
        let kind = entry.get("rope_type").or_else(|| entry.get("type"));
        let kind = kind.and_then(Value::as_str).unwrap_or("default");
        let factor = self.number("factor").unwrap_or(1.0);
        config.check_above_zero("rope_scaling factor", factor)?;
        let invalid = |error| config.bad(format!("rope_scaling: {error}"));
        Ok(match kind {
            // For text, all sections of a multimodal RoPE count the same positions.
            "default" | "mrope" => RopeScaling::None,
            "linear" => RopeScaling::Linear { factor },
            "llama3" => RopeScaling::Llama3(Llama3Scaling::deserialize(entry).map_err(invalid)?),
            "yarn" => {
                let scaling = YarnScaling::deserialize(entry).map_err(invalid)?;
                for (name, value) in [
                    ("factor", scaling.factor),
                    (
                        "original_max_position_embeddings",
                        scaling.original_max_position_embeddings,
                    ),
                    ("beta_fast", scaling.beta_fast),
                    ("beta_slow", scaling.beta_slow),
                    ("attention_factor", scaling.attention_factor.unwrap_or(1.0)),
                    ("attn_factor", scaling.attn_factor),
                ] {
                    config.check_above_zero(&format!("rope_scaling {name}"), value)?;
                }
                RopeScaling::Yarn(scaling)
            }
            "longrope" | "su" => RopeScaling::Long(self.long(config, entry)?),
            "proportional" => RopeScaling::Proportional { fraction, factor },
            other => {
                return Err(config.unsupported(format!(
                    "rope scaling {other:?} is not supported; default, linear, llama3, yarn, \
                     longrope and proportional are"
                )));
            }
        })
    }

    /// Selects the short factors if the loaded context is not longer than the original one, else
    /// the long ones. The factors cannot change while text grows, because keys that were rotated
    /// with the others would have to be computed again.
    fn long(&self, config: &ModelConfig, entry: &Value) -> Result<LongScaling, EngineError> {
        let original = self.number("original_max_position_embeddings");
        let original = original.or(self.original_max_positions.map(|tokens| tokens as f32));
        let original = original.unwrap_or(4096.0);
        config.check_above_zero("original_max_position_embeddings", original - 1.0)?;
        let (max_positions, original) = (f64::from(self.max_positions), f64::from(original));
        let context = max_positions.min(config.context_limit as f64);
        let (name, scale) = if context <= original && entry.get("short_factor").is_some() {
            ("short_factor", "short_mscale")
        } else {
            ("long_factor", "long_mscale")
        };
        let factors = entry.get(name).and_then(Value::as_array);
        let factors: Option<Vec<f32>> = factors.and_then(|factors| {
            let number = |factor: &Value| factor.as_f64().map(|factor| factor as f32);
            factors.iter().map(number).collect()
        });
        let Some(factors) = factors else {
            let reason = format!("rope_scaling: {name} must be a list of numbers");
            return Err(config.bad(reason));
        };
        for factor in &factors {
            config.check_above_zero(&format!("a number of {name}"), *factor)?;
        }
        let stretch = max_positions / original;
        let magnitude = match self.number(scale) {
            Some(magnitude) => magnitude,
            None if stretch <= 1.0 => 1.0,
            None => (1.0 + stretch.ln() / original.ln()).sqrt() as f32,
        };
        Ok(LongScaling {
            name,
            factors,
            magnitude,
        })
    }
}
