//! What a folder of safetensors needs where MLX runs it.
//!
//! Rule: the same figures as `memory_need` of the room that runs it, which explains them.

use super::{Machine, Need, product, sum};
use crate::facts::{LayerKind, ModelFacts};

const ALLOCATOR_CACHE_BYTES: u64 = 256 << 20;
const PREFILL_CHUNK: u64 = 512;
const GROWTH_STEP: u64 = 256;
const WINDOW_SLACK: u64 = 15;
const SMALL_PIN_BYTES: u64 = 64 << 20;
const RECURRENT_COPIES: u64 = 36;
const MEMORY_DEPTH: u64 = 128;
const SAMPLER_COPIES: u64 = 8;

pub(super) fn need(facts: &ModelFacts, machine: &Machine, context: u64) -> Need {
    let element_bytes = element_bytes(facts, machine);
    let kv_cache_bytes = kv_cache_bytes(facts, context, element_bytes);
    let cache_bytes =
        ALLOCATOR_CACHE_BYTES.saturating_add(pinned_bytes(facts, context, element_bytes));
    Need {
        weight_bytes: weight_bytes(facts, machine),
        kv_cache_bytes,
        headroom_bytes: sum(&[
            step_bytes(facts, machine, context, element_bytes),
            product(&[SAMPLER_COPIES, facts.vocab_size.unwrap_or(0), 4]),
            cache_bytes,
        ]),
        cache_bytes,
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

/// A token's keys and values in all layers that attend to everything, and in all with a window.
struct Rows {
    full: u64,
    windowed: u64,
}

impl Rows {
    fn of(facts: &ModelFacts, element_bytes: u64) -> Self {
        let row = |length: u64| length.checked_mul(element_bytes);
        Self {
            full: facts.kept(1, 0, row).unwrap_or(0),
            windowed: facts.kept(0, 1, row).unwrap_or(0),
        }
    }
}

fn capacity(context: u64) -> u64 {
    context.saturating_add(GROWTH_STEP)
}

fn windowed_capacity(facts: &ModelFacts, context: u64) -> u64 {
    capacity(context).min(window_limit(facts))
}

fn window_limit(facts: &ModelFacts) -> u64 {
    let window = facts.sliding_window.unwrap_or(0);
    window.saturating_add(WINDOW_SLACK + GROWTH_STEP)
}

fn kv_cache_bytes(facts: &ModelFacts, context: u64, element_bytes: u64) -> u64 {
    let rows = Rows::of(facts, element_bytes);
    sum(&[
        product(&[rows.full, capacity(context)]),
        product(&[rows.windowed, windowed_capacity(facts, context)]),
        facts.state_bytes().unwrap_or(u64::MAX),
    ])
}

/// What pinned places keep: see the engine's.
fn pinned_bytes(facts: &ModelFacts, context: u64, element_bytes: u64) -> u64 {
    let rows = Rows::of(facts, element_bytes);
    let limit = window_limit(facts);
    let windowed = match capacity(context) > limit {
        true => product(&[rows.windowed, limit]),
        false => 0,
    };
    let pin = windowed.saturating_add(facts.state_bytes().unwrap_or(u64::MAX));
    match pin <= SMALL_PIN_BYTES {
        true => 2 * pin,
        false => pin,
    }
}

fn step_bytes(facts: &ModelFacts, machine: &Machine, context: u64, element_bytes: u64) -> u64 {
    let heads = facts.n_heads.unwrap_or(1);
    let kv_heads = most_kv_heads(facts).unwrap_or(heads);
    let head_size = facts.key_length.unwrap_or(128);
    let hidden = facts.hidden_size.unwrap_or(product(&[heads, head_size]));
    let feed_forward = facts.feed_forward_length.unwrap_or(product(&[4, hidden]));
    let chunk = PREFILL_CHUNK.min(context);
    let of_heads = product(&[heads.saturating_add(product(&[2, kv_heads])), head_size]);
    let widths = product(&[3, sum(&[hidden, of_heads, feed_forward])]);
    let layer = product(&[chunk, widths, element_bytes]);
    let copies = product(&[3, chunk, facts.n_used_experts, hidden, element_bytes]);
    let n_full = facts.n_layers_of(LayerKind::Full);
    let n_attending = n_full.saturating_add(facts.n_layers_of(LayerKind::Sliding));
    let window = facts.sliding_window.unwrap_or(0);
    let in_window = context.min(window.saturating_add(chunk));
    let seen = if n_full > 0 { context } else { in_window };
    let has_scores = !machine.has_gpu || !matches!(head_size, 64 | 80 | 128);
    let mask = match has_scores && n_attending > 0 {
        true => product(&[chunk, seen, element_bytes]),
        false => 0,
    };
    let scores = product(&[2, heads, mask]);
    let most = scores.max(copies).saturating_add(scores.min(copies) / 2);
    let growing = growing_bytes(facts, context, chunk, element_bytes);
    sum(&[layer, mask, most, growing, recurrent_bytes(facts, chunk)])
}

/// Key-value heads of the layers whose heads `key_length` is of: those that attend to all, if any.
fn most_kv_heads(facts: &ModelFacts) -> Option<u64> {
    let heads = facts.n_kv_heads.iter().enumerate();
    let of_full = heads.filter(|(layer, _)| facts.layer(*layer) == LayerKind::Full);
    let of_full = of_full.map(|(_, &n)| n).max();
    of_full.or_else(|| facts.n_kv_heads.iter().copied().max())
}

/// One layer's cache while it grows into a new buffer.
fn growing_bytes(facts: &ModelFacts, context: u64, chunk: u64, element_bytes: u64) -> u64 {
    let rows = Rows::of(facts, element_bytes);
    let n_full = facts.n_layers_of(LayerKind::Full);
    let n_windowed = facts.n_layers_of(LayerKind::Sliding);
    if let Some(row) = rows.full.checked_div(n_full) {
        return product(&[2, capacity(context), row]);
    }
    match rows.windowed.checked_div(n_windowed) {
        Some(row) => {
            let n_tokens = windowed_capacity(facts, context).saturating_add(chunk);
            product(&[2, n_tokens, row])
        }
        None => 0,
    }
}

/// What a recurrent layer works in.
fn recurrent_bytes(facts: &ModelFacts, chunk: u64) -> u64 {
    if facts.n_layers_of(LayerKind::Linear) == 0 {
        return 0;
    }
    let elements = facts.linear_state_bytes / 4;
    let wide = product(&[RECURRENT_COPIES, elements]) / MEMORY_DEPTH;
    product(&[chunk, wide, 4])
}
