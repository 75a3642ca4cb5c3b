//! Runs GGUF models with llama.cpp.
//!
//! From the outside in: [`LlamaEngine`] loads a file, `model` generates responses, `embedder` makes
//! embedding vectors, `session` manages the KV cache, `native` contains llama.cpp's bindings.
//!
//! Rule: llama.cpp only computes logits and pooled vectors. Templates, sampling, stop strings and text are in the
//! `engine` crate, so they are the same in both engines. Only the tokenizer is llama.cpp's, because
//! a GGUF file describes its tokenizer in llama.cpp's own terms.

mod decoder;
mod device;
mod draft;
mod embedder;
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
mod thread_tuner;
mod weights;

pub use engine::LlamaEngine;
