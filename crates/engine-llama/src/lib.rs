//! Runs GGUF models with llama.cpp.
//!
//! From the outside in: [`LlamaEngine`] reads a file and loads it, [`LlamaModel`] answers, `session`
//! keeps what the model remembers of a conversation, `native` is llama.cpp itself.
//!
//! Rule: llama.cpp computes logits and nothing else. Templates, sampling, stop strings and text are
//! the engine room's, so that an answer means the same in both engines; only the tokenizer is
//! llama.cpp's, because a GGUF file describes its tokenizer in llama.cpp's own terms.

mod crew;
mod decoder;
mod device;
mod engine;
mod files;
mod memory;
mod model;
mod native;
mod session;
mod state;
#[cfg(test)]
mod test_support;
mod text;

pub use engine::LlamaEngine;
pub use model::LlamaModel;
