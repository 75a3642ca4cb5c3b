//! What a folder of safetensors needs where MLX runs it.
//!
//! Rule: the same figures as `memory_need` of the room that runs it, which explains them.

use super::{Machine, Need, product, sum};
use crate::facts::ModelFacts;

const ALLOCATOR_CACHE_BYTES: u64 = 256 << 20;
const PREFILL_CHUNK: u64 = 512;
const GROWTH_STEP: u64 = 256;
const SAMPLER_COPIES: u64 = 8;

pub(super) fn need(facts: &ModelFacts, machine: &Machine, context: u64) -> Need {
    let element_bytes = element_bytes(facts, machine);
    let kv_cache_bytes = kv_cache_bytes(facts, context, element_bytes);
    let layers = facts.n_layers.unwrap_or(1).max(1);
    let growing = kv_cache_bytes.saturating_mul(2) / layers;
    Need {
        weight_bytes: weight_bytes(facts, machine),
        kv_cache_bytes,
        headroom_bytes: sum(&[
            step_bytes(facts, machine, context, element_bytes),
            growing,
            product(&[SAMPLER_COPIES, facts.vocab_size.unwrap_or(0), 4]),
            ALLOCATOR_CACHE_BYTES,
        ]),
        cache_bytes: ALLOCATOR_CACHE_BYTES,
        context_length: context,
    }
}

/// Whether weights are computed with as they are stored.
pub(super) fn stays_packed(facts: &ModelFacts, machine: &Machine) -> bool {
    machine.has_gpu || facts.n_parameters.saturating_mul(4) > machine.memory_bytes / 4
}

/// Bytes of an activation's element, and of one of the cache.
pub(super) fn element_bytes(facts: &ModelFacts, machine: &Machine) -> u64 {
    let is_wide = facts.mix.iter().any(|packed| packed.kind == "F32");
    if is_wide || !machine.has_gpu { 4 } else { 2 }
}

/// On a GPU as stored; on a CPU dense f32 if a quarter of the memory holds them, else with all that
/// is a number in f32.
fn weight_bytes(facts: &ModelFacts, machine: &Machine) -> u64 {
    if machine.has_gpu {
        return facts.weight_bytes;
    }
    if !stays_packed(facts, machine) {
        return facts.n_parameters.saturating_mul(4);
    }
    let kinds = facts.mix.iter();
    let widened = kinds.map(|packed| match packed.kind.as_str() {
        "BF16" | "F16" => packed.bytes.saturating_mul(2),
        _ => packed.bytes,
    });
    widened.fold(0, u64::saturating_add)
}

fn kv_cache_bytes(facts: &ModelFacts, context: u64, element_bytes: u64) -> u64 {
    let heads = facts
        .n_kv_heads
        .iter()
        .copied()
        .fold(0, u64::saturating_add);
    let sizes = [facts.key_length, facts.value_length].map(Option::unwrap_or_default);
    let capacity = context.saturating_add(GROWTH_STEP);
    product(&[heads, sum(&sizes), capacity, element_bytes])
}

fn step_bytes(facts: &ModelFacts, machine: &Machine, context: u64, element_bytes: u64) -> u64 {
    let heads = facts.n_heads.unwrap_or(1);
    let kv_heads = facts.n_kv_heads.first().copied().unwrap_or(heads);
    let head_size = facts.key_length.unwrap_or(128);
    let hidden = facts.hidden_size.unwrap_or(product(&[heads, head_size]));
    let feed_forward = facts.feed_forward_length.unwrap_or(product(&[4, hidden]));
    let chunk = PREFILL_CHUNK.min(context);
    let of_heads = product(&[heads.saturating_add(product(&[2, kv_heads])), head_size]);
    let widths = product(&[3, sum(&[hidden, of_heads, feed_forward])]);
    let layer = product(&[chunk, widths, element_bytes]);
    let has_scores = !machine.has_gpu || !matches!(head_size, 64 | 80 | 128);
    let rows = product(&[sum(&[product(&[2, heads]), 1]), chunk]);
    let scores = product(&[rows, context, element_bytes]);
    if has_scores {
        layer.saturating_add(scores)
    } else {
        layer
    }
}
