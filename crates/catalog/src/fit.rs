//! What a model will need in memory on a machine, and the longest context that fits, from its facts
//! alone: for people who move a slider, long before anything is loaded.
//!
//! The sums are those of the engines' own `memory_need`, which decides when a model is loaded:
//! llama.cpp's is the one here, MLX's the same but for weights that a load leaves out. The
//! conformance suite holds both side by side. Rule: nothing is read or asked here, and no number of
//! a file can overflow.

pub mod llama;
mod mlx;
#[cfg(test)]
mod tests;

use crate::facts::{Format, KvType, ModelFacts};

/// Context lengths are chosen in multiples of this, the step in which KV caches grow.
const CONTEXT_STEP: u64 = 256;

/// How a user wants keys and values kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KvChoice {
    /// As is fastest on the machine.
    #[default]
    Automatic,
    /// In 16 bits or more.
    Full,
    /// In 8 bits, where the engine can.
    Small,
}

/// The machine, as far as the sums care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// The engines compute on a GPU that shares the memory, as on Apple silicon.
    pub has_gpu: bool,
    /// Bytes of memory.
    pub memory_bytes: u64,
}

/// Bytes that a model needs, by part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Weights, as this machine computes with them.
    pub weight_bytes: u64,
    /// Keys and values with the context full; 0 where the files do not say enough.
    pub kv_cache_bytes: u64,
    /// What steps hold at once, and caches that may be dropped.
    pub headroom_bytes: u64,
    /// Of the headroom, the caches that may be dropped.
    pub cache_bytes: u64,
    /// Tokens of context that these are for: what was asked for, at most the model's own.
    pub context_length: u64,
}

impl Need {
    /// All parts together.
    pub fn total_bytes(&self) -> u64 {
        let of_context = self.kv_cache_bytes.saturating_add(self.headroom_bytes);
        self.weight_bytes.saturating_add(of_context)
    }
}

/// What the form that `facts` are of needs on `machine` with `context_length` tokens.
pub fn need(facts: &ModelFacts, machine: &Machine, kv: KvChoice, context_length: u64) -> Need {
    let own = facts.context_length.filter(|&n| n > 0);
    let context_length = context_length.min(own.unwrap_or(u64::MAX)).max(1);
    match facts.format {
        Format::Gguf => llama::need(facts, machine.has_gpu, kv, u64::MAX, context_length),
        Format::Safetensors => mlx::need(facts, machine, context_length),
    }
}

/// How the cache of this form will be kept on `machine`; `None` for wider than [`KvType`] knows.
pub fn kv_type(facts: &ModelFacts, machine: &Machine, kv: KvChoice) -> Option<KvType> {
    match facts.format {
        Format::Gguf => Some(llama::kv_type(facts, machine.has_gpu, kv)),
        Format::Safetensors => (mlx::element_bytes(facts, machine) == 2).then_some(KvType::F16),
    }
}

/// Whether MLX keeps packed weights packed on `machine`: on a processor it widens them where there is
/// memory for it, which is many times faster.
pub(crate) fn stays_quantised(facts: &ModelFacts, machine: &Machine) -> bool {
    let is_packed = facts.mix.iter().any(|packed| packed.kind == "U32");
    is_packed && mlx::stays_packed(facts, machine)
}

/// Tokens of context for which an engine made room to hold `n_tokens`.
pub(crate) fn room_made_for(facts: &ModelFacts, n_tokens: u64) -> u64 {
    match facts.format {
        Format::Gguf => llama::room_made_for(n_tokens),
        Format::Safetensors => n_tokens,
    }
}

/// The most tokens of context that fit; what fits gets no less as they get fewer.
pub(crate) fn longest(facts: &ModelFacts, fits: impl Fn(u64) -> bool) -> Option<u64> {
    // Longer ones are no model's.
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

/// Numbers of a file, added up and multiplied without overflow.
fn product(factors: &[u64]) -> u64 {
    factors.iter().copied().fold(1, u64::saturating_mul)
}

pub(crate) fn sum(terms: &[u64]) -> u64 {
    terms.iter().copied().fold(0, u64::saturating_add)
}
