//! Queues the layers of a step in parts, so that their arrays don't all exist at once.
//!
//! MLX allocates the arrays of a graph when it queues the graph, and frees those that nothing needs any
//! more when the device has computed them. Queueing a step is much faster than computing it, so without
//! waiting the temporary arrays of all layers exist at once: for a prompt of 1,500 tokens twice as much
//! as the weights of an 8B model in 4 bits.
//!
//! Rule: the device always has work. Before a part is queued, what is waited for is not what was queued
//! last.
//!
//! A large model's step of one token is queued in parts, too, while the device computes the end of the step
//! before. Once every few hundred tokens a step copies full KV caches to larger buffers: one layer after the
//! other, with nothing else in progress, so that no more than one is in memory twice.
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

/// The parts of a step of one token, and how many of them are queued at a time. Half a step takes a device
/// longer than queueing the next part.
const DECODE_PARTS: usize = 6;
const N_DECODE_PARTS_QUEUED: usize = 3;

/// Features of a hidden state from which on a step of one token is queued in parts. A smaller model has small
/// arrays, and its step takes not much longer than queueing it.
const WIDE_FEATURES: i32 = 2048;

pub(crate) struct LayerQueue {
    n_layers: usize,
    /// How many layers are queued together.
    n_together: usize,
    /// Whether this is a step of one token that copies KV caches to larger buffers.
    copies: bool,
    /// The layers that have been pushed.
    n_pushed: usize,
    /// MLX's memory beyond which at most `n_queued` parts are queued at a time.
    limit_bytes: usize,
    n_queued: usize,
    /// Results of the parts that the device may not have computed yet, the oldest first.
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
        let is_decode = step.n_tokens == 1 && !step.on_cpu;
        let copies = is_decode && growing > 0;
        if copies {
            synchronize()?;
        }
        let mut queue = Self {
            n_layers,
            n_together: match step.on_cpu {
                true => n_layers,
                false => layers_queued_together(x.nbytes() as u64, growing) as usize,
            },
            copies,
            n_pushed: 0,
            limit_bytes: memory::active_memory()? + QUEUED_BYTES as usize,
            n_queued: 2,
            queued: VecDeque::new(),
        };
        if is_decode && !copies && x.dim(-1) >= WIDE_FEATURES {
            queue.n_together = n_layers.div_ceil(DECODE_PARTS);
            queue.limit_bytes = 0;
            queue.n_queued = N_DECODE_PARTS_QUEUED;
            // The device may still compute the last parts of the step before.
            let ends = (queue.n_together..n_layers).step_by(queue.n_together);
            let parts = ends
                .chain([n_layers])
                .filter_map(|end| newest(sequences, end));
            queue.queued.extend(parts);
        }
        Ok(queue)
    }

    /// Takes the output of the next layer, and queues the layers up to it if they are enough. The last
    /// layers are left to the caller.
    ///
    /// # Errors
    /// A layer that was queued before failed.
    pub(crate) fn push(&mut self, x: &Array) -> MlxResult<()> {
        self.n_pushed += 1;
        if self.copies {
            async_eval([x])?;
            // Unlike `eval`, this also waits until MLX has freed what is no longer needed.
            return synchronize();
        }
        let is_last = self.n_pushed == self.n_layers;
        if !is_last && !self.n_pushed.is_multiple_of(self.n_together) {
            return Ok(());
        }
        while self.queued.len() >= self.n_queued && memory::active_memory()? > self.limit_bytes {
            if let Some(oldest) = self.queued.pop_front() {
                oldest.eval()?;
            }
        }
        if !is_last {
            async_eval([x])?;
            self.queued.push_back(x.clone());
        }
        Ok(())
    }
}

/// Returns an array of the newest step of the first sequence, in the last of its first `n_layers` layers that has
/// a cache: its last one, which the outputs of the layer depend on, so it was queued with them.
fn newest(sequences: &[&mut [LayerCache]], n_layers: usize) -> Option<Array> {
    let mut layers = sequences.first()?.iter().take(n_layers).rev();
    layers.find_map(|cache| cache.arrays().last().map(|array| (*array).clone()))
}

