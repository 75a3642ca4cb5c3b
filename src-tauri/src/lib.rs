//! The desktop app: menu-bar icon, windows, hotkey, and the commands of the pages.
//!
//! It decides nothing about models, answers or conversations: rooms in `crates/` do. What could be
//! wrong here is in plain functions, so that it is tested without a screen.
//!
//! Rule: only this crate names Tauri.

#[cfg(test)]
mod bindings;
pub mod wire;
