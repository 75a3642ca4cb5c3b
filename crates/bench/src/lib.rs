//! Measures what the turns of conversations cost: the time to first token and the tokens that are
//! read again, compared with a cold read of the same prompt.
//!
//! [`ConversationBench`] has conversations as the app has them, with a supervisor of its own. All
//! messages are fixed texts, so the token counts depend on the tokenizer, the chat template and the
//! caches, and not on what the model generates.
//!
//! [`sustained`] measures the speed over minutes, with the supervisor of the caller. [`quality`] computes
//! how well a form predicts a text. A [`Benchmark`] is a result of either, which is saved, shown and
//! exported; [`plot`] draws it.
//!
//! Rule: [`ConversationBench`] does not use the user's running Transom, and all its files are in a
//! temporary folder.

mod error;
pub mod plot;
pub mod quality;
mod report;
mod result;
mod run_sustained;
mod saved_files;
mod scenario;
mod supervised;
pub mod sustained;
mod text;

pub use error::BenchError;
pub use report::{Case, CaseKind, Report, Turn};
pub use result::{Benchmark, EarlyEnd, EngineSettings, Measured, QualityReport, SustainedReport};
pub use run_sustained::{SustainedBench, SustainedOptions, load};
pub use scenario::ConversationBench;
pub use supervised::Options;
pub use text::mixed;
