//! How rotary frequencies are stretched to reach contexts beyond those trained on. Pure numbers; the
//! names are those of `config.json`.

use serde::Deserialize;

/// The ways of stretching.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RopeScaling {
    /// As trained.
    None,
    /// All positions divided by a factor (Chen et al. 2023).
    Linear { factor: f32 },
    /// Llama 3.1 and later: low frequencies divided by a factor, high ones kept, a smooth passage
    /// between (Llama reference implementation, `apply_scaling`).
    Llama3(Llama3Scaling),
    /// YaRN (Peng et al. 2023).
    Yarn(YarnScaling),
    /// A factor a pair (LongRoPE, Ding et al. 2024).
    Long(LongScaling),
    /// Only the fastest `share` of the pairs turn, all divided by a factor (Gemma 4).
    Proportional { share: f32, factor: f32 },
}

/// Parameters of [`RopeScaling::Llama3`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(crate) struct Llama3Scaling {
    pub(crate) factor: f32,
    pub(crate) low_freq_factor: f32,
    pub(crate) high_freq_factor: f32,
    pub(crate) original_max_position_embeddings: f32,
}

/// Parameters of [`RopeScaling::Yarn`]: pairs that turn more than `beta_fast` times over the trained
/// context are kept, those that turn less than `beta_slow` times are divided by `factor`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(crate) struct YarnScaling {
    pub(crate) factor: f32,
    #[serde(default = "trained_by_default")]
    pub(crate) original_max_position_embeddings: f32,
    #[serde(default = "beta_fast")]
    pub(crate) beta_fast: f32,
    #[serde(default = "one")]
    pub(crate) beta_slow: f32,
    #[serde(default = "one")]
    pub(crate) mscale: f32,
    #[serde(default)]
    pub(crate) mscale_all_dim: f32,
    /// What queries and keys are multiplied by, where it does not follow from the factor.
    pub(crate) attention_factor: Option<f32>,
    /// What that is multiplied by (as llama.cpp and vLLM read it; mlx-lm does not know it).
    #[serde(default = "one")]
    pub(crate) attn_factor: f32,
    /// Whether the passage begins and ends at whole pairs.
    #[serde(default = "yes")]
    pub(crate) truncate: bool,
}

/// Parameters of [`RopeScaling::Long`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LongScaling {
    /// Which factors these are, for messages.
    pub(crate) name: &'static str,
    /// What each pair's frequency is divided by.
    pub(crate) factors: Vec<f32>,
    /// What queries and keys are multiplied by.
    pub(crate) magnitude: f32,
}

fn trained_by_default() -> f32 {
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
    /// Radians a position for each of the `n_rotated / 2` pairs.
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
                    Self::Proportional { share, factor } => {
                        let turning = (f64::from(n_rotated) * f64::from(*share)) as i32;
                        if 2 * pair < turning {
                            frequency / f64::from(*factor)
                        } else {
                            0.0
                        }
                    }
                }
            })
            .collect()
    }

    /// What queries and keys are multiplied by.
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
        let trained = f64::from(self.original_max_position_embeddings);
        // Full turns that the pair makes over the trained context.
        let turns = trained * frequency / std::f64::consts::TAU;
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
    /// With the authors' other values.
    #[cfg(test)]
    pub(super) fn new(factor: f32) -> Self {
        Self {
            factor,
            original_max_position_embeddings: trained_by_default(),
            beta_fast: beta_fast(),
            beta_slow: 1.0,
            mscale: 1.0,
            mscale_all_dim: 0.0,
            attention_factor: None,
            attn_factor: 1.0,
            truncate: true,
        }
    }

    fn scaled(&self, frequency: f64, pair: i32, n_rotated: i32, base: f64) -> f64 {
        let (low, high) = self.passage(n_rotated, base);
        let stretched = ((f64::from(pair) - low) / (high - low)).clamp(0.0, 1.0);
        (1.0 - stretched) * frequency + stretched * frequency / f64::from(self.factor)
    }

    /// The pairs between which the passage lies.
    fn passage(&self, n_rotated: i32, base: f64) -> (f64, f64) {
        let n_rotated = f64::from(n_rotated);
        let trained = f64::from(self.original_max_position_embeddings);
        // The pair that turns so many times over the trained context.
        let pair = |turns: f32| {
            let turns = f64::from(turns) * std::f64::consts::TAU;
            n_rotated * (trained / turns).ln() / (2.0 * base.ln())
        };
        let (mut low, mut high) = (pair(self.beta_fast), pair(self.beta_slow));
        if self.truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        let (low, mut high) = (low.max(0.0), high.min(n_rotated - 1.0));
        if low >= high {
            // All at once rather than divided by nothing.
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

    /// gpt-oss: heads of 64, base 150000, 4096 trained tokens; its reference computes the passage
    /// from pair 8.09 to pair 17.40.
    #[test]
    fn a_passage_that_is_not_truncated_begins_and_ends_between_pairs() {
        let scaling = YarnScaling {
            truncate: false,
            ..YarnScaling::new(32.0)
        };
        let (low, high) = scaling.passage(64, 150_000.0);
        assert!((low - 8.0928).abs() < 1e-3, "{low}");
        assert!((high - 17.3980).abs() < 1e-3, "{high}");
        let truncated = YarnScaling::new(32.0).passage(64, 150_000.0);
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
        // DeepSeek's distillation takes the factor back.
        let undone = RopeScaling::Yarn(YarnScaling {
            attn_factor: 0.878_248_9,
            ..YarnScaling::new(4.0)
        });
        assert!((undone.magnitude() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_share_of_the_pairs_turns_and_the_rest_stand() {
        let scaling = RopeScaling::Proportional {
            share: 0.25,
            factor: 1.0,
        };
        let scaled = scaling.frequencies(16, 10_000.0);
        let plain = RopeScaling::None.frequencies(16, 10_000.0);
        assert_eq!(scaled[..2], plain[..2]);
        assert!(scaled[2..].iter().all(|&frequency| frequency == 0.0));
    }
}
