//! This test has its own program, because other tests in the same process would change the
//! footprint.
#![cfg(any(target_os = "linux", target_os = "macos"))]

use std::hint::black_box;

use transom_signals::{footprint_bytes, own_footprint_bytes};

#[test]
fn the_footprint_grows_with_used_memory_and_shrinks_when_it_is_freed() {
    const SIZE: usize = 64 << 20;
    let before = own_footprint_bytes().unwrap();
    let memory = black_box(vec![1u8; SIZE]);
    let with = own_footprint_bytes().unwrap();
    assert!(with >= before + SIZE as u64 / 4 * 3, "{before} {with}");
    drop(memory);
    let after = own_footprint_bytes().unwrap();
    assert!(after < with - SIZE as u64 / 2, "{with} {after}");
    assert!(footprint_bytes(std::process::id()).is_some());
    // No process has this id on either system.
    assert_eq!(footprint_bytes(u32::MAX / 2), None);
}
