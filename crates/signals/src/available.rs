//! The memory that is available now.
//!
//! Rule: this number is only shown to people. Budgets never depend on it, because it changes every
//! second.

use sysinfo::{MemoryRefreshKind, System};

/// Returns the bytes that a program can allocate now without swapping; in a container, within the
/// limit of the container. `None` if the system does not report it.
pub fn available_bytes() -> Option<u64> {
    let mut system = System::new().ok()?;
    system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
    let limit = system.cgroup_limits().map(|limits| limits.free_memory);
    let bytes = system.available_memory();
    let bytes = limit.map_or(bytes, |limit| limit.min(bytes));
    (bytes > 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hardware;

    #[test]
    fn the_available_memory_is_known() {
        let available = available_bytes().unwrap();
        assert!(available < Hardware::detect().memory_bytes);
    }
}
