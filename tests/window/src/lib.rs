//! The app in a real window: its own screen, session bus and window manager, the real programs,
//! driven from outside as a person would.
//!
//! The suite, the pictures and the measurements share what is here. The rule: a wait is for a
//! state and ends with a sentence; nothing waits for a time, and no process outlives its stage.
#![cfg(target_os = "linux")]

pub mod app;
pub mod desktop;
pub mod drag;
pub mod driver;
pub mod evidence;
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
pub mod stage;

pub use app::App;
pub use desktop::Desktop;
pub use failure::{Failure, Outcome, check, until, until_within};
pub use page::Page;
pub use stage::{Stage, on_stage, on_stage_with_tray};
