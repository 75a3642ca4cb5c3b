//! Measures what the turns of conversations cost: the time to first token and the tokens that are
//! read again, compared with a cold read of the same prompt.
//!
//! [`ConversationBench`] has conversations as the app has them, with a supervisor of its own. All
//! messages are fixed texts, so the token counts depend on the tokenizer, the chat template and the
//! caches, and not on what the model generates.
//!
//! [`sustained`], [`quality`] and [`plot`] compute the results of `transom bench --sustained` and
//! `--quality` from what the command measured.
//!
//! Rule: the user's running Transom is not used. All files are in a temporary folder.

mod error;
pub mod plot;
pub mod quality;
mod report;
mod saved_files;
mod scenario;
mod supervised;
pub mod sustained;
mod text;

pub use error::BenchError;
pub use report::{Case, CaseKind, Report, Turn};
pub use scenario::ConversationBench;
pub use supervised::Options;
pub use text::mixed;
