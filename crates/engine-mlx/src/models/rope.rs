//! The rotary embedding that a `config.json` describes, checked. Its entries have moved and changed
//! names over the years; here is the one place that knows all spellings.

use serde::Deserialize;
use serde_json::Value;
use transom_engine::EngineError;

use crate::config::{ModelConfig, bad};
use crate::nn::{Llama3Scaling, LongScaling, RopeForm, RopeScaling, YarnScaling};

/// Where the numbers come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RopeSource<'a> {
    /// The scaling, or newer the whole description: `rope_scaling`, `rope_parameters`.
    pub(crate) entry: Option<&'a Value>,
    /// The base, where it stands beside the entry.
    pub(crate) theta: Option<f32>,
    /// Features of a head.
    pub(crate) head_dim: i32,
    /// The share of them that is turned, where it stands beside the entry.
    pub(crate) share: Option<f32>,
    /// Tokens that the model reads.
    pub(crate) max_positions: i32,
    /// Tokens that it was first trained on, where that stands beside the entry.
    pub(crate) original_max_positions: Option<i32>,
}

impl RopeSource<'_> {
    /// With this base where the configuration names none, in place of 10000.
    pub(crate) fn or_base(self, base: f32) -> Self {
        let theta = self.theta.or(self.number("rope_theta")).or(Some(base));
        Self { theta, ..self }
    }

    /// Reads and checks the description.
    pub(crate) fn form(&self, config: &ModelConfig) -> Result<RopeForm, EngineError> {
        let base = self.theta.or(self.number("rope_theta")).unwrap_or(10_000.0);
        check_above_zero(config, "rope_theta", base)?;
        let share = self.share.or(self.number("partial_rotary_factor"));
        let share = share.unwrap_or(1.0);
        if !(share > 0.0 && share <= 1.0) {
            let reason =
                format!("partial_rotary_factor is {share}, but must be above 0 and at most 1");
            return Err(bad(&config.path, reason));
        }
        let scaling = self.scaling(config, share)?;
        let n_rotated = match scaling {
            RopeScaling::Proportional { .. } => self.head_dim,
            _ => (self.head_dim as f32 * share) as i32,
        };
        if n_rotated < 2 || n_rotated % 2 != 0 {
            let reason = format!(
                "partial_rotary_factor {share} turns {n_rotated} of {} features, but must turn an \
                 even number",
                self.head_dim
            );
            return Err(bad(&config.path, reason));
        }
        if let RopeScaling::Long(LongScaling { name, factors, .. }) = &scaling
            && factors.len() as i32 != n_rotated / 2
        {
            let (found, wanted) = (factors.len(), n_rotated / 2);
            let reason = format!("{name} has {found} numbers, but must have {wanted}");
            return Err(bad(&config.path, reason));
        }
        Ok(RopeForm {
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

    fn scaling(&self, config: &ModelConfig, share: f32) -> Result<RopeScaling, EngineError> {
        let Some(entry) = self.entry.filter(|entry| !entry.is_null()) else {
            return Ok(RopeScaling::None);
        };
        let kind = entry.get("rope_type").or_else(|| entry.get("type"));
        let kind = kind.and_then(Value::as_str).unwrap_or("default");
        let factor = self.number("factor").unwrap_or(1.0);
        check_above_zero(config, "rope_scaling factor", factor)?;
        let wrong = |error| bad(&config.path, format!("rope_scaling: {error}"));
        Ok(match kind {
            // For text, the sections of a multimodal rope all count the same positions.
            "default" | "mrope" => RopeScaling::None,
            "linear" => RopeScaling::Linear { factor },
            "llama3" => RopeScaling::Llama3(Llama3Scaling::deserialize(entry).map_err(wrong)?),
            "yarn" => {
                let scaling = YarnScaling::deserialize(entry).map_err(wrong)?;
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
                    check_above_zero(config, &format!("rope_scaling {name}"), value)?;
                }
                RopeScaling::Yarn(scaling)
            }
            "longrope" | "su" => RopeScaling::Long(self.long(config, entry)?),
            "proportional" => RopeScaling::Proportional { share, factor },
            other => {
                return Err(EngineError::Unsupported {
                    path: config.path.clone(),
                    reason: format!(
                        "rope scaling {other:?} is not supported; default, linear, llama3, yarn, \
                         longrope and proportional are"
                    ),
                });
            }
        })
    }

    /// The short factors if the whole context is no longer than what the model was first trained on,
    /// else the long ones. They cannot change with the length of the text: the keys that were turned
    /// by the others would have to be computed again.
    fn long(&self, config: &ModelConfig, entry: &Value) -> Result<LongScaling, EngineError> {
        let original = self.number("original_max_position_embeddings");
        let original = original.or(self.original_max_positions.map(|tokens| tokens as f32));
        let original = original.unwrap_or(4096.0);
        check_above_zero(config, "original_max_position_embeddings", original - 1.0)?;
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
            return Err(bad(&config.path, reason));
        };
        for factor in &factors {
            check_above_zero(config, &format!("a number of {name}"), *factor)?;
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

fn check_above_zero(config: &ModelConfig, name: &str, value: f32) -> Result<(), EngineError> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    let reason = format!("{name} is {value}, but must be above 0");
    Err(bad(&config.path, reason))
}
