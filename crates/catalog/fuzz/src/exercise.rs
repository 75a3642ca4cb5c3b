//! Reads bytes that may be a GGUF file, for the fuzzer and the replay of its corpus.
//!
//! Rule: nothing panics, and reading never allocates more memory than the size of the input, apart
//! from [`ONE_MESSAGE`].

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use transom_catalog::gguf::{Gguf, Split, Value};

/// Bytes that the description of a fault may take, however short the file is.
const ONE_MESSAGE: usize = 2048;
/// Bytes of facts that don't depend on the file's size: one number per layer, for at most 4096 layers,
/// twice while they are collected.
const FACTS: usize = 80 << 10;

/// Counts the bytes that this thread has allocated, and the peak.
pub(crate) struct CountingAllocator;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(change: isize) {
    // Not while the thread ends, when its counters no longer exist.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + change);
        MOST.with(|most| most.set(most.get().max(held.get())));
    });
}

// SAFETY: all calls are passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the guarantees of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the guarantees of `dealloc`.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both exist while the contents move.
        count(size as isize);
        // SAFETY: the caller keeps the guarantees of `realloc`.
        let moved = unsafe { System.realloc(place, layout, size) };
        count(-(layout.size() as isize));
        moved
    }
}

/// Runs `work`, and returns its result with the peak of its allocations in bytes.
pub(crate) fn most_held<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    MOST.set(before);
    let result = work();
    (result, (MOST.get() - before) as usize)
}

/// Reads `bytes` with every function that the catalog offers.
///
/// # Panics
/// If reading allocates too much memory, or returns impossible values. Panics of the reader itself
/// are what the fuzzer searches for.
pub(crate) fn exercise(bytes: &[u8]) {
    let (_, held) = most_held(|| Gguf::parse(bytes).map(|view| walk(&view, bytes)));
    let limit = bytes.len() + ONE_MESSAGE;
    assert!(held <= limit, "{} bytes made {held}", bytes.len());
    let Ok(view) = Gguf::parse(bytes) else {
        return;
    };
    let (facts, held) = most_held(|| view.facts());
    let limit = 2 * bytes.len() + FACTS;
    assert!(held <= limit, "{} bytes made facts of {held}", bytes.len());
    if let Ok(facts) = facts {
        for kind in [transom_catalog::KvType::F16, transom_catalog::KvType::Q8_0] {
            let _ = facts.kv_cache_bytes(facts.context_length.unwrap_or(u64::MAX), kind);
        }
    }
}

fn walk(view: &Gguf<'_>, bytes: &[u8]) {
    let n_entries = view.entries().map(|(_, value)| walk_value(value)).count();
    assert!(n_entries <= bytes.len());
    assert_eq!(view.tensors().count() as u64, view.n_tensors());
    let mut sum = 0;
    for tensor in view.tensors() {
        let end = view.data_offset() + tensor.offset + tensor.n_bytes;
        assert!(end <= bytes.len() as u64, "{} ends at {end}", tensor.name);
        assert!(tensor.n_elements() <= 16 * bytes.len() as u64);
        sum += tensor.n_bytes;
    }
    assert_eq!(sum, view.tensor_bytes());
    assert!(sum <= bytes.len() as u64, "tensors share bytes");
    let _ = Split::of(view);
}

fn walk_value(value: Value<'_>) {
    if let Some(array) = value.as_array() {
        assert_eq!(array.iter().count() as u64, array.len());
        array.iter().for_each(walk_value);
    }
    let _ = (value.as_u64(), value.as_bool());
    let _ = value.as_str();
}
