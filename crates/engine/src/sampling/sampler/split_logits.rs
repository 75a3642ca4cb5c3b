//! The logits of a whole vocabulary, and the few tokens among them that the filters can keep.

use crate::sampling::SamplingParams;
use crate::sampling::distribution::{Candidate, Cutoff, highest, keep_min_p, keep_top_p, weight};
use crate::sampling::sampler::simd;

/// How far below the highest logit the candidates for top-p may be, in turn: the more confident the
/// model, the fewer are gathered and sorted. A token at the first depth weighs 1/3000 of the most
/// likely one, at the second a millionth. If that is not deep enough, all tokens are used.
const TOP_P_DEPTHS: [f64; 2] = [8.0, 14.0];

/// A vocabulary's logits in two parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct SplitLogits<'a> {
    /// The model's own logits; minus infinity for tokens in `changed`.
    pub(super) others: &'a [f32],
    /// Tokens with bias or penalties, by ascending id.
    pub(super) changed: &'a [Candidate],
}

impl SplitLogits<'_> {
    /// Returns the most likely token, the lowest id among equals; `None` if all are at minus
    /// infinity.
    pub(super) fn most_likely(&self) -> Option<Candidate> {
        let changed = self.changed.iter().copied().min_by(Candidate::before);
        simd::most_likely(self.others)
            .into_iter()
            .chain(changed)
            .min_by(Candidate::before)
    }

    /// Fills `kept` with the tokens that pass the filters, by ascending id. `order` and `sums` are
    /// scratch buffers.
    pub(super) fn keep(
        &self,
        params: &SamplingParams,
        kept: &mut Vec<Candidate>,
        order: &mut Vec<Candidate>,
        sums: &mut Vec<f64>,
    ) {
        let n = self.others.len();
        if (1..n / 4).contains(&params.top_k) {
            simd::gather_top_k(self.others, params.top_k, kept);
            kept.extend_from_slice(self.changed);
            kept.sort_unstable_by_key(|candidate| candidate.id);
            params.filter(kept, order);
            return;
        }
        if params.top_k == 0 && params.top_p < 1.0 && self.keep_top_p(params, kept, order, sums) {
            keep_min_p(kept, f64::from(params.min_p));
            return;
        }
        let top = self.highest();
        // Top-p must see the tokens that min-p would remove.
        let is_min_p_alone = params.top_p >= 1.0 && top.is_finite();
        // Slightly more, because f32 rounds; the filter itself is exact.
        let depth = 0.001 - f64::from(params.min_p).ln();
        self.gather(
            if is_min_p_alone {
                top - depth
            } else {
                f64::MIN
            },
            kept,
        );
        params.filter(kept, order);
    }

    /// Applies top-p to all tokens, using an approximate sum of their weights. Returns false if
    /// that is not precise enough.
    fn keep_top_p(
        &self,
        params: &SamplingParams,
        kept: &mut Vec<Candidate>,
        order: &mut Vec<Candidate>,
        sums: &mut Vec<f64>,
    ) -> bool {
        let Some(top) = self.block_weights(1.0, sums) else {
            return false;
        };
        let total: f64 = sums.iter().sum();
        let bound = f64::from(params.top_p) * total;
        let error = bound * simd::MAX_RELATIVE_ERROR;
        for depth in TOP_P_DEPTHS {
            self.gather(top - depth, kept);
            match keep_top_p(kept, order, (bound - error, bound + error)) {
                Cutoff::Yes => return true,
                Cutoff::No => {}
                Cutoff::Unsure => return false,
            }
        }
        false
    }

    /// Draws from all tokens with the random number `random`, using approximate sums of their
    /// weights. Returns `None` if these leave a doubt.
    pub(super) fn draw(
        &self,
        params: &SamplingParams,
        random: f64,
        sums: &mut Vec<f64>,
    ) -> Option<u32> {
        let keeps_all = params.top_k == 0 && params.top_p >= 1.0 && params.min_p <= 0.0;
        if !keeps_all || params.temperature < simd::MIN_TEMPERATURE {
            return None;
        }
        let top = self.block_weights(params.temperature, sums)?;
        let total: f64 = sums.iter().sum();
        let target = random * total;
        // The target and the sum before a block may both be off.
        let error = 2.0 * simd::MAX_RELATIVE_ERROR * total;
        let mut reached = 0.0;
        let mut block = 0;
        while reached + sums.get(block)? <= target {
            reached += sums[block];
            block += 1;
        }
        let start = block * simd::BLOCK;
        let end = self.others.len().min(start + simd::BLOCK);
        for id in start..end {
            let before = reached;
            let temperature = f64::from(params.temperature);
            reached += weight(self.logit(id), top, temperature);
            if reached > target + error {
                return (before < target - error || (before == 0.0 && start == 0))
                    .then_some(id as u32);
            } else if reached > target - error {
                return None;
            }
        }
        None
    }

    fn logit(&self, id: usize) -> f64 {
        match self
            .changed
            .binary_search_by_key(&id, |candidate| candidate.id as usize)
        {
            Ok(i) => self.changed[i].logit,
            Err(_) if self.others[id].is_nan() => f64::NEG_INFINITY,
            Err(_) => f64::from(self.others[id]),
        }
    }

    fn highest(&self) -> f64 {
        highest(self.changed).max(f64::from(simd::highest(self.others)))
    }

    /// Fills `sums` with the weights of each block of tokens, relative to the highest logit.
    /// Returns that logit, or `None` if it is not finite.
    fn block_weights(&self, temperature: f32, sums: &mut Vec<f64>) -> Option<f64> {
        let top_of_others = simd::highest(self.others);
        let top = highest(self.changed).max(f64::from(top_of_others));
        if !top.is_finite() {
            return None;
        }
        sums.clear();
        sums.resize(self.others.len().div_ceil(simd::BLOCK), 0.0);
        let exact = f64::from(temperature);
        if top_of_others > f32::NEG_INFINITY {
            let others = weight(f64::from(top_of_others), top, exact);
            simd::block_weights(self.others, top_of_others, temperature, sums);
            sums.iter_mut().for_each(|sum| *sum *= others);
        }
        for candidate in self.changed {
            sums[candidate.id as usize / simd::BLOCK] += weight(candidate.logit, top, exact);
        }
        Some(top)
    }

    /// Fills `kept` with the tokens of at least this logit, by ascending id. Rounding may add a few
    /// more.
    fn gather(&self, least: f64, kept: &mut Vec<Candidate>) {
        kept.clear();
        let least = (least as f32).next_down();
        simd::gather(self.others, least, kept);
        let changed = self
            .changed
            .iter()
            .filter(|candidate| candidate.logit >= f64::from(least));
        merge(kept, changed);
    }
}

/// Inserts `changed` into `kept`, both by ascending id.
fn merge<'a>(
    kept: &mut Vec<Candidate>,
    changed: impl DoubleEndedIterator<Item = &'a Candidate> + Clone,
) {
    let mut from = kept.len();
    kept.extend(changed.clone());
    let mut to = kept.len();
    for candidate in changed.rev() {
        while from > 0 && kept[from - 1].id > candidate.id {
            from -= 1;
            to -= 1;
            kept[to] = kept[from];
        }
        to -= 1;
        kept[to] = *candidate;
    }
}
