//! Reads and writes `measured.json`.
//!
//! Rule: values that this program could not have written are ignored, and the file never has more
//! than [`MAX_RECORDS`] records.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Measured, Memory, Record};
use crate::versioned_file::read_or_set_aside;

/// Maximum number of models; the least recently used are removed first.
const MAX_RECORDS: usize = 200;
const VERSION: u64 = 1;

#[derive(Serialize, Deserialize)]
struct Contents {
    version: u64,
    models: BTreeMap<String, Record>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory: Option<Memory>,
}

pub(super) fn read(path: &Path) -> Measured {
    let Some(contents) = read_or_set_aside::<Contents>(path, VERSION) else {
        return Measured::default();
    };
    let records = contents.models.into_iter();
    Measured {
        records: records.map(without_impossible_numbers).collect(),
        memory: contents.memory.filter(is_likely),
    }
}

fn without_impossible_numbers((key, mut record): (String, Record)) -> (String, Record) {
    let is_rate = |rate: &f64| rate.is_finite() && *rate > 0.0 && *rate < 1e6;
    record.decode_tokens_per_second = record.decode_tokens_per_second.filter(is_rate);
    record.peak = record.peak.filter(|peak| peak.bytes < 1 << 50);
    (key, record)
}

/// Returns true for a bandwidth between a slow disk and a hundred times today's fastest memory.
fn is_likely(memory: &Memory) -> bool {
    (100_000_000..100_000_000_000_000).contains(&memory.bytes_per_second)
}

pub(super) fn write(path: &Path, measured: Measured) -> io::Result<()> {
    let mut models = measured.records;
    while models.len() > MAX_RECORDS {
        let oldest = models.iter().min_by_key(|(_, record)| record.last_use);
        let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
            break;
        };
        models.remove(&oldest);
    }
    let contents = Contents {
        version: VERSION,
        models,
        memory: measured.memory,
    };
    transom_files::replace(path, &serde_json::to_vec_pretty(&contents)?)
}
