//! What uses of a model really took: tokens a second and peak memory, in `measured.json` of the data
//! folder, with how fast the memory delivers. Shells write it after an answer through [`record`];
//! estimates read it.
//!
//! Rule: the file is a help, never a need. One that is damaged or of a newer version is set aside
//! and measured anew, and what cannot be written is only not remembered.

mod file;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use transom_fit::KvCacheChoice;

use crate::estimate::{Bandwidth, Machine};
use crate::facts::{Format, KvType, ModelFacts};
use crate::fit;

/// Its name in the data folder.
pub const FILE_NAME: &str = "measured.json";

/// Shortest answer of which the speed counts.
const LEAST_ANSWER_TOKENS: u64 = 16;
/// Shortest prompt of which the speed counts.
const LEAST_PROMPT_TOKENS: u64 = 64;
/// Fewest tokens in the context for its peak to say something of longer ones.
const LEAST_PEAK_TOKENS: u64 = 256;
/// As many measurements of the memory as hardly all fall into busy moments.
const SETTLED_TIMES: u32 = 3;
/// The newest answer counts with this weight, all before with the rest.
const NEWEST_WEIGHT: f64 = 0.3;

/// Which model, in which form: `model` is an entry's id where that is known, else the path of what
/// was loaded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(String);

impl Key {
    /// Of what was, or will be, loaded from `path` (a folder or a GGUF file) with keys and values
    /// kept as `kv` ([`fit::kv_type`]; `None` for wider than it knows).
    pub fn of_path(path: &Path, format: Format, kv: Option<KvType>) -> Self {
        Self::new(&path.to_string_lossy(), format, kv)
    }

    /// Of a model by any name that stays the same.
    pub fn new(model: &str, format: Format, kv: Option<KvType>) -> Self {
        let format = match format {
            Format::Gguf => "gguf",
            Format::Safetensors => "safetensors",
        };
        let kv = match kv {
            Some(KvType::F16) => "f16",
            Some(KvType::Q8_0) => "q8_0",
            None => "f32",
        };
        Self(format!("{model} {format} {kv}"))
    }
}

/// What one answer took.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sample {
    /// Tokens of the prompt that were processed, those taken from a cache left out.
    pub prompt_tokens: u64,
    /// Of them a second; `None` where it was not measured.
    pub prefill_tokens_per_second: Option<f64>,
    /// Tokens of the answer.
    pub answer_tokens: u64,
    /// Of them a second.
    pub decode_tokens_per_second: Option<f64>,
    /// Tokens in the context at the end: prompt and answer.
    pub context_tokens: u64,
    /// Highest memory use of the model's process since it was loaded; 0 where it was not measured.
    pub peak_bytes: u64,
}

/// What is remembered of a model in one form.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    prefill_tokens_per_second: Option<f64>,
    decode_tokens_per_second: Option<f64>,
    peak: Option<Peak>,
    /// Counts up with every use, in the whole file.
    last_use: u64,
}

/// The peak of the use with the fullest context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Peak {
    context_tokens: u64,
    bytes: u64,
}

impl Record {
    /// Tokens a second of an answer, of late.
    pub fn decode_tokens_per_second(&self) -> Option<f64> {
        self.decode_tokens_per_second
    }

    /// Tokens of a prompt a second, of late.
    pub fn prefill_tokens_per_second(&self) -> Option<f64> {
        self.prefill_tokens_per_second
    }

    /// The highest memory use so far and the tokens that the context held then.
    pub fn peak(&self) -> Option<(u64, u64)> {
        self.peak.map(|peak| (peak.bytes, peak.context_tokens))
    }

    /// Bytes by which the need of this model is to be corrected: what it took beyond what is computed
    /// for as many tokens. A model that took less corrects by half of that and at most a tenth of
    /// what is computed, for a longer context may find what a shorter did not need.
    pub fn correction(&self, facts: &ModelFacts, machine: &Machine, kv: KvCacheChoice) -> i64 {
        let Some(peak) = self.peak else {
            return 0;
        };
        let n_tokens = fit::context_capacity(facts, peak.context_tokens);
        let computed = fit::need(facts, &machine.for_fit(), kv, n_tokens).total_bytes();
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let beyond = signed(peak.bytes).saturating_sub(signed(computed));
        match beyond {
            0.. => beyond,
            _ => (beyond / 2).max(-signed(computed / 10)),
        }
    }

