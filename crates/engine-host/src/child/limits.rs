//! Limits that the child sets for itself before it reads anything.

use rustix::process::{Resource, Rlimit, setrlimit};

/// Forbids core dumps: one would put prompts and answers on the disk.
pub(super) fn apply() {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    if let Err(error) = setrlimit(Resource::Core, none) {
        tracing::warn!(%error, "core dumps stay as the system has them");
    }
}
