//! The values that all layers share in one step (one forward pass): the positions of the tokens,
//! their rotations, and the attention masks. They are computed once per step, because on a CPU a
//! mask or a table of rotations takes as long as a layer's matrix product.

use mlx_rs::Array;

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
    pub(crate) offset: i32,
    pub(crate) n_tokens: i32,
}

impl<'a> Step<'a> {
    /// Returns a step of `n_tokens` tokens after `offset` others, for layers with these ropes and
    /// windows (`None` for full attention).
    pub(crate) fn new(
        ropes: &'a [Rope],
        windows: &[Option<i32>],
        offset: i32,
        n_tokens: i32,
        on_cpu: bool,
    ) -> Self {
        let masks = windows
            .iter()
            .map(|&window| (window, mask(window, offset, n_tokens, on_cpu)));
        Self {
            rotations: ropes.iter().map(|rope| rope.at(offset, n_tokens)).collect(),
            ropes,
            masks: masks.collect(),
            offset,
            n_tokens,
        }
    }

    /// Rotates `[1, heads, tokens, head_dim]` by the rope with this index.
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
fn mask(window: Option<i32>, offset: i32, n_tokens: i32, on_cpu: bool) -> Option<AttentionMask> {
    if n_tokens == 1 {
        // A cache returns no more keys than its window.
        return None;
    }
    let window = window.unwrap_or(i32::MAX);
    let n_before = offset.min(window - 1);
    let n_keys = n_before + n_tokens;
    let attends = |token: i32, key: i32| {
        let position = n_before + token;
        key <= position && position - key < window
    };
    let cells = (0..n_tokens).flat_map(|token| (0..n_keys).map(move |key| (token, key)));
    let shape = [n_tokens, n_keys];
    if on_cpu {
        let added: Vec<f32> = cells
            .map(|(token, key)| {
                if attends(token, key) {
                    0.0
                } else {
                    f32::NEG_INFINITY
                }
            })
            .collect();
        Some(AttentionMask::Additive(Array::from_slice(&added, &shape)))
    } else if n_keys <= window {
        Some(AttentionMask::Causal)
    } else {
        let allowed: Vec<bool> = cells.map(|(token, key)| attends(token, key)).collect();
        Some(AttentionMask::Boolean(Array::from_slice(&allowed, &shape)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of the mask, with one letter per key: `x` where the token attends.
    fn drawn(window: Option<i32>, offset: i32, n_tokens: i32) -> Vec<String> {
        let Some(AttentionMask::Additive(mask)) = mask(window, offset, n_tokens, true) else {
            panic!("masks are additive on a CPU");
        };
        let n_keys = mask.dim(1) as usize;
        let rows = mask.as_slice::<f32>().chunks(n_keys);
        rows.map(|row| {
            row.iter()
                .map(|&v| if v == 0.0 { 'x' } else { '.' })
                .collect()
        })
        .collect()
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
        let gpu = |offset, n_tokens| mask(Some(8), offset, n_tokens, false);
        assert!(matches!(gpu(3, 5), Some(AttentionMask::Causal)));
        assert!(matches!(gpu(3, 6), Some(AttentionMask::Boolean(_))));
        assert!(gpu(100, 1).is_none());
    }
}
