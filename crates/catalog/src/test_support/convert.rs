//! Converts a safetensors folder to one GGUF file: weights, tokenizer and chat template.
//!
//! Setup makes the starter's GGUF file with it, and tests compare both engines on the same weights.
//!
//! Rule: nothing is guessed. A value of `config.json` or `tokenizer.json` that is not understood is
//! an error that names the file and the value, because a model with a small mistake produces nonsense
//! without any error.

mod config;
mod generation;
pub(super) mod pack;
pub(super) mod plan;
pub(super) mod tokenizer;
mod weights;

use std::fmt::Display;
use std::io;
use std::path::Path;

use config::ModelConfig;
use pack::{OutOfRange, pack_codes_as_q4_1, pack_row};
use plan::Planned;
use weights::Weights;

use crate::file_error::{FaultCode, FileError};
use crate::gguf::TensorType;
use crate::safetensors::folder_name;
use crate::test_support::GgufWriter;

/// The quantization of the matrices. Vectors, such as norms and biases, stay F32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Quantization {
    /// Four bytes per element: exactly the numbers of the folder.
    F32,
    /// Two bytes per element.
    #[default]
    F16,
    /// 8.5 bits per element.
    Q8_0,
    /// 5 bits per element. Lossless for weights that are 4-bit affine already.
    Q4_1,
}

/// Writes the model in `folder` to the GGUF file `to`, which appears only when it is complete. The
/// file is in memory until then.
///
/// Reads folders in the layout of Hugging Face and mlx-lm, of the families `llama`, `mistral`,
/// `qwen2` and `qwen3`, with weights in f32, f16 or bf16, or as mlx-lm quantizes them (affine, 2 to
/// 8 bits).
///
/// # Errors
/// [`FileError`]; no file is left behind.
pub fn convert(folder: &Path, to: &Path, quantization: Quantization) -> Result<(), FileError> {
    let config = ModelConfig::read(folder)?;
    let weights = Weights::open(folder)?;
    let planned = plan::plan(&config, &weights, quantization)?;
    let mut writer = GgufWriter::new();
    writer
        .string("general.architecture", config.family.architecture())
        .string("general.type", "model");
    if let Some(name) = folder_name(folder) {
        writer.string("general.name", &name);
    }
    writer
        .u32("general.file_type", quantization.file_type())
        .u32("general.quantization_version", 2);
    generation::write(folder, &mut writer)?;
    config.write(&mut writer);
    tokenizer::write(folder, config.vocab_size, &mut writer)?;
    for tensor in &planned {
        writer.tensor(&tensor.name, &tensor.shape(), tensor.kind, encoded(tensor)?);
    }
    write_file(&writer, to).map_err(|error| FileError::io(to, &error))
}

impl Quantization {
    /// Returns the number of `general.file_type`: llama.cpp's `llama_ftype`.
    pub(crate) fn file_type(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q4_1 => 3,
            Self::Q8_0 => 7,
        }
    }
}

/// Writes a part file next to `to`, and renames it when it is complete and synced.
fn write_file(writer: &GgufWriter, to: &Path) -> io::Result<()> {
    let folder = match to.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let (prefix, suffix) = (format!(".{name}."), ".part");
    let mut part = tempfile::Builder::new();
    part.prefix(&prefix).suffix(suffix);
    // By default only the owner may read a temporary file, which a model does not need.
    part.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
    let part = part.tempfile_in(folder)?;
    writer.write(&mut part.as_file())?;
    part.as_file().sync_all()?;
    part.persist(to).map_err(|error| error.error)?;
    Ok(())
}

/// Encodes a tensor row by row.
fn encoded(tensor: &Planned<'_>) -> Result<Vec<u8>, FileError> {
    let Planned { kind, matrix, .. } = tensor;
    let keeps_codes = *kind == TensorType::Q4_1 && matrix.has_codes_of_4_bits();
    let mut row = vec![0.0; matrix.n_columns];
    let mut codes = vec![0; matrix.n_columns];
    let mut groups = Vec::new();
    let mut packed = Vec::new();
    for index in 0..matrix.n_rows {
        let source = tensor.source(index);
        let result = if keeps_codes {
            let group_size = matrix.read_affine_row(source, &mut codes, &mut groups);
            pack_codes_as_q4_1(&codes, &groups, group_size, &mut packed)
        } else {
            matrix.read_row(source, &mut row);
            pack_row(*kind, &row, &mut packed)
        };
        result.map_err(|OutOfRange(value)| {
            let what = format!("an element of {}, to be packed as {kind},", matrix.name);
            unsupported(&matrix.path, what, value)
        })?;
    }
    Ok(packed)
}

/// Returns the error for a file that is malformed, or that contradicts another one.
fn damaged(path: &Path, reason: impl Into<String>) -> FileError {
    FileError::new(path, FaultCode::Damaged, reason)
}

/// Returns the error for a value that GGUF or this converter can't express.
fn unsupported(path: &Path, what: impl Display, value: impl Display) -> FileError {
    let reason = format!("{what} is {value}, which cannot be written as GGUF here");
    FileError::new(path, FaultCode::WrongEntry, reason)
}

#[cfg(test)]
mod tests;