#[cfg(test)]
mod tests {
    use mlx_rs::{Device, ops};

    use super::*;

    const ARRAY_BYTES: usize = 16 << 20;

    /// Returns the most memory while a queue with this limit takes 100 layers, each of which makes an array
    /// of [`ARRAY_BYTES`], of which the next one needs one number.
    fn most_bytes(limit_bytes: usize) -> usize {
        const N_LAYERS: usize = 100;
        let mut x = ops::zeros::<f32>(&[1]).expect("MLX");
        let step = Step::new(&[], &[], Vec::new(), 1, false).expect("MLX");
        let mut queue = LayerQueue::new(N_LAYERS, &x, &step, &[]).expect("MLX");
        queue.n_together = 1;
        queue.limit_bytes = limit_bytes;
        let mut most = 0;
        for _ in 0..N_LAYERS {
            x = ops::zeros::<f32>(&[ARRAY_BYTES as i32 / 4])
                .and_then(|wide| wide.add(&x)?.max(None)?.reshape(&[1]))
                .expect("MLX");
            queue.push(&x).expect("MLX");
            most = most.max(memory::active_memory().expect("MLX"));
        }
        assert_eq!(x.item_exact::<f32>(), 0.0);
        most
    }

    #[test]
    fn temporary_arrays_of_few_layers_exist_at_once() {
        Device::set_default(&Device::cpu());
        let held = memory::active_memory().expect("MLX");
        let limit = held + QUEUED_BYTES as usize;
        let most = most_bytes(limit);
        assert!(
            most <= limit + 2 * ARRAY_BYTES,
            "{most} bytes beside {held}"
        );
        let most = most_bytes(0);
        assert!(most <= held + 4 * ARRAY_BYTES, "{most} bytes beside {held}");
    }

    #[test]
    fn few_parts_of_a_step_of_one_token_are_queued() {
        const N_LAYERS: usize = 12;
        Device::set_default(&Device::cpu());
        let zeros = |shape: &[i32]| ops::zeros::<f32>(shape).expect("MLX");
        let mut caches: Vec<LayerCache> = (0..N_LAYERS)
            .map(|_| LayerCache::for_attention(None))
            .collect();
        let append = |caches: &mut [LayerCache], n: i32| {
            for cache in caches {
                let new = zeros(&[1, 1, n, 8]);
                cache.append(&new, &new).expect("MLX");
            }
        };
        let queue = |caches: &mut [LayerCache], n_features: i32| {
            let x = zeros(&[1, 1, n_features]);
            let step = Step::new(&[], &[], vec![0], 1, false).expect("MLX");
            LayerQueue::new(N_LAYERS, &x, &step, &[caches]).expect("MLX")
        };
        append(&mut caches, 1);
        let narrow = queue(&mut caches, WIDE_FEATURES - 1);
        assert!(narrow.queued.is_empty() && narrow.n_together >= N_LAYERS);

        let mut wide = queue(&mut caches, WIDE_FEATURES);
        assert_eq!(wide.queued.len(), DECODE_PARTS, "of the step before");
        let mut x = zeros(&[1]);
        for n_pushed in 1..=N_LAYERS {
            x = x.add(Array::from_f32(1.0)).expect("MLX");
            wide.push(&x).expect("MLX");
            let most = match n_pushed {
                1 => DECODE_PARTS,
                // The caller queues the last part.
                N_LAYERS => N_DECODE_PARTS_QUEUED - 1,
                _ => N_DECODE_PARTS_QUEUED,
            };
            assert!(wide.queued.len() <= most, "after {n_pushed} layers");
        }
        assert_eq!(x.item_exact::<f32>(), N_LAYERS as f32);

        append(&mut caches, 255);
        let full = queue(&mut caches, WIDE_FEATURES);
        assert!(full.copies && full.queued.is_empty());
    }
}
