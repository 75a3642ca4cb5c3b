//! How rotary frequencies are scaled for contexts longer than the original one. Field names are
//! those of `config.json`.

use serde::Deserialize;

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum RopeScaling {
    #[default]
    None,
    /// All positions divided by a factor (Chen et al. 2023).
    Linear { factor: f32 },
    /// Llama 3.1 and later: low frequencies divided by a factor, high ones kept, those between
    /// interpolated (Llama reference implementation, `apply_scaling`).
    Llama3(Llama3Scaling),
    /// YaRN (Peng et al. 2023).
    Yarn(YarnScaling),
    /// One factor per pair (LongRoPE, Ding et al. 2024).
    Long(LongScaling),
    /// Only the fastest `fraction` of the pairs are rotated, all divided by a factor (Gemma 4).
    Proportional { fraction: f32, factor: f32 },
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(crate) struct Llama3Scaling {
    pub(crate) factor: f32,
    pub(crate) low_freq_factor: f32,
    pub(crate) high_freq_factor: f32,
    pub(crate) original_max_position_embeddings: f32,
}

/// Parameters of [`RopeScaling::Yarn`]: pairs with more than `beta_fast` turns in the original
/// context are kept, those with less than `beta_slow` turns are divided by `factor`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(crate) struct YarnScaling {
    pub(crate) factor: f32,
    #[serde(default = "default_original")]
    pub(crate) original_max_position_embeddings: f32,
    #[serde(default = "beta_fast")]
    pub(crate) beta_fast: f32,
    #[serde(default = "one")]
    pub(crate) beta_slow: f32,
    #[serde(default = "one")]
    pub(crate) mscale: f32,
    #[serde(default)]
    pub(crate) mscale_all_dim: f32,
    /// Factor of queries and keys; if missing, computed from `factor`.
    pub(crate) attention_factor: Option<f32>,
    /// Another factor of them (read by llama.cpp and vLLM, not by mlx-lm).
    #[serde(default = "one")]
    pub(crate) attn_factor: f32,
    /// Whether the interpolation begins and ends at whole pairs.
    #[serde(default = "yes")]
    pub(crate) truncate: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LongScaling {
    /// Name of the factors in `config.json`, for messages.
    pub(crate) name: &'static str,
    /// Divisor of each pair's frequency.
    pub(crate) factors: Vec<f32>,
    /// Factor of queries and keys.
    pub(crate) magnitude: f32,
}

fn default_original() -> f32 {
    4096.0
}

fn beta_fast() -> f32 {
    32.0
}

fn one() -> f32 {
    1.0
}

fn yes() -> bool {
    true
}

impl RopeScaling {
    /// Returns the radians per position of each of the `n_rotated / 2` pairs.
    pub(super) fn frequencies(&self, n_rotated: i32, base: f64) -> Vec<f64> {
        let n_pairs = n_rotated / 2;
        (0..n_pairs)
            .map(|pair| {
                let frequency = base.powf(-f64::from(2 * pair) / f64::from(n_rotated));
                match self {
                    Self::None => frequency,
                    Self::Linear { factor } => frequency / f64::from(*factor),
                    Self::Llama3(scaling) => scaling.scaled(frequency),
                    Self::Yarn(scaling) => scaling.scaled(frequency, pair, n_rotated, base),
                    Self::Long(scaling) => {
                        let factor = scaling.factors.get(pair as usize).unwrap_or(&1.0);
                        frequency / f64::from(*factor)
                    }
                    Self::Proportional { fraction, factor } => {
                        let n_turning = (f64::from(n_rotated) * f64::from(*fraction)) as i32;
                        if 2 * pair < n_turning {
                            frequency / f64::from(*factor)
                        } else {
                            0.0
                        }
                    }
                }
            })
            .collect()
    }

    /// Returns the factor of queries and keys.
    pub(super) fn magnitude(&self) -> f64 {
        match self {
            Self::Yarn(scaling) => scaling.magnitude(),
            Self::Long(scaling) => f64::from(scaling.magnitude),
            _ => 1.0,
        }
    }
}

impl Llama3Scaling {
    fn scaled(&self, frequency: f64) -> f64 {
        let factor = f64::from(self.factor);
        let low = f64::from(self.low_freq_factor);
        let high = f64::from(self.high_freq_factor);
        let original = f64::from(self.original_max_position_embeddings);
        // Full turns of the pair in the original context.
        let turns = original * frequency / std::f64::consts::TAU;
        if turns < low {
            frequency / factor
        } else if turns > high {
            frequency
        } else {
            let smooth = (turns - low) / (high - low);
            (1.0 - smooth) * frequency / factor + smooth * frequency
        }
    }
}

impl YarnScaling {
    /// Returns the parameters with the authors' default values.
    #[cfg(test)]
    pub(super) fn new(factor: f32) -> Self {
        let json = serde_json::json!({"factor": factor});
        serde_json::from_value(json).expect("all other values have defaults")
    }

    fn scaled(&self, frequency: f64, pair: i32, n_rotated: i32, base: f64) -> f64 {
        let (low, high) = self.interpolated_pairs(n_rotated, base);
        let stretched = ((f64::from(pair) - low) / (high - low)).clamp(0.0, 1.0);
        (1.0 - stretched) * frequency + stretched * frequency / f64::from(self.factor)
    }

    /// Returns the pairs between which frequencies are interpolated.
    fn interpolated_pairs(&self, n_rotated: i32, base: f64) -> (f64, f64) {
        let n_rotated = f64::from(n_rotated);
        let original = f64::from(self.original_max_position_embeddings);
        // The pair with this many turns in the original context.
        let pair = |turns: f32| {
            let turns = f64::from(turns) * std::f64::consts::TAU;
            n_rotated * (original / turns).ln() / (2.0 * base.ln())
        };
        let (mut low, mut high) = (pair(self.beta_fast), pair(self.beta_slow));
        if self.truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        let (low, mut high) = (low.max(0.0), high.min(n_rotated - 1.0));
        if low >= high {
            // Avoids a division by zero.
            high = low + 0.001;
        }
        (low, high)
    }

    fn magnitude(&self) -> f64 {
        let times = f64::from(self.attn_factor);
        if let Some(factor) = self.attention_factor {
            return times * f64::from(factor);
        }
        let factor = f64::from(self.factor);
        let of = |scale: f32| {
            if factor <= 1.0 {
                1.0
            } else {
                0.1 * f64::from(scale) * factor.ln() + 1.0
            }
        };
        times * of(self.mscale) / of(self.mscale_all_dim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// gpt-oss: heads of 64, base 150000, original context of 4096 tokens. Its reference
    /// implementation interpolates from pair 8.09 to pair 17.40.
    #[test]
    fn without_truncation_the_interpolation_begins_and_ends_between_pairs() {
        let scaling = YarnScaling {
            truncate: false,
            ..YarnScaling::new(32.0)
        };
        let (low, high) = scaling.interpolated_pairs(64, 150_000.0);
        assert!((low - 8.0928).abs() < 1e-3, "{low}");
        assert!((high - 17.3980).abs() < 1e-3, "{high}");
        let truncated = YarnScaling::new(32.0).interpolated_pairs(64, 150_000.0);
        assert_eq!(truncated, (8.0, 18.0));
    }

    #[test]
    fn yarn_keeps_fast_pairs_and_divides_slow_ones() {
        let scaling = RopeScaling::Yarn(YarnScaling::new(32.0));
        let plain = RopeScaling::None.frequencies(64, 150_000.0);
        let scaled = scaling.frequencies(64, 150_000.0);
        assert_eq!(scaled[..9], plain[..9]);
        for pair in 18..32 {
            assert!((scaled[pair] * 32.0 / plain[pair] - 1.0).abs() < 1e-9);
        }
        assert!((scaling.magnitude() - 1.346_573_6).abs() < 1e-6);
        // DeepSeek's distillation cancels the factor.
        let undone = RopeScaling::Yarn(YarnScaling {
            attn_factor: 0.878_248_9,
            ..YarnScaling::new(4.0)
        });
        assert!((undone.magnitude() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn proportional_scaling_rotates_only_a_fraction_of_the_pairs() {
        let scaling = RopeScaling::Proportional {
            fraction: 0.25,
            factor: 1.0,
        };
        let scaled = scaling.frequencies(16, 10_000.0);
        let plain = RopeScaling::None.frequencies(16, 10_000.0);
        assert_eq!(scaled[..2], plain[..2]);
        assert!(scaled[2..].iter().all(|&frequency| frequency == 0.0));
    }
}
