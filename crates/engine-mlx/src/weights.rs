//! The tensors of a model folder, checked and memory-mapped.
//!
//! `files` opens the safetensors files; `loader` builds layers from tensors in the form that the
//! device computes with, and reports progress; `experts` finds the matrices of mixtures of experts,
//! for which checkpoints have three layouts.

mod experts;
mod files;
mod loader;

pub(crate) use experts::ExpertPath;
pub(crate) use files::WeightFiles;
pub(crate) use loader::Loader;
