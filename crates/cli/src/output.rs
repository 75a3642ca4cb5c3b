//! What commands write: streamed text, JSON lines, what they wait for, and texts about models. Tables
//! and sizes are those of `transom-terminal`, reports those of `transom-reports`.
//!
//! Rule: standard output gets every piece of text at once and nothing but results; a reader that goes
//! away cancels the request. Only an answer that a program reads, and that a better one may replace, is
//! held back.

mod answer;
mod json;
mod progress;

pub(crate) use transom_terminal::{
    Progress, Rows, Table, count_short, disk_text, memory_text, numbers, paragraph,
    parameters_text, rate_text, rough_time, seconds, tilde, words,
};

pub(crate) use transom_reports::{
    EarlyEnd, ResponseLimits, fit_short, memory_use_text, passed_over_text, percent, runs_text,
    stats_line, unload_text,
};

pub(crate) use self::{answer::*, json::*, progress::*};

/// Returns why the machine stopped a response.
pub(crate) fn stop_reason(client: &crate::Client) -> String {
    transom_reports::stop_reason(client.status().ok().as_deref())
}
