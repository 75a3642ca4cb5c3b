//! Tensors of a model folder: found, checked and mapped, but read only when used.
//!
//! `files` opens the safetensors files and answers with one tensor at a time; `loader` turns named
//! tensors into layers in the form that the device computes with, and reports progress; `experts`
//! finds the matrices of mixtures, which checkpoints lay out in three ways.

mod experts;
mod files;
mod loader;

pub(crate) use experts::ExpertPath;
pub(crate) use files::WeightFiles;
pub(crate) use loader::{LoadContext, Loader};
