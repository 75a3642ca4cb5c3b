//! Converts a safetensors folder to one GGUF file: weights, tokenizer and chat template.
//!
//! Rule: nothing is guessed. A value of `config.json` or `tokenizer.json` that is not understood is
//! an error that names the file and the value, because a model with a small mistake produces nonsense
//! without any error.

mod config;
mod error;
mod generation;
pub(crate) mod pack;
pub(crate) mod plan;
pub(crate) mod tokenizer;
mod weights;

pub use error::ConvertError;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use config::ModelConfig;
use pack::{OutOfRange, pack_codes_as_q4_1, pack_row};
use plan::Planned;
use weights::Weights;

use crate::gguf::{GgufWriter, TensorType};
use crate::safetensors::folder_name;

/// Encoded bytes per write and per progress report.
const WRITE_BYTES: usize = 1 << 20;

/// The quantization of the matrices. Vectors, such as norms and biases, stay F32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(non_camel_case_types, reason = "the names that everybody knows")]
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
    /// Q4_K, with Q6_K where llama.cpp's mix of that name has it: about 4.8 bits per element. This is
    /// a plain quantizer, valid but not the best. Rows whose length is not a multiple of 256 become
    /// Q8_0.
    Q4_K_M,
}

/// Writes the model in `folder` to the GGUF file `to`, which appears only when it is complete.
///
/// Reads folders in the layout of Hugging Face and mlx-lm, of the families `llama`, `mistral`,
/// `qwen2` and `qwen3`, with weights in f32, f16 or bf16, or as mlx-lm quantizes them (affine, 2 to
/// 8 bits). Tensors are converted one by one. Calls `on_progress` with the written and the total
/// bytes; the last call has all bytes.
///
/// # Errors
/// [`ConvertError`]; no file is left behind.
pub fn convert(
    folder: &Path,
    to: &Path,
    quantization: Quantization,
    on_progress: &mut dyn FnMut(u64, u64),
) -> Result<(), ConvertError> {
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
        let added = writer.tensor_later(&tensor.name, &tensor.shape(), tensor.kind);
        added.map_err(|fault| ConvertError::folder(&tensor.matrix.path, fault.to_string()))?;
    }
    let total = writer.tensor_bytes();
    let mut done = 0;
    write_file(to, |file| {
        writer.write_with(file, |index, to| {
            write_tensor(&planned[index], to, &mut |n_bytes| {
                done += n_bytes;
                on_progress(done, total);
            })
        })
    })
}

impl Quantization {
    /// Returns the number of `general.file_type`: llama.cpp's `llama_ftype`.
    pub(crate) fn file_type(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q4_1 => 3,
            Self::Q8_0 => 7,
            Self::Q4_K_M => 15,
        }
    }
}

enum WriteError {
    /// The part file can't be written.
    Output(io::Error),
    /// A tensor can't be encoded.
    Input(ConvertError),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Writes a part file next to `to`, and renames it when it is complete and synced.
fn write_file(
    to: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> Result<(), WriteError>,
) -> Result<(), ConvertError> {
    let output = |error: io::Error| ConvertError::Output {
        path: to.to_owned(),
        reason: error.to_string(),
    };
    let folder = match to.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let mut part = tempfile::Builder::new();
    let (prefix, suffix) = (format!(".{name}."), ".part");
    part.prefix(&prefix).suffix(suffix);
    // By default only the owner may read a temporary file, which a model does not need.
    part.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
    let part = part.tempfile_in(folder).map_err(output)?;
    let mut buffer = BufWriter::with_capacity(WRITE_BYTES, part.as_file());
    match write(&mut buffer) {
        Ok(()) => {}
        Err(WriteError::Output(error)) => return Err(output(error)),
        Err(WriteError::Input(error)) => return Err(error),
    }
    drop(buffer);
    part.as_file().sync_all().map_err(output)?;
    part.persist(to).map_err(|error| output(error.error))?;
    Ok(())
}

/// Encodes a tensor row by row, and reports the bytes that it wrote since the last report.
fn write_tensor(
    tensor: &Planned<'_>,
    to: &mut dyn Write,
    on_bytes: &mut dyn FnMut(u64),
) -> Result<(), WriteError> {
    let Planned { kind, matrix, .. } = tensor;
    let keeps_codes = *kind == TensorType::Q4_1 && matrix.has_codes_of_4_bits();
    let mut row = vec![0.0; matrix.n_columns];
    let mut codes = vec![0; matrix.n_columns];
    let mut groups = Vec::new();
    let mut packed = Vec::new();
    for index in 0..matrix.n_rows {
        let source = tensor.order.source(index);
        let result = if keeps_codes {
            let group_size = matrix.read_affine_row(source, &mut codes, &mut groups);
            pack_codes_as_q4_1(&codes, &groups, group_size, &mut packed)
        } else {
            matrix.read_row(source, &mut row);
            pack_row(*kind, &row, &mut packed)
        };
        if let Err(OutOfRange(value)) = result {
            let what = format!("an element of {}, to be packed as {kind},", matrix.name);
            let error = ConvertError::unsupported(&matrix.path, what, value.to_string());
            return Err(WriteError::Input(error));
        }
        if packed.len() >= WRITE_BYTES || index + 1 == matrix.n_rows {
            to.write_all(&packed)?;
            on_bytes(packed.len() as u64);
            packed.clear();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
