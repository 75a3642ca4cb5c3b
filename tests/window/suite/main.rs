//! Tests of the app in real windows, with the real supervisor, engine process and starter model.
//!
//! Each test has a separate desktop, data folder and app, so tests run in parallel. Artifacts of a
//! failed test are in `target/window-tests`.
#![cfg(target_os = "linux")]

mod access;
mod actions;
#[path = "../../../crates/document-reader/tests/fixtures/archives.rs"]
#[expect(
    clippy::unwrap_used,
    dead_code,
    reason = "all of it is a test, which needs one kind of document"
)]
mod archives;
mod attachments;
mod chat;
mod chat_settings;
mod downloads;
mod environment;
mod faults;
mod forms;
mod history;
mod insertion;
mod local_api;
mod models;
mod prompt;
mod settings;
mod system;
mod tray;
