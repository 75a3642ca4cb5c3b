//! How much memory there is to be had at this moment.
//!
//! Rule: a figure of now, for a person who asks whether something fits; budgets never follow from it,
//! because it is another one a second later.

use sysinfo::{MemoryRefreshKind, System};

/// Bytes that a program can get now without anything being written out; in a container, of what that
/// may have. `None` where the system does not say.
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
    fn the_system_says_what_is_available() {
        let available = available_bytes().unwrap();
        assert!(available < Hardware::detect().memory_bytes);
    }
}
