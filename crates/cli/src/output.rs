//! What commands write: streamed text, JSON lines, tables, progress and numbers.
//!
//! Rule: standard output gets every piece of text at once and nothing but results; a reader that goes
//! away cancels the request.

mod answer;
mod json;
mod limits;
mod progress;
mod rows;
mod status_text;
mod table;
mod terminal;
mod text;

pub(crate) use self::{answer::*, json::*, limits::*, progress::*, rows::*};
pub(crate) use self::{status_text::*, table::*, terminal::*, text::*};
