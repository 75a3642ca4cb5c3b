//! What commands write: streamed text, JSON lines, what they wait for, and texts about models. Tables
//! and sizes are those of `transom-terminal`.
//!
//! Rule: standard output gets every piece of text at once and nothing but results; a reader that goes
//! away cancels the request. Only an answer that a program reads, and that a better one may replace, is
//! held back.

mod answer;
mod json;
mod limits;
mod progress;
mod status_text;
mod text;

pub(crate) use transom_terminal::{
    GB, Progress, Rows, Table, bar, count_short, disk_text, gigabytes, memory_text, numbers,
    of_disk, of_memory, paragraph, parameters_text, percent_of, rate_text, rough_time, seconds,
    size_text, tilde, tokens_short, words,
};

pub(crate) use self::{answer::*, json::*, limits::*, progress::*, status_text::*, text::*};
