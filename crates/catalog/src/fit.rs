//! Computes the memory that a model needs on a machine, and the longest context that fits, from the
//! model's facts alone.
//!
//! The engines take their `memory_need`, which decides whether a model is loaded, from this module.
//!
//! Rule: these functions read no file and ask no system, and no number of a file can overflow.

pub mod llama;
pub mod mlx;
#[cfg(test)]
mod tests;

use transom_fit::{CONTEXT_STEP, KvCacheChoice, MemoryNeed};

use crate::facts::{Format, KvType, ModelFacts};
use crate::machine::Machine;

/// Returns the memory that this variant of a model needs on `machine` for one conversation of
/// `context_length` tokens.
pub fn need(
    facts: &ModelFacts,
    machine: &Machine,
    kv: KvCacheChoice,
    context_length: u64,
) -> MemoryNeed {
    let own = facts.context_length.filter(|&n| n > 0);
    let context_length = context_length.min(own.unwrap_or(u64::MAX)).max(1);
    match facts.format {
        Format::Gguf => llama::need(facts, machine.has_gpu(), kv, u64::MAX, context_length),
        Format::Safetensors => {
            let weights = mlx_weights(facts, machine);
            let chunk = mlx::prefill_chunk(facts, machine.gpu());
            mlx::need(facts, weights, chunk, context_length)
        }
    }
}

fn mlx_weights(facts: &ModelFacts, machine: &Machine) -> mlx::Weights {
    let limit = mlx::dense_limit_bytes(machine.memory_bytes);
    match machine.has_gpu() {
        true => mlx::Weights::AsStored,
        false if mlx::fits_dense(facts, limit) => mlx::Weights::Dense,
        false => mlx::Weights::Packed,
    }
}

/// Returns the KV cache type of this variant on `machine`; `None` for wider types than [`KvType`] has.
pub fn kv_type(facts: &ModelFacts, machine: &Machine, kv: KvCacheChoice) -> Option<KvType> {
    match facts.format {
        Format::Gguf => Some(llama::kv_type(facts, machine.has_gpu(), kv)),
        Format::Safetensors => {
            let element_bytes = mlx::element_bytes(facts, mlx_weights(facts, machine));
            (element_bytes == 2).then_some(KvType::F16)
        }
    }
}

/// Returns true if this choice means keys and values in 8 bits where a device with or without a GPU may
/// have them. On a CPU they are slow, so it must be asked for them.
fn is_small(has_gpu: bool, kv: KvCacheChoice) -> bool {
    match kv {
        KvCacheChoice::Automatic => has_gpu,
        KvCacheChoice::Full => false,
        KvCacheChoice::Small => true,
    }
}

/// Returns true if MLX keeps quantized weights quantized on `machine`. On a CPU with enough memory
/// it converts them to dense weights, which is many times faster.
pub(crate) fn stays_quantized(facts: &ModelFacts, machine: &Machine) -> bool {
    let is_packed = facts.mix.iter().any(|packed| packed.kind == "U32");
    is_packed && mlx_weights(facts, machine) != mlx::Weights::Dense
}

/// Returns the tokens of context that an engine allocates to hold `n_tokens`.
pub(crate) fn context_capacity(facts: &ModelFacts, n_tokens: u64) -> u64 {
    match facts.format {
        Format::Gguf => llama::context_capacity(n_tokens),
        Format::Safetensors => n_tokens,
    }
}

/// Returns the longest context for which `fits` is true. If a context fits, a shorter one fits too.
pub(crate) fn longest(facts: &ModelFacts, fits: impl Fn(u64) -> bool) -> Option<u64> {
    // No model has a longer context.
    const MOST: u64 = 1 << 24;
    let own = facts.context_length.filter(|&n| n > 0).unwrap_or(MOST);
    let own = own.min(MOST);
    if fits(own) {
        return Some(own);
    }
    let (mut least, mut beyond) = (0, own.div_ceil(CONTEXT_STEP));
    while beyond - least > 1 {
        let middle = least + (beyond - least) / 2;
        match fits(middle * CONTEXT_STEP) {
            true => least = middle,
            false => beyond = middle,
        }
    }
    (least > 0).then_some(least * CONTEXT_STEP)
}

fn tokens(context_length: u64) -> usize {
    usize::try_from(context_length).unwrap_or(usize::MAX)
}

fn product(factors: &[u64]) -> u64 {
    factors.iter().copied().fold(1, u64::saturating_mul)
}

pub(crate) fn sum(terms: &[u64]) -> u64 {
    terms.iter().copied().fold(0, u64::saturating_add)
}
