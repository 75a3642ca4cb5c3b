//! The desktop app: menu-bar icon, windows, global shortcut, and the commands of pages.
//!
//! It decides nothing about models, responses or conversations; the crates in `crates/` do. Logic
//! that could be wrong is in plain functions, which tests call without a screen.
//!
//! Rule: only this crate names Tauri.

#[macro_use]
mod names;

mod about;
mod arguments;
mod attachments;
mod backend;
mod backups;
mod benchmarks;
#[cfg(test)]
mod bindings;
mod catalog;
mod clipboard;
mod commands;
mod deletion;
mod desktop;
mod diagnostics;
mod dropped;
mod focus;
mod frames;
mod hotkey;
mod idle_memory;
mod insertion;
mod local_api;
mod log;
mod login_item;
#[cfg(any(test, target_os = "macos"))]
mod menu_bar;
mod model_errors;
mod model_source;
mod models;
mod offer;
mod pages;
mod placement;
mod quit;
#[cfg(target_os = "linux")]
mod second_instance;
mod shell;
mod start;
mod status_view;
mod strings;
mod task;
mod tray;
mod update_host;
mod updates;
mod usage_recorder;
mod visibility;
mod windows;
pub mod wire;
mod zoom;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use transom_store::Timestamp;

pub use start::run;

/// Locks a mutex. A poisoned one is safe to use, because no change of the app's state stops halfway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the current time for stored records.
fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
