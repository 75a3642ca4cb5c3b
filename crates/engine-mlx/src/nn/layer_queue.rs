//! Queues the layers of a long step in parts, so that their arrays don't all exist at once.
//!
//! MLX allocates the arrays of a graph when it queues the graph, and frees those that nothing needs any
//! more when the device has computed them. Queueing a step is much faster than computing it, so without
//! waiting the temporary arrays of all layers exist at once: for a prompt of 1,500 tokens twice as much
//! as the weights of an 8B model in 4 bits. So a long step is queued some layers at a time.
//!
//! Rule: the device always has work. What is waited for is not what was queued last.
//!
//! A step of one token has small arrays and is queued whole. But once every few hundred tokens it copies
//! full KV caches to larger buffers: one layer after the other, so that no more than one is in memory twice.
//!
//! On a CPU, MLX queues only a few operations ahead, so every step is queued whole.

use std::collections::VecDeque;

use mlx_rs::transforms::async_eval;
use mlx_rs::{Array, memory};
use transom_catalog::fit::mlx::{QUEUED_BYTES, layers_queued_together};

use super::Step;
use crate::error::MlxResult;
use crate::kv_cache::LayerCache;
use crate::ops::synchronize;

pub(crate) struct LayerQueue {
    n_layers: usize,
    /// How many layers are queued together.
    n_together: usize,
    /// Whether this is a step of one token that copies KV caches to larger buffers.
    copies: bool,
    /// The layers that have been pushed.
    n_pushed: usize,
    /// MLX's memory beyond which the step waits for the device.
    limit_bytes: usize,
    /// The outputs of queued layers, the oldest first.
    queued: VecDeque<Array>,
}

impl LayerQueue {
    /// Returns a queue for a step of `sequences`, whose embeddings are `x`.
    pub(crate) fn new(
        n_layers: usize,
        x: &Array,
        step: &Step<'_>,
        sequences: &[&mut [LayerCache]],
    ) -> MlxResult<Self> {
        let growing_bytes = |caches: &&mut [LayerCache]| {
            let layers = caches.iter();
            let bytes = layers.map(|cache| cache.growing_bytes(step.n_tokens));
            bytes.max().unwrap_or(0)
        };
        let growing = sequences.iter().map(growing_bytes).sum();
        let copies = step.n_tokens == 1 && growing > 0;
        let n_together = match step.on_cpu {
            true => n_layers,
            false if copies => 1,
            false => layers_queued_together(x.nbytes() as u64, growing) as usize,
        };
        Ok(Self {
            n_layers,
            n_together,
            copies,
            limit_bytes: memory::active_memory()? + QUEUED_BYTES as usize,
            n_pushed: 0,
            queued: VecDeque::new(),
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
        if is_last || !self.n_pushed.is_multiple_of(self.n_together) {
            return Ok(());
        }
        async_eval([x])?;
        if self.copies {
            // Unlike `eval`, this also waits until MLX has freed what is no longer needed.
            return synchronize();
        }
        self.queued.push_back(x.clone());
        while self.queued.len() > 1 && memory::active_memory()? > self.limit_bytes {
            if let Some(oldest) = self.queued.pop_front() {
                oldest.eval()?;
            }
        }
        Ok(())
    }
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
        let limit = queue.limit_bytes + 2 * ARRAY_BYTES;
        assert!(most <= limit, "{most} bytes instead of {limit}");
        assert_eq!(x.item_exact::<f32>(), 0.0);
    }
}
