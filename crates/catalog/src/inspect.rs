//! A model's facts by its path alone.

use std::path::{Path, PathBuf};

use crate::facts::ModelFacts;
use crate::gguf::{GgufError, GgufModel};
use crate::safetensors::{self, FolderError};

/// A path at which no model could be described.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// Nothing is there, or it cannot be reached.
    #[error("{path}: {reason}; name a GGUF file or a model folder")]
    NotFound {
        /// The path.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// A folder that leaves a choice.
    #[error("{path} holds {} models; name one of them: {}", .names.len(), .names.join(", "))]
    SeveralModels {
        /// The folder.
        path: PathBuf,
        /// Names of its files.
        names: Vec<String>,
    },
    /// A GGUF file that cannot be used.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// A folder that cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
}

/// Reads what a model is: of a GGUF file (any part of a split one), or of a folder with
/// `config.json` and safetensors files. Nothing is loaded; only headers are read.
///
/// # Errors
/// [`InspectError`], naming the file and what is wrong with it.
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
