//! The app in real windows, with the real supervisor, engine process and starter model.
//!
//! Each test has a desktop, a data folder and an app of its own, so they run side by side. What a
//! failed one saw is kept in `target/window-tests`.
#![cfg(target_os = "linux")]

mod chat;
mod faults;
mod ground;
mod history;
mod models;
mod outside;
mod prompt;
mod reach;
mod settings;
mod shelf;
mod talk;
mod tray;