    fn take(&mut self, sample: &Sample) {
        let blend = |old: Option<f64>, new: f64| match old {
            Some(old) => old + (new - old) * NEWEST_WEIGHT,
            None => new,
        };
        let is_rate = |rate: &f64| rate.is_finite() && *rate > 0.0;
        if let Some(rate) = sample.decode_tokens_per_second.filter(is_rate)
            && sample.answer_tokens >= LEAST_ANSWER_TOKENS
        {
            self.decode_tokens_per_second = Some(blend(self.decode_tokens_per_second, rate));
        }
        if let Some(rate) = sample.prefill_tokens_per_second.filter(is_rate)
            && sample.prompt_tokens >= LEAST_PROMPT_TOKENS
        {
            self.prefill_tokens_per_second = Some(blend(self.prefill_tokens_per_second, rate));
        }
        let is_fuller = |old: Peak| sample.context_tokens >= old.context_tokens;
        if sample.peak_bytes > 0
            && sample.context_tokens >= LEAST_PEAK_TOKENS
            && self.peak.is_none_or(is_fuller)
        {
            self.peak = Some(Peak {
                context_tokens: sample.context_tokens,
                bytes: sample.peak_bytes,
            });
        }
    }
}

/// How fast memory delivers beside the chip of this name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Memory {
    chip_name: String,
    bytes_per_second: u64,
    /// How often it was measured.
    #[serde(default)]
    n_times: u32,
}

/// All that is remembered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measured {
    records: BTreeMap<String, Record>,
    memory: Option<Memory>,
    /// Where a file was put that could not be read.
    pub set_aside: Option<PathBuf>,
}

impl Measured {
    /// Reads the file at `path`; of one that is not there, damaged or of a newer version nothing is
    /// remembered. Never fails; a damaged one is set aside beside it.
    pub fn read(path: &Path) -> Self {
        file::read(path)
    }

    /// What is remembered of a model.
    pub fn of(&self, key: &Key) -> Option<&Record> {
        self.records.get(&key.0)
    }

    /// Bytes a second that memory was measured to deliver on the machine with this chip.
    pub fn bandwidth(&self, chip_name: &str) -> Option<u64> {
        self.memory(chip_name).map(|memory| memory.bytes_per_second)
    }

    /// Whether a machine with this chip should measure it: nothing is published of the chip, and what
    /// was measured may be the figure of one busy moment.
    pub fn wants_bandwidth(&self, chip_name: &str) -> bool {
        Bandwidth::of_chip(chip_name).is_none() && !self.is_bandwidth_settled(chip_name)
    }

    fn is_bandwidth_settled(&self, chip_name: &str) -> bool {
        let memory = self.memory(chip_name);
        memory.is_some_and(|memory| memory.n_times >= SETTLED_TIMES)
    }

    fn memory(&self, chip_name: &str) -> Option<&Memory> {
        let memory = self.memory.as_ref();
        memory.filter(|memory| memory.chip_name == chip_name)
    }
}

/// Remembers what one answer took, in the file at `path`.
///
/// The file is read and written anew, whole or not at all; of two programs that do so at once the
/// later one's answer is remembered.
///
/// # Errors
/// The system's, when it cannot be written. The answer is not affected: say so in a log, no more.
pub fn record(path: &Path, key: &Key, sample: &Sample) -> io::Result<()> {
    let mut measured = Measured::read(path);
    let newest = measured.records.values().map(|known| known.last_use).max();
    let known = measured.records.entry(key.0.clone()).or_default();
    known.take(sample);
    known.last_use = newest.unwrap_or(0).saturating_add(1);
    file::write(path, measured)
}

/// Remembers in the file at `path` how fast memory was measured to deliver on the machine with this
/// chip. Of several measurements the highest counts: other programs can only have lowered it.
///
/// # Errors
/// The system's, when it cannot be written; then it has to be measured again.
pub fn record_bandwidth(path: &Path, chip_name: &str, bytes_per_second: u64) -> io::Result<()> {
    let mut measured = Measured::read(path);
    let before = measured.memory(chip_name);
    let most = before.map_or(0, |memory| memory.bytes_per_second);
    let n_times = before.map_or(0, |memory| memory.n_times);
    measured.memory = Some(Memory {
        chip_name: chip_name.to_owned(),
        bytes_per_second: bytes_per_second.max(most),
        n_times: n_times.saturating_add(1),
    });
    file::write(path, measured)
}
