//! Resource limits that the child sets before it reads anything.

use rustix::process::{Resource, Rlimit, setrlimit};

/// Disables core dumps, which would write prompts and responses to the disk.
pub(super) fn apply() {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    if let Err(error) = setrlimit(Resource::Core, none) {
        tracing::warn!(%error, "core dumps could not be disabled");
    }
}
