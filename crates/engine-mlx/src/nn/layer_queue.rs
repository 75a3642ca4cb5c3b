//! Queues the layers of a step in parts, so that their arrays don't all exist at once.
//!
//! MLX allocates the arrays of a graph when it queues the graph, and frees those that nothing needs any
//! more when the device has computed them. Queueing a step is much faster than computing it, so without
//! waiting the temporary arrays of all layers exist at once: for a prompt of 1,500 tokens twice as much
//! as the weights of an 8B model in 4 bits. So a long step is queued some layers at a time.
//!
//! A step of one token has small arrays. But MLX copies the keys and values of a layer for it, if the step
//! before still reads them. So if they are large, it is queued in halves: the first one when the device has
//! computed that half of the step before, the second one when the step before has ended.
//!
//! On a CPU, MLX queues only a few operations ahead, so a step is queued whole.
//!
//! Rule: the device always has work. What is waited for is not what was queued last.

use std::collections::VecDeque;

use mlx_rs::transforms::async_eval;
use mlx_rs::{Array, memory};
use transom_catalog::fit::mlx::{QUEUED_BYTES, layers_queued_together};

use super::Step;
use crate::error::MlxResult;
use crate::kv_cache::LayerCache;

pub(crate) struct LayerQueue {
    n_layers: usize,
    /// How many layers are queued together.
    n_together: usize,
    /// The layers that have been pushed.
    n_pushed: usize,
    /// MLX's memory before the step.
    start_bytes: usize,
    /// The outputs of queued layers, the oldest first.
    queued: VecDeque<Array>,
    /// If the step is queued in halves, what the step before computed at the end of each half.
    before: Option<[Vec<Array>; 2]>,
}

impl LayerQueue {
    /// Returns a queue for a step of `sequences`, whose embeddings are `x`.
    pub(crate) fn new(
        n_layers: usize,
        x: &Array,
        step: &Step<'_>,
        sequences: &[&mut [LayerCache]],
    ) -> MlxResult<Self> {
        let of_each = |bytes: fn(&[LayerCache], i32) -> u64| -> u64 {
            let caches = sequences.iter();
            caches.map(|caches| bytes(caches, step.n_tokens)).sum()
        };
        let growing = of_each(|caches, n_tokens| {
            let bytes = caches.iter().map(|cache| cache.growing_bytes(n_tokens));
            bytes.max().unwrap_or(0)
        });
        let kept = of_each(|caches, _| caches.iter().map(LayerCache::written_bytes).sum());
        let n_together = match step.on_cpu {
            true => n_layers,
            false => layers_queued_together(x.nbytes() as u64, growing) as usize,
        };
        // Several sequences have larger arrays, but the copies of their keys and values are larger still.
        let has_small_arrays = n_together >= n_layers || (step.n_tokens == 1 && growing == 0);
        let in_halves =
            !step.on_cpu && n_layers > 1 && has_small_arrays && kept >= QUEUED_BYTES / 2;
        Ok(Self {
            n_layers,
            n_together: if in_halves { n_layers / 2 } else { n_together },
            n_pushed: 0,
            start_bytes: memory::active_memory()?,
            queued: VecDeque::new(),
            before: in_halves.then(|| {
                let halves = [0..n_layers / 2, n_layers / 2..n_layers];
                halves.map(|half| {
                    let last = |caches: &&mut [LayerCache]| {
                        let layers = caches[half.clone()].iter().rev();
                        layers.flat_map(LayerCache::arrays).next().cloned()
                    };
                    sequences.iter().filter_map(last).collect()
                })
            }),
        })
    }

    /// Takes the output of the next layer, and queues the layers up to it if they are enough. The last
    /// layers are left to the caller.
    ///
    /// # Errors
    /// A layer that was queued before failed.
    pub(crate) fn push(&mut self, x: &Array) -> MlxResult<()> {
        self.n_pushed += 1;
        let is_last = self.n_pushed == self.n_layers;
        if let Some(before) = &mut self.before {
            let [first, second] = before;
            if is_last {
                return wait_for(second);
            }
            if self.n_pushed == self.n_together {
                wait_for(first)?;
                return async_eval([x]);
            }
            return Ok(());
        }
        if is_last || !self.n_pushed.is_multiple_of(self.n_together) {
            return Ok(());
        }
        async_eval([x])?;
        self.queued.push_back(x.clone());
        let most = self.start_bytes + QUEUED_BYTES as usize;
        while self.queued.len() > 1 && memory::active_memory()? > most {
            wait_for(&mut self.queued.pop_front().into_iter().collect())?;
        }
        Ok(())
    }
}

/// Waits for arrays that are queued, and drops them.
fn wait_for(arrays: &mut Vec<Array>) -> MlxResult<()> {
    arrays.drain(..).try_for_each(|array| array.eval())
}

#[cfg(test)]
mod tests {
    use mlx_rs::{Device, ops};

    use super::*;

    /// Each layer makes an array of 16 MB, of which the next one needs one number.
    #[test]
    fn temporary_arrays_of_few_layers_exist_at_once() {
        const ARRAY_BYTES: usize = 16 << 20;
        const N_LAYERS: usize = 100;
        Device::set_default(&Device::cpu());
        let mut x = ops::zeros::<f32>(&[1]).expect("MLX");
        let step = Step::new(&[], &[], Vec::new(), 1, false).expect("MLX");
        let mut queue = LayerQueue::new(N_LAYERS, &x, &step, &[]).expect("MLX");
        queue.n_together = 1;
        let mut most = 0;
        for _ in 0..N_LAYERS {
            x = ops::zeros::<f32>(&[ARRAY_BYTES as i32 / 4])
                .and_then(|wide| wide.add(&x)?.max(None)?.reshape(&[1]))
                .expect("MLX");
            queue.push(&x).expect("MLX");
            most = most.max(memory::active_memory().expect("MLX"));
        }
        let limit = queue.start_bytes + QUEUED_BYTES as usize + 2 * ARRAY_BYTES;
        assert!(most <= limit, "{most} bytes instead of {limit}");
        assert_eq!(x.item_exact::<f32>(), 0.0);
    }
}
