//! The desktop app: menu-bar icon, windows, hotkey, and the commands of the pages.
//!
//! It decides nothing about models, answers or conversations: rooms in `crates/` do. What could be
//! wrong here is in plain functions, so that it is tested without a screen.
//!
//! Rule: only this crate names Tauri.

#[macro_use]
mod names;

mod about;
mod arguments;
mod backups;
#[cfg(test)]
mod bindings;
mod catalogue;
mod commands;
mod desktop;
mod diagnostics;
mod dropped;
mod focus;
#[cfg(target_os = "linux")]
mod hand_over;
mod hotkey;
mod log;
mod measuring;
mod models;
mod place;
mod rooms;
mod shelf;
mod shell;
mod showing;
mod start;
mod status_view;
mod taken_text;
mod tray;
mod windows;
pub mod wire;
mod words;

pub use start::run;
