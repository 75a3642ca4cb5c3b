//! What the fuzzer and the replay of its corpus do with bytes that may be a GGUF file.
//!
//! Promises: nothing panics, and at no moment does reading hold more memory than the bytes have,
//! apart from [`ONE_MESSAGE`].

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use transom_catalog::gguf::{Gguf, Split, Value};

/// Bytes that the description of a fault may take, however short the file.
const ONE_MESSAGE: usize = 512;
/// Bytes of facts that do not come from the file: one number a layer, for at most 4096 layers, twice
/// while they are gathered.
const FACTS: usize = 80 << 10;

/// Counts the bytes that this thread holds, and the most that it held.
pub(crate) struct CountingAllocator;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(change: isize) {
    // Not while the thread ends, when its counters are gone.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + change);
        MOST.with(|most| most.set(most.get().max(held.get())));
    });
}

// SAFETY: everything is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the promises of `dealloc`.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both are held while the contents move.
        count(size as isize);
        // SAFETY: the caller keeps the promises of `realloc`.
        let moved = unsafe { System.realloc(place, layout, size) };
        count(-(layout.size() as isize));
        moved
    }
}

/// Runs `work`, and gives the most bytes that it held at once.
pub(crate) fn most_held<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    MOST.set(before);
    let result = work();
    (result, (MOST.get() - before) as usize)
}

/// Reads `bytes` in every way that the catalog offers.
///
/// # Panics
/// If more memory is held than promised, or the reader says what cannot be. A panic of the reader's
/// own is what the fuzzer looks for.
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
    let _ = (value.as_u64(), value.as_f64(), value.as_bool());
    let _ = value.as_str();
}
