//! Runs safetensors models with MLX.
//!
//! [`MlxEngine`] loads a folder in the layout of mlx-lm and Hugging Face. [`MlxModel`] prefills in
//! chunks and decodes with the next step queued before it returns a token. A model belongs to one
//! thread.
//!
//! | Module | Content |
//! |---|---|
//! | `engine` | loading a model folder |
//! | `model` | a loaded model: responses, memory, saved state |
//! | `decoder`, `sampler` | prefill, decoding, sampling |
//! | `shared_steps` | whether responses share steps |
//! | `draft` | the draft model |
//! | `embedder` | embedding vectors |
//! | `sessions`, `session`, `kv_cache`, `state` | cached conversations: all, one, per layer, in a file |
//! | `models` | the architectures, by `model_type` |
//! | `nn`, `linear`, `ops` | the layers that architectures share, products with weights, and MLX operations |
//! | `config`, `weights` | JSON files and tensors of a model folder |
//! | `device`, `memory` | how this machine computes, and the memory that a model needs |

mod config;
mod decoder;
mod device;
mod draft;
mod embedder;
mod engine;
mod error;
mod kv_cache;
mod linear;
mod memory;
mod model;
mod models;
mod nn;
mod ops;
mod sampler;
mod session;
mod sessions;
mod shared_steps;
mod state;
#[cfg(test)]
mod test_support;
mod weights;

pub use engine::MlxEngine;
pub use model::MlxModel;
#[doc(hidden)]
pub use nn::delta_rule_bench;
pub use shared_steps::SharedSteps;
