//! The stages of text that do not depend on tools: complete characters, reasoning, stop strings.
//! [`TextStream`](crate::text_stream::TextStream) runs them.

pub mod reasoning;
pub mod stop;
pub mod utf8;

pub(crate) use reasoning::STRIPPED_MARKERS;
pub use reasoning::{OpenReasoning, REASONING_MARKERS};
