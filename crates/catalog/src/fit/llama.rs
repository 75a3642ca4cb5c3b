//! What a GGUF file needs where llama.cpp runs it: its worst case, which it reserves when a context is
//! made.
//!
//! Rule: the same figures as `memory_need` of the room that runs it, which explains them.

use super::{CONTEXT_STEP, KvChoice, Machine, Need, product, sum};
use crate::facts::{KvType, ModelFacts};

const MAX_DRAFT: u64 = 16;
const TOKENIZER_BYTES_A_TOKEN: u64 = 400;
const PROCESS_BYTES: u64 = 8 << 20;

pub(super) fn need(facts: &ModelFacts, machine: &Machine, kv: KvChoice, context: u64) -> Need {
    let kind = kv_type(facts, machine, kv);
    let vocab = facts.vocab_size.unwrap_or(0);
    Need {
        weight_bytes: facts.weight_bytes,
        kv_cache_bytes: kv_cache_bytes(facts, context, kind),
        headroom_bytes: sum(&[
            step_bytes(facts, machine, kind, context),
            product(&[vocab, TOKENIZER_BYTES_A_TOKEN]),
            PROCESS_BYTES,
        ]),
        cache_bytes: 0,
        context_length: context,
    }
}

/// The cache grows by doubling.
pub(super) fn room_made_for(n_tokens: u64) -> u64 {
    const FIRST_CAPACITY: u64 = 1024;
    let most = n_tokens.max(FIRST_CAPACITY);
    most.checked_next_power_of_two().unwrap_or(most)
}

/// Layers with a window keep everything too, so that any part of a conversation can be taken back
/// (llama.cpp's `swa_full`). A context is made in whole steps.
fn kv_cache_bytes(facts: &ModelFacts, context: u64, kind: KvType) -> u64 {
    let context = context
        .checked_next_multiple_of(CONTEXT_STEP)
        .unwrap_or(context);
    facts.kept_bytes(context, context, kind).unwrap_or(0)
}

/// How keys and values are kept; blocks of Q8_0 need heads of whole blocks.
pub(super) fn kv_type(facts: &ModelFacts, machine: &Machine, kv: KvChoice) -> KvType {
    let sizes = [facts.key_length, facts.value_length].map(Option::unwrap_or_default);
    let has_whole_blocks = sizes.iter().all(|size| *size > 0 && size % 32 == 0);
    let is_wanted = match kv {
        KvChoice::Automatic => machine.has_gpu,
        KvChoice::Full => false,
        KvChoice::Small => true,
    };
    match has_whole_blocks && is_wanted {
        true => KvType::Q8_0,
        false => KvType::F16,
    }
}

fn step_bytes(facts: &ModelFacts, machine: &Machine, kind: KvType, context: u64) -> u64 {
    let heads = facts.n_heads.unwrap_or(1);
    let head_size = facts.key_length.max(facts.value_length).unwrap_or(128);
    let hidden = facts.hidden_size.unwrap_or(product(&[heads, head_size]));
    let feed_forward = facts.feed_forward_length.unwrap_or(product(&[4, hidden]));
    let is_flash = machine.has_gpu || kind == KvType::Q8_0;
    let chunk = prefill_chunk(facts, machine)
        .min(context)
        .max(MAX_DRAFT + 1);
    let layer = sum(&[
        product(&[4, hidden]),
        product(&[3, heads, head_size]),
        product(&[2, feed_forward]),
    ]);
    let scores = if is_flash {
        0
    } else {
        product(&[heads, 3]) / 2
    };
    let attention = product(&[scores.saturating_add(1), context]);
    let logits = product(&[2 * (MAX_DRAFT + 1), facts.vocab_size.unwrap_or(0)]);
    let step = product(&[chunk, layer.saturating_add(attention)]);
    product(&[4, step.saturating_add(logits)])
}

fn prefill_chunk(facts: &ModelFacts, machine: &Machine) -> u64 {
    match facts.n_parameters {
        2_500_000_000.. if !machine.has_gpu => 128,
        1_000_000_000.. if !machine.has_gpu => 256,
        _ => 512,
    }
}
