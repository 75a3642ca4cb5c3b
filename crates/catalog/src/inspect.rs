//! Reads the facts of a model at a path.

use std::path::{Path, PathBuf};

use crate::facts::ModelFacts;
use crate::gguf::{GgufError, GgufModel};
use crate::safetensors::{self, FolderError};

/// Why the model at a path can't be described.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// Nothing is at this path, or it can't be reached.
    #[error("{path}: {reason}; name a GGUF file or a model folder")]
    NotFound {
        /// The path.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// The folder contains several models.
    #[error("{path} holds {} models; name one of them: {}", .names.len(), .names.join(", "))]
    SeveralModels {
        /// The folder.
        path: PathBuf,
        /// Names of its files.
        names: Vec<String>,
    },
    /// The GGUF file can't be used.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// The model folder can't be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
}

/// Reads the facts of the model at `path`: a GGUF file (any part of a split one), or a folder with
/// `config.json` and safetensors files. Reads only headers and loads nothing.
///
/// # Errors
/// [`InspectError`], which names the file and the problem.
pub fn inspect(path: &Path) -> Result<ModelFacts, InspectError> {
    let metadata = path.metadata().map_err(|error| InspectError::NotFound {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    if metadata.is_dir() {
        return Ok(safetensors::facts(path)?);
    }
    Ok(GgufModel::open(path)?.facts()?)
}
