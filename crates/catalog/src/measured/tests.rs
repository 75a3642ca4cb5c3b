//! Tests of what is stored, what is ignored, and of damaged files.

use std::fs;

use super::*;

fn key(name: &str) -> Key {
    Key::new(name, Format::Gguf, Some(KvType::F16))
}

fn response(rate: f64) -> Sample {
    Sample {
        response_tokens: 200,
        decode_tokens_per_second: Some(rate),
        context_tokens: 700,
        peak_bytes: 3_000_000_000,
    }
}

/// A response that is too short to count.
fn short_response() -> Sample {
    Sample {
        response_tokens: 2,
        context_tokens: 5,
        ..response(1000.0)
    }
}

#[test]
fn the_newest_response_counts_most_but_not_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE_NAME);
    record(&path, &key("a"), &response(10.0)).unwrap();
    let first = *Measured::read(&path).of(&key("a")).unwrap();
    assert_eq!(first.decode_tokens_per_second, Some(10.0));
    record(&path, &key("a"), &response(20.0)).unwrap();
    let second = *Measured::read(&path).of(&key("a")).unwrap();
    assert_eq!(second.decode_tokens_per_second, Some(13.0));
    assert_eq!(Measured::read(&path).of(&key("b")), None);
    assert_eq!(
        Measured::read(&path).of(&Key::new("a", Format::Gguf, Some(KvType::Q8_0))),
        None,
        "another format has its own record"
    );
}

#[test]
fn a_response_that_changes_nothing_writes_no_file() {
    use std::os::unix::fs::MetadataExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE_NAME);
    // A replaced file is another file.
    let is_written_by = |model: &str| {
        let before = std::fs::metadata(&path).map(|file| file.ino()).ok();
        record(&path, &key(model), &short_response()).unwrap();
        before != std::fs::metadata(&path).map(|file| file.ino()).ok()
    };
    assert!(is_written_by("a"));
    assert!(!is_written_by("a"));
    assert!(is_written_by("b"));
    assert!(is_written_by("a"), "it is the last used model now");
    assert!(!is_written_by("a"));
}

#[test]
fn a_very_short_response_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE_NAME);
    record(&path, &key("a"), &short_response()).unwrap();
    let known = *Measured::read(&path).of(&key("a")).unwrap();
    assert_eq!(known.decode_tokens_per_second, None);
    assert_eq!(known.peak, None, "nor of memory");
    let nonsense = Sample {
        decode_tokens_per_second: Some(f64::NAN),
        ..response(1.0)
    };
    record(&path, &key("a"), &nonsense).unwrap();
    let known = *Measured::read(&path).of(&key("a")).unwrap();
    assert_eq!(known.decode_tokens_per_second, None);
}

#[test]
fn the_peak_is_that_of_the_fullest_context() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE_NAME);
    let use_of = |context_tokens, peak_bytes| {
        let sample = Sample {
            context_tokens,
            peak_bytes,
            ..response(10.0)
        };
        record(&path, &key("a"), &sample).unwrap();
        let peak = Measured::read(&path).of(&key("a")).unwrap().peak;
        peak.map(|peak| (peak.bytes, peak.context_tokens))
    };
    assert_eq!(use_of(1000, 5), Some((5, 1000)));
    assert_eq!(use_of(4000, 9), Some((9, 4000)));
    assert_eq!(use_of(500, 6), Some((9, 4000)));
    assert_eq!(use_of(4000, 8), Some((8, 4000)), "the newest of a length");
}

#[test]
fn a_damaged_or_newer_file_is_set_aside_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE_NAME);
    let huge = " ".repeat(2 << 20);
    for bad in [
        "",
        "{",
        "[]",
        r#"{"version": 2, "models": {}}"#,
        "\u{0}",
        &huge,
    ] {
        fs::write(&path, bad).unwrap();
        let measured = Measured::read(&path);
        assert_eq!(measured.of(&key("a")), None);
        let aside = path.with_extension("json.damaged");
        assert!(!path.exists());
        assert_eq!(fs::read_to_string(aside).unwrap(), bad);
        record(&path, &key("a"), &response(10.0)).unwrap();
        assert!(Measured::read(&path).of(&key("a")).is_some());
    }
}

