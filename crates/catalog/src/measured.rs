//! Measurements of models in use: tokens per second, peak memory, and memory bandwidth.
//!
//! Shells write them to `measured.json` of the data folder after each response with [`record`], and
//! estimates read them.
//!
//! Rule: the file is helpful but never required. A damaged file or one of a newer version is set
//! aside and a new one is started. A failed write only loses the measurement.

mod file;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use transom_fit::{KvCacheChoice, default_parked_bytes};

use crate::facts::{Format, KvType, ModelFacts};
use crate::fit;
use crate::machine::{Bandwidth, Machine};

/// Name of the file in the data folder.
pub const FILE_NAME: &str = "measured.json";

/// Minimum response length for its speed to count.
const MIN_RESPONSE_TOKENS: u64 = 16;
/// Minimum tokens in the context for the peak memory to say something about longer contexts.
const MIN_PEAK_TOKENS: u64 = 256;
/// Number of bandwidth measurements of which at least one was probably not disturbed.
const ENOUGH_MEASUREMENTS: u32 = 3;
/// Weight of the newest response; all earlier ones have the rest.
const NEWEST_WEIGHT: f64 = 0.3;

/// The key of a record: the model (the id of an entry if known, else the path of the loaded files),
/// its format and KV cache type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(String);

impl Key {
    /// Returns the key for a model with any permanent name, such as its path, and this KV cache type, as
    /// [`fit::kv_type`] returns it.
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

/// The measurements of one response.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sample {
    /// Tokens of the response.
    pub response_tokens: u64,
    /// Decode speed; `None` if it was not measured.
    pub decode_tokens_per_second: Option<f64>,
    /// Tokens in the context at the end: prompt and response.
    pub context_tokens: u64,
    /// Peak memory of the model's process since it was loaded; 0 if it was not measured.
    pub peak_bytes: u64,
}

/// The stored measurements of a model in one format.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    pub(crate) decode_tokens_per_second: Option<f64>,
    peak: Option<Peak>,
    /// Sequence number of the last use, across the whole file.
    last_use: u64,
}

/// The peak memory of the use with the most tokens in the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Peak {
    context_tokens: u64,
    bytes: u64,
}

impl Record {
    /// Returns the bytes by which the model's estimated need must be corrected: the measured peak beyond
    /// the estimate for the same number of tokens and the most KV caches of other conversations. If the
    /// peak was lower than without those, the correction is half of the difference and at most a tenth
    /// of the estimate, because a longer context may need more.
    pub fn correction(&self, facts: &ModelFacts, machine: &Machine, kv: KvCacheChoice) -> i64 {
        let Some(peak) = self.peak else {
            return 0;
        };
        let n_tokens = fit::context_capacity(facts, peak.context_tokens);
        let computed = fit::need(facts, machine, kv, n_tokens).total_bytes();
        let with_parked = computed.saturating_add(default_parked_bytes(machine.memory_bytes));
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        match peak.bytes {
            bytes if bytes > with_parked => signed(bytes - with_parked),
            bytes if bytes < computed => {
                (-signed(computed - bytes) / 2).max(-signed(computed / 10))
            }
            _ => 0,
        }
    }

    fn update(&mut self, sample: &Sample) {
        let is_rate = |rate: &f64| rate.is_finite() && *rate > 0.0;
        if let Some(rate) = sample.decode_tokens_per_second.filter(is_rate)
            && sample.response_tokens >= MIN_RESPONSE_TOKENS
        {
            let old = self.decode_tokens_per_second.unwrap_or(rate);
            self.decode_tokens_per_second = Some(old + (rate - old) * NEWEST_WEIGHT);
        }
        let is_fuller = |old: Peak| sample.context_tokens >= old.context_tokens;
        if sample.peak_bytes > 0
            && sample.context_tokens >= MIN_PEAK_TOKENS
            && self.peak.is_none_or(is_fuller)
        {
            self.peak = Some(Peak {
                context_tokens: sample.context_tokens,
                bytes: sample.peak_bytes,
            });
        }
    }
}

/// The memory bandwidth that was measured with a chip.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Memory {
    chip_name: String,
    bytes_per_second: u64,
    #[serde(default)]
    n_times: u32,
}

/// All stored measurements.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measured {
    records: BTreeMap<String, Record>,
    memory: Option<Memory>,
}

impl Measured {
    /// Reads the file at `path`. Never fails: a missing, damaged or newer file has no measurements. A
    /// damaged or newer file is renamed.
    pub fn read(path: &Path) -> Self {
        file::read(path)
    }

    /// Returns the measurements of a model.
    pub fn of(&self, key: &Key) -> Option<&Record> {
        self.records.get(&key.0)
    }

    /// Returns the bandwidth in bytes per second that was measured on a machine with this chip.
    pub fn bandwidth(&self, chip_name: &str) -> Option<u64> {
        self.memory(chip_name).map(|memory| memory.bytes_per_second)
    }

    /// Returns true if a machine with this chip should measure its bandwidth: none is published for the
    /// chip, and there are too few measurements to rule out that the machine was busy.
    pub fn wants_bandwidth(&self, chip_name: &str) -> bool {
        let memory = self.memory(chip_name);
        let has_few = memory.is_none_or(|memory| memory.n_times < ENOUGH_MEASUREMENTS);
        has_few && Bandwidth::of_chip(chip_name).is_none()
    }

    fn memory(&self, chip_name: &str) -> Option<&Memory> {
        let memory = self.memory.as_ref();
        memory.filter(|memory| memory.chip_name == chip_name)
    }
}

/// Adds the measurements of one response to the file at `path`.
///
/// The file is replaced as a whole. If two programs write at once, the later one wins.
///
/// # Errors
/// The system's error if the file can't be written. Log it; the response is not affected.
pub fn record(path: &Path, key: &Key, sample: &Sample) -> io::Result<()> {
    let mut measured = Measured::read(path);
    let newest = measured.records.values().map(|record| record.last_use);
    let newest = newest.max().unwrap_or(0);
    let before = measured.of(key).copied();
    let mut record = before.unwrap_or_default();
    record.update(sample);
    if before == Some(record) && record.last_use == newest {
        return Ok(());
    }
    record.last_use = newest.saturating_add(1);
    measured.records.insert(key.0.clone(), record);
    file::write(path, measured)
}

/// Adds a bandwidth measurement of a machine with this chip to the file at `path`. The highest
/// measurement counts, because other programs can only lower it.
///
/// # Errors
/// The system's error if the file can't be written. The bandwidth must then be measured again.
pub fn record_bandwidth(path: &Path, chip_name: &str, bytes_per_second: u64) -> io::Result<()> {
    let mut measured = Measured::read(path);
    let before = measured.memory(chip_name);
    let highest = before.map_or(0, |memory| memory.bytes_per_second);
    let n_times = before.map_or(0, |memory| memory.n_times);
    measured.memory = Some(Memory {
        chip_name: chip_name.to_owned(),
        bytes_per_second: bytes_per_second.max(highest),
        n_times: n_times.saturating_add(1),
    });
    file::write(path, measured)
}
