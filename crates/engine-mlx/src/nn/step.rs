//! The values that all layers share in one step (one forward pass): the sequences, the positions of
//! their tokens, the rotations, and the attention masks. They are computed once per step, because on a CPU a
//! mask or a table of rotations takes as long as a layer's matrix product.

use mlx_rs::{Array, ops};

use super::{Rope, Rotation};
use crate::error::MlxResult;

/// The keys that the tokens of a step attend to, unless they attend to all.
#[derive(Debug)]
pub(crate) enum AttentionMask {
    /// Each token attends to itself and all tokens before it. The last key is the last token's.
    Causal,
    /// 0 where a token attends and minus infinity where it does not: `[tokens, keys]`.
    Additive(Array),
    /// True where a token attends: `[tokens, keys]`.
    Boolean(Array),
}

#[derive(Debug)]
pub(crate) struct Step<'a> {
    ropes: &'a [Rope],
    rotations: Vec<Rotation>,
    masks: Vec<(Option<i32>, Option<AttentionMask>)>,
    /// How many tokens of each sequence come before the step.
    offsets: Vec<i32>,
    /// Tokens of each sequence.
    pub(crate) n_tokens: i32,
    pub(crate) on_cpu: bool,
}

impl<'a> Step<'a> {
    /// Returns a step of `n_tokens` tokens of each sequence, after as many others as `offsets` says, for
    /// layers with these ropes and windows (`None` for full attention). Several sequences have one token
    /// each.
    pub(crate) fn new(
        ropes: &'a [Rope],
        windows: &[Option<i32>],
        offsets: Vec<i32>,
        n_tokens: i32,
        on_cpu: bool,
    ) -> MlxResult<Self> {
        // A token that is alone needs no mask, so the offset of the first sequence is enough.
        let offset = offsets.first().copied().unwrap_or(0);
        let masks = windows
            .iter()
            .map(|&window| Ok((window, mask(window, offset, n_tokens, on_cpu)?)));
        Ok(Self {
            rotations: ropes
                .iter()
                .map(|rope| rope.at(&offsets, n_tokens))
                .collect(),
            ropes,
            masks: masks.collect::<MlxResult<_>>()?,
            offsets,
            n_tokens,
            on_cpu,
        })
    }

    pub(crate) fn n_sequences(&self) -> i32 {
        self.offsets.len() as i32
    }

    /// Returns the position of each token in its sequence, in the order of the tokens.
    pub(crate) fn positions(&self) -> impl Iterator<Item = i32> {
        let offsets = self.offsets.iter();
        offsets.flat_map(|&offset| offset..offset + self.n_tokens)
    }

    /// Rotates `[sequences, heads, tokens, head_dim]` by the rope with this index.
    pub(crate) fn rotate(&self, rope: usize, x: &Array) -> MlxResult<Array> {
        self.ropes[rope].rotate(x, &self.rotations[rope])
    }

    /// Returns the mask of layers with this window; `None` if tokens attend to all keys.
    pub(crate) fn mask(&self, window: Option<i32>) -> Option<&AttentionMask> {
        let found = self.masks.iter().find(|(own, _)| *own == window);
        debug_assert!(found.is_some(), "no cache has the window {window:?}");
        found.and_then(|(_, mask)| mask.as_ref())
    }
}

/// Returns the mask over the keys that [`crate::kv_cache::LayerCache::append`] returns.
fn mask(
    window: Option<i32>,
    offset: i32,
    n_tokens: i32,
    on_cpu: bool,
) -> MlxResult<Option<AttentionMask>> {
    if n_tokens == 1 {
        // A cache returns no more keys than its window.
        return Ok(None);
    }
    let window = window.unwrap_or(i32::MAX);
    let n_before = offset.min(window - 1);
    let n_keys = n_before + n_tokens;
    if !on_cpu && n_keys <= window {
        return Ok(Some(AttentionMask::Causal));
    }
    let positions = ops::arange::<_, i32>(n_before, n_keys, 1)?.reshape(&[n_tokens, 1])?;
    let keys = ops::arange::<_, i32>(0, n_keys, 1)?;
    let mut attends = positions.ge(&keys)?;
    if n_keys > window {
        let ends = keys.add(Array::from_int(window))?;
        attends = attends.logical_and(positions.lt(ends)?)?;
    }
    if !on_cpu {
        return Ok(Some(AttentionMask::Boolean(attends)));
    }
    let [zero, minus_infinity] = [0.0, f32::NEG_INFINITY].map(Array::from_f32);
    let mask = ops::select(attends, zero, minus_infinity)?;
    Ok(Some(AttentionMask::Additive(mask)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of the mask, with one letter per key: `x` where the token attends.
    fn drawn(window: Option<i32>, offset: i32, n_tokens: i32) -> Vec<String> {
        let on = |on_cpu| mask(window, offset, n_tokens, on_cpu).expect("MLX");
        let Some(AttentionMask::Additive(added)) = on(true) else {
            panic!("masks are additive on a CPU");
        };
        let n_keys = added.dim(1) as usize;
        let attends: Vec<bool> = added.as_slice().iter().map(|&v: &f32| v == 0.0).collect();
        if let Some(AttentionMask::Boolean(mask)) = on(false) {
            assert_eq!(mask.as_slice::<bool>(), attends);
        }
        let letter = |&attends: &bool| if attends { 'x' } else { '.' };
        let rows = attends.chunks(n_keys);
        rows.map(|row| row.iter().map(letter).collect()).collect()
    }

    #[test]
    fn without_a_window_tokens_attend_to_all_tokens_before_them() {
        assert_eq!(drawn(None, 2, 3), ["xxx..", "xxxx.", "xxxxx"]);
    }

    #[test]
    fn a_window_includes_the_token_itself() {
        assert_eq!(drawn(Some(2), 0, 4), ["x...", "xx..", ".xx.", "..xx"]);
    }

    #[test]
    fn a_window_limits_the_keys_before_the_step() {
        assert_eq!(drawn(Some(3), 7, 2), ["xxx.", ".xxx"]);
        assert_eq!(drawn(Some(3), 1, 3), ["xx..", "xxx.", ".xxx"]);
    }

    #[test]
    fn on_a_gpu_only_windows_shorter_than_the_keys_need_an_array() {
        let gpu = |offset, n_tokens| mask(Some(8), offset, n_tokens, false).expect("MLX");
        assert!(matches!(gpu(3, 5), Some(AttentionMask::Causal)));
        assert!(matches!(gpu(3, 6), Some(AttentionMask::Boolean(_))));
        assert!(gpu(100, 1).is_none());
    }
}
