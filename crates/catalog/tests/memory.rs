//! Measures the peak memory for describing a hostile model folder.
//!
//! Rule: there is only one test, because it counts the allocations of the whole process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use transom_catalog::safetensors::facts;

struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "an allocator has no safe form")]
// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let in_use = IN_USE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(in_use, Relaxed);
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work` and returns the peak of its allocations in bytes.
fn peak(work: impl FnOnce()) -> usize {
    let before = IN_USE.load(Relaxed);
    PEAK.store(before, Relaxed);
    work();
    PEAK.load(Relaxed) - before
}

const MB: usize = 1 << 20;
const ONE: &str = r#"{"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}"#;

fn weights(header: &str, data: &[u8]) -> Vec<u8> {
    let length = (header.len() as u64).to_le_bytes();
    [&length, header.as_bytes(), data].concat()
}

/// Returns a JSON array that repeats `item` to about `n_bytes`.
fn array(item: &str, n_bytes: usize) -> String {
    let items = vec![item; n_bytes / (item.len() + 1)];
    format!("[{}]", items.join(","))
}

#[test]
fn describing_a_folder_takes_little_more_memory_than_its_longest_file() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    let remove = |name: &str| fs::remove_file(folder.path().join(name)).unwrap();
    let describe = |path: &Path, reason: Option<&str>| {
        let mut found = String::new();
        let peak = peak(|| {
            found = facts(path).map_or_else(|error| error.to_string(), |_| String::new());
        });
        match reason {
            Some(reason) => assert!(found.contains(reason), "{found}"),
            None => assert_eq!(found, ""),
        }
        peak
    };
    let values = [r#"{"":0}"#, "[]", "{}", "0", r#""""#];
    let model = weights(ONE, &[0; 4]);
    put("config.json", b"{}");
    put("model.safetensors", &model);

    for value in values {
        put("config.json", array(value, MB - MB / 8).as_bytes());
        let peak = describe(
            folder.path(),
            Some("config.json: has more than 65536 values"),
        );
        assert!(peak < 2 * MB, "{peak} bytes for {value}");
        // As many values as are allowed.
        put("config.json", array(value, 30_000 * value.len()).as_bytes());
        let peak = describe(folder.path(), None);
        assert!(peak < 16 * MB, "{peak} bytes for {value}");
    }
    put("config.json", b"{}");

    for value in values {
        let values = array(value, 4 * MB);
        let config = format!(r#"{{"a": {values}, "chat_template": "hi"}}"#);
        put("tokenizer_config.json", config.as_bytes());
        let peak = describe(folder.path(), None);
        assert!(peak < 6 * MB, "{peak} bytes for {value}");
    }
    let named = array(r#"{"name":"default"}"#, 4 * MB);
    let config = format!(r#"{{"chat_template": {named}}}"#);
    put("tokenizer_config.json", config.as_bytes());
    assert!(describe(folder.path(), None) < 6 * MB);
    let config = format!(r#"{{"chat_template": "{}"}}"#, "x".repeat(4 * MB));
    put("tokenizer_config.json", config.as_bytes());
    assert!(describe(folder.path(), Some("`chat_template` has more than")) < 12 * MB);
    remove("tokenizer_config.json");

    let tensor = |n: usize| format!(r#""{n}":{{"dtype":"F16","shape":[0],"data_offsets":[0,0]}}"#);
    let tensors = |n: usize| {
        let tensors: Vec<String> = (0..n).map(tensor).collect();
        weights(&format!("{{{}}}", tensors.join(",")), &[])
    };
    let many = tensors(152_000);
    put("model.safetensors", &many);
    let peak = describe(
        folder.path(),
        Some("its header has more than 1048576 values"),
    );
    assert!(peak < many.len() + 2 * MB, "{peak} bytes for a header");
    let fewer = tensors(20_000);
    put("model.safetensors", &fewer);
    let peak = describe(folder.path(), None);
    assert!(peak < 24 * fewer.len(), "{peak} bytes for {}", fewer.len());
}
