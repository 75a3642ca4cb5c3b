//! The file in which it is remembered: read with care, written whole.
//!
//! Rule: nothing in the file is believed that could not have been written here, and it never grows
//! beyond [`MOST_RECORDS`].

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Measured, Memory, Record};

/// Models that are remembered; the least recently used go first.
const MOST_RECORDS: usize = 200;
/// Longest file; Transom writes no longer one.
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
            records: contents.models.into_iter().map(sound).collect(),
            memory: contents.memory.filter(is_likely),
            set_aside: None,
        },
        _ => Measured {
            set_aside: set_aside(path),
            ..Measured::default()
        },
    }
}

/// A record without numbers that no use can have had.
fn sound((key, mut record): (String, Record)) -> (String, Record) {
    let is_rate = |rate: &f64| rate.is_finite() && *rate > 0.0 && *rate < 1e6;
    record.decode_tokens_per_second = record.decode_tokens_per_second.filter(is_rate);
    record.prefill_tokens_per_second = record.prefill_tokens_per_second.filter(is_rate);
    record.peak = record.peak.filter(|peak| peak.bytes < 1 << 50);
    (key, record)
}

/// Between a slow disk and a hundred times the fastest memory of today.
fn is_likely(memory: &Memory) -> bool {
    (100_000_000..100_000_000_000_000).contains(&memory.bytes_per_second)
}

/// Moves the file away, over an older one that was moved before. Returns where to.
fn set_aside(path: &Path) -> Option<std::path::PathBuf> {
    let aside = path.with_extension("json.damaged");
    fs::rename(path, &aside).ok().map(|()| aside)
}

pub(super) fn write(path: &Path, measured: Measured) -> io::Result<()> {
    let mut models = measured.records;
    while models.len() > MOST_RECORDS {
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
