//! Fuzz target that reads arbitrary bytes as a GGUF file. See `../README.md`.
#![no_main]

#[path = "../src/exercise.rs"]
mod exercise;

use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: exercise::CountingAllocator = exercise::CountingAllocator;

fuzz_target!(|bytes: &[u8]| exercise::exercise(bytes));
