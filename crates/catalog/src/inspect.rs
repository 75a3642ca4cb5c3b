//! Reads the facts of a model at a path.

use std::path::Path;

use crate::facts::ModelFacts;
use crate::file_error::{FaultCode, FileError};
use crate::gguf::GgufModel;
use crate::safetensors;

/// Reads the facts of the model at `path`: a GGUF file (any part of a split one), or a folder with
/// `config.json` and safetensors files. Reads only headers and loads nothing.
///
/// # Errors
/// [`FileError`], which names the file and the problem.
pub fn inspect(path: &Path) -> Result<ModelFacts, FileError> {
    let metadata = path.metadata().map_err(|error| {
        let reason = format!("{error}; name a GGUF file or a model folder");
        FileError::new(path, FaultCode::of_io(&error), reason)
    })?;
    match metadata.is_dir() {
        true => safetensors::facts(path),
        false => GgufModel::open(path)?.facts(),
    }
}
