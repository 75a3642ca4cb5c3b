//! How an answer reaches the reader: streamed text, JSON lines, progress and the line of numbers.
//!
//! Rule: standard output gets every piece of text at once and nothing but the answer; a reader
//! that goes away cancels the job.

pub(crate) mod answer;
pub(crate) mod json;
pub(crate) mod progress;
pub(crate) mod restraint;
pub(crate) mod rows;
pub(crate) mod size;
pub(crate) mod stats;
pub(crate) mod table;
pub(crate) mod tokens;
pub(crate) mod transfer;
pub(crate) mod verdict;
