//! Runs safetensors models with MLX.
//!
//! One model on one thread: [`MlxEngine`] loads a folder in the layout of mlx-lm and Hugging Face,
//! [`MlxModel`] prefills in chunks and decodes with the next step queued before a token leaves.
//! The room imports `engine`, `catalog` and `files`, and is the only one that names MLX.
//!
//! From the outside in: `engine` (load), `model` (one answer), `decoder` (the loop), `models` (one
//! file an architecture), `nn` (the layers they share), `weights` (tensors from disk), `device`,
//! `state` (a conversation on disk).

mod config;
mod decoder;
mod device;
mod engine;
mod error;
mod kv_cache;
mod memory;
mod model;
mod models;
mod nn;
mod ops;
mod sampler;
mod state;
mod weights;

pub use engine::MlxEngine;
pub use model::MlxModel;
