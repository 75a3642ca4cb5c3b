//! Lets a process watch how much memory it takes while a chat template is compiled or rendered.
//!
//! minijinja has no limit on values: a few steps can make a string of any length, within a single
//! one. So only the process can bound them. It sets the watch once, at its start.

use std::any::Any;
use std::sync::OnceLock;

/// Starts a watch that ends when its result is dropped.
pub type MemoryWatch = fn() -> Box<dyn Any>;

static WATCH: OnceLock<MemoryWatch> = OnceLock::new();

/// Sets the watch for all templates of this process. Later calls have no effect.
pub fn set_memory_watch(watch: MemoryWatch) {
    let _ = WATCH.set(watch);
}

/// Starts the watch of this process, if it has one.
pub(super) fn start() -> Option<Box<dyn Any>> {
    WATCH.get().map(|watch| watch())
}