#[test]
fn impossible_numbers_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE_NAME);
    let text = r#"{"version": 1, "models": {"a gguf f16": {"decode_tokens_per_second": -5,
        "prefill_tokens_per_second": 1e300, "last_use": 7,
        "peak": {"context_tokens": 1, "bytes": 18446744073709551615}}}}"#;
    fs::write(&path, text).unwrap();
    let known = *Measured::read(&path).of(&key("a")).unwrap();
    assert_eq!(known.decode_tokens_per_second, None);
    assert_eq!(known.peak, None);
    record(&path, &key("a"), &response(10.0)).unwrap();
}

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing").join(FILE_NAME);
    assert!(record(&path, &key("a"), &response(10.0)).is_err());
    assert_eq!(Measured::read(&path), Measured::default());
}

#[test]
fn the_least_recently_used_records_are_removed_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE_NAME);
    let mut measured = Measured::default();
    for n in 0..250u64 {
        let known = Record {
            last_use: n,
            ..Record::default()
        };
        measured.records.insert(key(&format!("m{n}")).0, known);
    }
    file::write(&path, measured).unwrap();
    record(&path, &key("new"), &response(10.0)).unwrap();
    let measured = Measured::read(&path);
    assert_eq!(measured.records.len(), 200);
    assert!(measured.of(&key("new")).is_some() && measured.of(&key("m249")).is_some());
    assert!(measured.of(&key("m0")).is_none() && measured.of(&key("m50")).is_none());
}

/// A use that needed less memory corrects the estimate too, but carefully.
#[test]
fn a_lower_peak_corrects_by_half_and_at_most_a_tenth() {
    let starter = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/starter");
    let facts = crate::inspect(&starter).unwrap();
    let machine = Machine::with_memory(16 << 30);
    let computed = fit::need(&facts, &machine, KvCacheChoice::Automatic, 1000).total_bytes();
    let with = |bytes| {
        let known = Record {
            peak: Some(Peak {
                context_tokens: 1000,
                bytes,
            }),
            ..Record::default()
        };
        known.correction(&facts, &machine, KvCacheChoice::Automatic)
    };
    assert_eq!(with(computed), 0);
    // These bytes may be KV caches of other conversations.
    let parked = default_parked_bytes(machine.memory_bytes);
    assert_eq!(with(computed + parked), 0);
    assert_eq!(with(computed + parked + 1000), 1000);
    assert_eq!(with(computed - 1000), -500);
    assert_eq!(with(1), -((computed / 10) as i64));
}

#[test]
fn the_bandwidth_is_the_highest_that_was_measured_with_the_same_chip() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE_NAME);
    let known = |chip: &str| Measured::read(&path).bandwidth(chip);
    assert_eq!(known("a"), None);
    for rate in [20_000_000_000, 30_000_000_000, 10_000_000_000] {
        assert!(Measured::read(&path).wants_bandwidth("a"));
        record_bandwidth(&path, "a", rate).unwrap();
    }
    assert!(!Measured::read(&path).wants_bandwidth("a"));
    assert_eq!(known("a"), Some(30_000_000_000));
    record(&path, &key("m"), &response(10.0)).unwrap();
    assert_eq!(known("a"), Some(30_000_000_000), "a response keeps it");
    // The data folder was moved to another machine.
    assert_eq!(known("b"), None);
    record_bandwidth(&path, "b", 5_000_000_000).unwrap();
    assert_eq!((known("a"), known("b")), (None, Some(5_000_000_000)));
    assert!(Measured::read(&path).of(&key("m")).is_some());
    record_bandwidth(&path, "b", u64::MAX).unwrap();
    assert_eq!(known("b"), None, "no memory is so fast");
}
