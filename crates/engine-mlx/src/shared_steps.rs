//! Whether the responses of a model share steps: if one step for all of them is faster than one for each.
//!
//! That depends on more than the device. The weights are read once for all tokens of a step, but some
//! kernels for a few rows read them once per row, on a CPU a product takes longer with each row, and the
//! tokens of a mixture of experts need different experts. So it is measured, once for each number of
//! responses, when that many could share a step for the first time.

use std::time::{Duration, Instant};

use mlx_rs::Array;
use mlx_rs::transforms::eval;

use crate::error::MlxResult;
use crate::nn::{Positions, Transformer};
use crate::ops::synchronize;

/// By how much a shared step must be faster, because a measurement is not exact and the tokens of a
/// shared step are read one after another.
const MIN_GAIN: f64 = 1.1;

/// A measurement, which delays the responses once, ends after this time or [`MAX_ROUNDS`] rounds, but not
/// after the first round, in which a device may compile kernels.
const ENOUGH: Duration = Duration::from_millis(100);
const MAX_ROUNDS: usize = 3;

/// When responses of a model that are generated at the same time share their steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SharedSteps {
    /// If it is measured to be faster.
    #[default]
    IfFaster,
    /// Always, for tests and benchmarks.
    Always,
    /// Never, for tests and benchmarks.
    Never,
}

/// What is known about the steps of a model.
#[derive(Debug, Default)]
pub(crate) struct StepSharing {
    pub(crate) mode: SharedSteps,
    /// By the number of responses, whether they share steps.
    measured: Vec<Option<bool>>,
}

impl StepSharing {
    /// Returns true if `n` responses share their steps. `vocab_size` is that of the model.
    pub(crate) fn pays(&mut self, n: usize, transformer: &Transformer, vocab_size: usize) -> bool {
        match self.mode {
            SharedSteps::IfFaster if n > 1 => {}
            mode => return mode == SharedSteps::Always && n > 1,
        }
        if self.measured.len() <= n {
            self.measured.resize(n + 1, None);
        }
        *self.measured[n].get_or_insert_with(|| match measure(n, transformer, vocab_size) {
            Ok([alone, shared]) => {
                let pays = is_faster(n, alone, shared);
                tracing::info!(
                    n,
                    ?alone,
                    ?shared,
                    pays,
                    "measured a step for several responses"
                );
                pays
            }
            Err(error) => {
                tracing::warn!(%error, n, "measuring a step for several responses failed");
                false
            }
        })
    }
}

/// Returns true if a step for `n` responses that takes `shared` is faster than `n` steps that take
/// `alone`.
fn is_faster(n: usize, alone: Duration, shared: Duration) -> bool {
    shared.as_secs_f64() * MIN_GAIN < alone.as_secs_f64() * n as f64
}

/// Returns the time of a step for one response and of a step for `n`, each with a short text of its own.
fn measure(n: usize, transformer: &Transformer, vocab_size: usize) -> MlxResult<[Duration; 2]> {
    synchronize()?;
    let mut caches: Vec<_> = (0..n).map(|_| transformer.new_caches()).collect();
    let mut fastest = [Duration::MAX; 2];
    let began = Instant::now();
    for round in 0..MAX_ROUNDS {
        for (fastest, n) in fastest.iter_mut().zip([1, n]) {
            // Different tokens, which use different experts.
            let token = |index| ((round * n + index) * 7919 % vocab_size.max(1)) as u32;
            let tokens: Vec<u32> = (0..n).map(token).collect();
            let tokens = Array::from_slice(&tokens, &[n as i32]);
            let mut sequences: Vec<_> = caches[..n].iter_mut().map(Vec::as_mut_slice).collect();
            let start = Instant::now();
            let logits = transformer.logits(&tokens, &mut sequences, Positions::Last)?;
            eval([&logits])?;
            *fastest = (*fastest).min(start.elapsed());
        }
        if round > 0 && began.elapsed() > ENOUGH {
            break;
        }
    }
    Ok(fastest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::load;

    #[test]
    fn a_shared_step_must_be_clearly_faster_than_one_for_each() {
        let ms = Duration::from_millis;
        for (n, alone, shared, expected) in [
            (2, 10, 10, true),
            (2, 10, 18, true),
            (2, 10, 19, false),
            (4, 10, 36, true),
            (4, 10, 40, false),
        ] {
            assert_eq!(
                is_faster(n, ms(alone), ms(shared)),
                expected,
                "{n}, {shared}"
            );
        }
    }

    #[test]
    fn each_number_of_responses_is_measured_once() {
        let model = load("qwen3-next-q4-g64");
        let mut sharing = StepSharing::default();
        for n in [3, 2, 3] {
            sharing.pays(n, &model.transformer, model.info.vocab_size);
        }
        let is_measured: Vec<bool> = sharing.measured.iter().map(Option::is_some).collect();
        assert_eq!(is_measured, [false, false, true, true]);
    }
}
