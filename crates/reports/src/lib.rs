//! What commands show: values as text for people, and the same values as JSON.
//!
//! Rule: a report depends on the values that it is given and on the width of the terminal. This crate
//! parses no arguments, asks no supervisor and writes to no stream; the command line does.

pub mod catalog_entry;
pub mod diagnostics;
pub mod doctor;
pub mod download;
pub mod estimate;
mod limits;
pub mod model_files;
pub mod model_lists;
pub mod recommendations;
pub mod schema_cost;
pub mod speed;
pub mod status;
mod status_text;
mod text;

pub use limits::{EarlyEnd, ResponseLimits, stop_reason};
pub use status_text::{
    limits_text, memory_use_text, passed_over_text, percent, signals_text, unload_reason_text,
    unload_text,
};
pub use text::{fit_short, guesses_text, runs_text, speed_range, speed_text, stats_line};
