//! Tests of the app in real windows: with a separate screen, session bus and window manager, the
//! real programs, controlled from outside like a user does.
//!
//! The test suite, the screenshots and the measurements share this code. Rule: every wait is for a
//! state and fails with a sentence. Nothing waits for a fixed time, and no process outlives its
//! test.
#![cfg(target_os = "linux")]

pub mod app;
pub mod artifacts;
pub mod desktop;
pub mod drag;
pub mod driver;
pub mod failure;
pub mod gallery;
pub mod hub;
pub mod measure;
pub mod models;
pub mod page;
pub mod picture;
pub mod processes;
pub mod programs;
pub mod screen;
pub mod setup;

pub use app::App;
pub use desktop::Desktop;
pub use failure::{Failure, Outcome, check, until, until_within};
pub use page::Page;
pub use setup::{TestSetup, run_test, run_test_with_tray};
