//! What all layers of one step share: where its tokens stand in the text, how each kind of rotary
//! embedding turns them, and which keys each window lets them see. Made once a step, because on a
//! CPU a mask or a table costs as much as a layer's product.

use std::cell::RefCell;
use std::collections::BTreeMap;

use mlx_rs::Array;
use mlx_rs::error::Exception;

use super::{Rope, Rotation};
use crate::error::MlxResult;

/// Which keys the tokens of a step see, where that is not simply all.
#[derive(Debug)]
pub(crate) enum AttentionMask {
    /// Each token sees all that is before it; the keys end with the newest token.
    Causal,
    /// 0 where a token may look and minus infinity where it may not: `[tokens, keys]`.
    Added(Array),
    /// True where a token may look: `[tokens, keys]`.
    Allowed(Array),
}

/// One step's tokens.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    ropes: &'a [Rope],
    rotations: Vec<Rotation>,
    masks: Vec<(Option<i32>, Option<AttentionMask>)>,
    shared: RefCell<BTreeMap<usize, (Array, Array)>>,
    offset: i32,
    n_tokens: i32,
}

impl<'a> Step<'a> {
    /// A step of `n_tokens` tokens after `offset` others, for layers that use `ropes` and see
    /// `windows` (`None`: everything).
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
            shared: RefCell::default(),
            offset,
            n_tokens,
        }
    }

    /// Tokens before this step's.
    pub(crate) fn offset(&self) -> i32 {
        self.offset
    }

    /// Tokens of this step.
    pub(crate) fn n_tokens(&self) -> i32 {
        self.n_tokens
    }

    /// Rotates `[1, heads, tokens, head_dim]` by the rope of this number.
    pub(crate) fn rotate(&self, rope: usize, x: &Array) -> MlxResult<Array> {
        self.ropes[rope].rotate(x, &self.rotations[rope])
    }

    /// Lets later layers look at these keys and values too, under a number.
    pub(crate) fn share(&self, number: usize, keys: Array, values: Array) {
        self.shared.borrow_mut().insert(number, (keys, values));
    }

    /// The keys and values that an earlier layer shared last under this number.
    pub(crate) fn shared(&self, number: usize) -> MlxResult<(Array, Array)> {
        let found = self.shared.borrow().get(&number).cloned();
        found.ok_or_else(|| Exception::custom("no earlier layer shares its keys"))
    }

    /// The mask of layers with this window; `None` where every key may be seen.
    pub(crate) fn mask(&self, window: Option<i32>) -> Option<&AttentionMask> {
        let found = self.masks.iter().find(|(own, _)| *own == window);
        found.and_then(|(_, mask)| mask.as_ref())
    }
}

/// Keys are those that [`crate::kv_cache::LayerCache::append`] gives.
fn mask(window: Option<i32>, offset: i32, n_tokens: i32, on_cpu: bool) -> Option<AttentionMask> {
    if n_tokens == 1 {
        // A cache hands out no more than its window.
        return None;
    }
    let window = window.unwrap_or(i32::MAX);
    let n_before = offset.min(window - 1);
    let n_keys = n_before + n_tokens;
    let may_look = |token: i32, key: i32| {
        let place = n_before + token;
        key <= place && place - key < window
    };
    let cells = (0..n_tokens).flat_map(|token| (0..n_keys).map(move |key| (token, key)));
    let shape = [n_tokens, n_keys];
    if on_cpu {
        let added: Vec<f32> = cells
            .map(|(token, key)| {
                if may_look(token, key) {
                    0.0
                } else {
                    f32::NEG_INFINITY
                }
            })
            .collect();
        Some(AttentionMask::Added(Array::from_slice(&added, &shape)))
    } else if n_keys <= window {
        Some(AttentionMask::Causal)
    } else {
        let allowed: Vec<bool> = cells.map(|(token, key)| may_look(token, key)).collect();
        Some(AttentionMask::Allowed(Array::from_slice(&allowed, &shape)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of the mask, a letter a key: `x` where the token may look.
    fn drawn(window: Option<i32>, offset: i32, n_tokens: i32) -> Vec<String> {
        let Some(AttentionMask::Added(mask)) = mask(window, offset, n_tokens, true) else {
            panic!("a CPU adds its masks");
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
    fn without_a_window_all_before_is_seen() {
        assert_eq!(drawn(None, 2, 3), ["xxx..", "xxxx.", "xxxxx"]);
    }

    #[test]
    fn a_window_counts_the_token_that_looks() {
        assert_eq!(drawn(Some(2), 0, 4), ["x...", "xx..", ".xx.", "..xx"]);
    }

    #[test]
    fn before_a_windows_step_only_what_its_first_token_sees_is_there() {
        assert_eq!(drawn(Some(3), 7, 2), ["xxx.", ".xxx"]);
        assert_eq!(drawn(Some(3), 1, 3), ["xx..", "xxx.", ".xxx"]);
    }

    #[test]
    fn a_gpu_is_given_a_mask_only_where_the_window_cuts() {
        let gpu = |offset, n_tokens| mask(Some(8), offset, n_tokens, false);
        assert!(matches!(gpu(3, 5), Some(AttentionMask::Causal)));
        assert!(matches!(gpu(3, 6), Some(AttentionMask::Allowed(_))));
        assert!(gpu(100, 1).is_none());
    }
}
