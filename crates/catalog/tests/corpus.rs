//! Replays the fuzzer's corpus: every input that it was given or that once failed.
//!
//! Rule: nothing panics, and reading allocates no more than the fuzzer allows.

use std::fs;
use std::path::Path;

#[expect(unsafe_code, reason = "an allocator that counts has no safe form")]
#[path = "../fuzz/src/exercise.rs"]
mod exercise;

#[global_allocator]
static ALLOCATOR: exercise::CountingAllocator = exercise::CountingAllocator;

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/gguf");
    let entries = fs::read_dir(folder).expect("the corpus is there");
    let inputs: Result<_, _> = entries.map(|entry| fs::read(entry?.path())).collect();
    inputs.expect("the corpus can be read")
}

#[test]
fn the_corpus_is_read_without_panics() {
    let corpus = corpus();
    assert!(corpus.len() > 20, "{} inputs", corpus.len());
    for bytes in &corpus {
        exercise::exercise(bytes);
    }
}

/// Reads each prefix of each input.
#[test]
fn the_corpus_is_read_without_panics_wherever_it_is_cut() {
    for bytes in corpus() {
        (0..bytes.len()).for_each(|end| exercise::exercise(&bytes[..end]));
    }
}

#[test]
fn every_single_bit_may_be_wrong() {
    for mut bytes in corpus() {
        for at in 0..bytes.len() * 8 {
            bytes[at / 8] ^= 1 << (at % 8);
            exercise::exercise(&bytes);
            bytes[at / 8] ^= 1 << (at % 8);
        }
    }
}

#[test]
fn allocated_bytes_are_counted() {
    let (kept, held) = exercise::most_held(|| {
        drop(vec![0u8; 100_000]);
        vec![0u8; 1000]
    });
    assert_eq!(kept.len(), 1000);
    assert!((100_000..101_000).contains(&held), "{held}");
}
