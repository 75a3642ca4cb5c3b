//! What commands write: streamed text, JSON lines, tables, progress and numbers.
//!
//! Rule: standard output gets every piece of text at once and nothing but results; a reader that goes
//! away cancels the request.

pub(crate) mod answer;
pub(crate) mod json;
pub(crate) mod limits;
pub(crate) mod progress;
pub(crate) mod rows;
pub(crate) mod status_text;
pub(crate) mod table;
pub(crate) mod terminal;
pub(crate) mod text;
