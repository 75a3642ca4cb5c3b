//! Checks the ranges of parameters before any work.

use crate::error::EngineError;
use crate::sampling::SamplingParams;

impl SamplingParams {
    /// Checks every parameter. `vocab_size` limits the token ids of `logit_bias`.
    ///
    /// # Errors
    /// [`EngineError::InvalidParameter`], which names the parameter as the command line does. NaN
    /// and infinities are outside every range.
    pub fn validate(&self, vocab_size: usize) -> Result<(), EngineError> {
        let at_least_0 = |value: f32| value.is_finite() && value >= 0.0;
        let penalty = |value: f32| (-2.0..=2.0).contains(&value);
        check("temperature", self.temperature, "at least 0", at_least_0)?;
        check("top-p", self.top_p, "above 0 and at most 1", |value| {
            value > 0.0 && value <= 1.0
        })?;
        check("min-p", self.min_p, "from 0 to 1", |value| {
            (0.0..=1.0).contains(&value)
        })?;
        check(
            "repetition-penalty",
            self.repetition_penalty,
            "from 0.01 to 1000000",
            // Outside it, a penalty can make logits of different tokens infinite, and so equal.
            |value| (0.01..=1e6).contains(&value),
        )?;
        check(
            "presence-penalty",
            self.presence_penalty,
            "from -2 to 2",
            penalty,
        )?;
        check(
            "frequency-penalty",
            self.frequency_penalty,
            "from -2 to 2",
            penalty,
        )?;
        for &(id, bias) in &self.logit_bias {
            check("logit-bias", bias, "finite", f32::is_finite)?;
            if id as usize >= vocab_size {
                let value = format!("for token {id}");
                let expected = "for a token id of the model's vocabulary";
                let name = "logit-bias";
                return Err(EngineError::invalid_parameter(name, value, expected));
            }
        }
        Ok(())
    }

    /// Returns true if the most likely token is always taken, so that no random number is needed.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0 || self.top_k == 1
    }
}

fn check(
    name: &'static str,
    value: f32,
    expected: &'static str,
    is_valid: impl Fn(f32) -> bool,
) -> Result<(), EngineError> {
    if is_valid(value) {
        return Ok(());
    }
    Err(EngineError::invalid_parameter(name, value, expected))
}

#[cfg(test)]
mod tests;
