//! Reads and writes `measured.json`.
//!
//! Rule: values that this program could not have written are ignored, and the file never has more
//! than [`MAX_RECORDS`] records.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Measured, Memory, Record};

/// Maximum number of models; the least recently used are removed first.
const MAX_RECORDS: usize = 200;
/// Maximum size of the file. Transom writes no longer one.
const MAX_BYTES: u64 = 1 << 20;
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Contents {
    version: u32,
    models: BTreeMap<String, Record>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory: Option<Memory>,
}

pub(super) fn read(path: &Path) -> Measured {
    let contents: Option<Contents> = match transom_files::read(path, MAX_BYTES) {
        Ok(text) => serde_json::from_slice(&text).ok(),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::FileTooLarge | ErrorKind::InvalidInput
            ) =>
        {
            None
        }
        Err(_) => return Measured::default(),
    };
    match contents {
        Some(contents) if contents.version == VERSION => Measured {
            records: contents
                .models
                .into_iter()
                .map(without_impossible_numbers)
                .collect(),
            memory: contents.memory.filter(is_likely),
        },
        _ => {
            set_aside(path);
            Measured::default()
        }
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

/// Renames the file, over an older renamed one.
fn set_aside(path: &Path) {
    // If that fails, the next write replaces the file.
    let _ = fs::rename(path, path.with_extension("json.damaged"));
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
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer_pretty(&mut file, &contents)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
