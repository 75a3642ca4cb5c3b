//! Maps the tensors of a model folder, and reads matrices row by row as f32.
//!
//! Rule: a matrix is checked when it is opened, so reading its rows can't fail.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use memmap2::Mmap;
use safetensors::Dtype;

use super::config::{AffineQuantization, QuantizationConfig};
use super::{damaged, unsupported};
use crate::file_error::FileError;
use crate::gguf::map;
use crate::safetensors::{read_header, weight_files};

pub(super) struct Weights {
    folder: PathBuf,
    files: Vec<(PathBuf, Mmap)>,
    tensors: BTreeMap<String, Place>,
}

struct Place {
    file: usize,
    dtype: Dtype,
    shape: Vec<usize>,
    start: usize,
    end: usize,
}

/// The elements of a tensor as they are in the file.
#[derive(Clone, Copy)]
struct Raw<'a> {
    path: &'a Path,
    dtype: Dtype,
    shape: &'a [usize],
    bytes: &'a [u8],
}

impl Weights {
    pub(super) fn open(folder: &Path) -> Result<Self, FileError> {
        let mut this = Self {
            folder: folder.to_owned(),
            files: Vec::new(),
            tensors: BTreeMap::new(),
        };
        for path in weight_files(folder)? {
            let metadata = read_header(&path)?;
            let mapping = transom_files::open(&path).and_then(|file| map(&file));
            let mapping = mapping.map_err(|error| FileError::io(&path, &error))?;
            // The length of the header is before it, and the tensors are after it.
            let length = mapping
                .first_chunk::<8>()
                .map_or(0, |bytes| u64::from_le_bytes(*bytes));
            let data_at = (length as usize).saturating_add(8);
            for (name, tensor) in metadata.tensors() {
                let at = |offset: usize| data_at.saturating_add(offset);
                let place = Place {
                    file: this.files.len(),
                    dtype: tensor.dtype,
                    shape: tensor.shape.clone(),
                    start: at(tensor.data_offsets.0),
                    end: at(tensor.data_offsets.1),
                };
                // The file may have been truncated since its header was checked.
                if place.end > mapping.len() {
                    return Err(damaged(&path, "changes while it is read"));
                }
                if this.tensors.insert(name.clone(), place).is_some() {
                    let reason = format!("tensor {name} is there twice");
                    return Err(damaged(&path, reason));
                }
            }
            this.files.push((path, mapping));
        }
        Ok(this)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.tensors
            .iter()
            .map(|(name, place)| (name.as_str(), self.files[place.file].0.as_path()))
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    fn raw(&self, name: &str) -> Result<Raw<'_>, FileError> {
        let place = self
            .tensors
            .get(name)
            .ok_or_else(|| damaged(&self.folder, format!("no file has the tensor {name}")))?;
        let (path, mapping) = &self.files[place.file];
        Ok(Raw {
            path,
            dtype: place.dtype,
            shape: &place.shape,
            bytes: &mapping[place.start..place.end],
        })
    }

    /// Opens the matrix `layer` + `.weight`, plain or quantized.
    pub(super) fn matrix(
        &self,
        layer: &str,
        quantization: Option<&QuantizationConfig>,
    ) -> Result<Matrix<'_>, FileError> {
        let name = format!("{layer}.weight");
        let weight = self.raw(&name)?;
        let &[n_rows, n_columns] = weight.shape else {
            return Err(bad_shape(weight, &name, "a matrix"));
        };
        let is_quantized = self.contains(&format!("{layer}.scales"));
        let (form, n_columns) = if is_quantized {
            let own = quantization.and_then(|config| config.of(layer));
            let own = own.ok_or_else(|| {
                let reason = format!("{layer} has scales, but config.json has no quantization");
                damaged(weight.path, reason)
            })?;
            self.affine(layer, own, weight, n_rows, n_columns)?
        } else {
            (Form::Plain(float(weight, &name)?), n_columns)
        };
        Ok(Matrix {
            name,
            path: weight.path.to_owned(),
            n_rows,
            n_columns,
            form,
        })
    }

    fn affine<'a>(
        &'a self,
        layer: &str,
        own: AffineQuantization,
        weight: Raw<'a>,
        n_rows: usize,
        n_words: usize,
    ) -> Result<(Form<'a>, usize), FileError> {
        let AffineQuantization { bits, group_size } = own;
        if weight.dtype != Dtype::U32 {
            return Err(unsupported_type(weight, &format!("{layer}.weight")));
        }
        let n_columns = n_words * 32 / bits;
        let scales = self.raw(&format!("{layer}.scales"))?;
        let biases = self.raw(&format!("{layer}.biases"))?;
        for (kind, raw) in [("scales", scales), ("biases", biases)] {
            let n_groups = n_columns / group_size;
            if raw.shape != [n_rows, n_groups]
                || n_groups * group_size != n_columns
                || n_columns * bits != n_words * 32
            {
                let name = format!("{layer}.{kind}");
                let expected = format!(
                    "as {n_rows} rows of {n_words} words with {bits} bits and groups of \
                     {group_size} need"
                );
                return Err(bad_shape(raw, &name, &expected));
            }
        }
        let form = Form::Affine {
            bits,
            group_size,
            words: weight.bytes,
            scales: float(scales, &format!("{layer}.scales"))?,
            biases: float(biases, &format!("{layer}.biases"))?,
        };
        Ok((form, n_columns))
    }

    /// Opens the vector `name` as a matrix with rows of one element.
    pub(super) fn vector(&self, name: &str) -> Result<Matrix<'_>, FileError> {
        let raw = self.raw(name)?;
        let &[n_rows] = raw.shape else {
            return Err(bad_shape(raw, name, "a vector"));
        };
        Ok(Matrix {
            name: name.to_owned(),
            path: raw.path.to_owned(),
            n_rows,
            n_columns: 1,
            form: Form::Plain(float(raw, name)?),
        })
    }
}

fn bad_shape(raw: Raw<'_>, name: &str, expected: &str) -> FileError {
    let reason = format!("tensor {name} is {:?}, not {expected}", raw.shape);
    damaged(raw.path, reason)
}

fn unsupported_type(raw: Raw<'_>, name: &str) -> FileError {
    unsupported(
        raw.path,
        format!("the type of tensor {name}"),
        format!("{:?}", raw.dtype),
    )
}

fn float<'a>(raw: Raw<'a>, name: &str) -> Result<Floats<'a>, FileError> {
    let Raw { dtype, bytes, .. } = raw;
    match dtype {
        Dtype::F32 | Dtype::F16 | Dtype::BF16 => Ok(Floats { dtype, bytes }),
        _ => Err(unsupported_type(raw, name)),
    }
}

#[derive(Debug, Clone, Copy)]
struct Floats<'a> {
    /// F32, F16 or BF16.
    dtype: Dtype,
    bytes: &'a [u8],
}

impl Floats<'_> {
    /// Decodes the numbers from `start` on, as many as `to` holds.
    fn read(&self, start: usize, to: &mut [f32]) {
        match self.dtype {
            Dtype::F32 => self.decode(start, to, f32::from_le_bytes),
            Dtype::F16 => self.decode(start, to, |bytes| f16::from_le_bytes(bytes).to_f32()),
            _ => self.decode(start, to, |bytes| bf16::from_le_bytes(bytes).to_f32()),
        }
    }

    fn decode<const N: usize>(
        &self,
        start: usize,
        to: &mut [f32],
        number: impl Fn([u8; N]) -> f32,
    ) {
        let (numbers, _) = self.bytes[start * N..].as_chunks();
        for (to, bytes) in to.iter_mut().zip(numbers) {
            *to = number(*bytes);
        }
    }
}

/// A matrix of a model, which is read row by row.
pub(super) struct Matrix<'a> {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) n_rows: usize,
    pub(super) n_columns: usize,
    form: Form<'a>,
}

enum Form<'a> {
    Plain(Floats<'a>),
    /// MLX's affine quantization: element = scale × code + bias, one pair per group. Codes are
    /// stored bit after bit, the lowest first, and each row begins a new word.
    Affine {
        bits: usize,
        group_size: usize,
        words: &'a [u8],
        scales: Floats<'a>,
        biases: Floats<'a>,
    },
    Computed(Vec<f32>),
}

impl<'a> Matrix<'a> {
    /// Returns a vector that is in no file.
    pub(super) fn computed(name: &str, path: &Path, values: Vec<f32>) -> Self {
        Self {
            name: name.to_owned(),
            path: path.to_owned(),
            n_rows: values.len(),
            n_columns: 1,
            form: Form::Computed(values),
        }
    }

    /// Reads row `row` into `to`, which has `n_columns` elements.
    pub(super) fn read_row(&self, row: usize, to: &mut [f32]) {
        match &self.form {
            Form::Plain(floats) => floats.read(row * self.n_columns, to),
            Form::Computed(values) => to.copy_from_slice(&values[row..=row]),
            Form::Affine { .. } => {
                let mut codes = vec![0; self.n_columns];
                let mut groups = Vec::new();
                let group_size = self.read_affine_row(row, &mut codes, &mut groups);
                let groups = groups.iter().zip(codes.chunks_exact(group_size));
                for (to, (&(scale, bias), codes)) in to.chunks_exact_mut(group_size).zip(groups) {
                    for (to, &code) in to.iter_mut().zip(codes) {
                        *to = scale * f32::from(code) + bias;
                    }
                }
            }
        }
    }

    /// Returns true if all codes fit in four bits, so that Q4_1 can store them unchanged.
    pub(super) fn has_codes_of_4_bits(&self) -> bool {
        matches!(self.form, Form::Affine { bits, group_size, .. }
            if bits <= 4 && group_size.is_multiple_of(32))
    }

    /// Reads the codes of a quantized row, and scale and bias of each group. Returns the group size. A
    /// plain matrix has no groups, and the size is 1.
    pub(super) fn read_affine_row(
        &self,
        row: usize,
        codes: &mut [u8],
        groups: &mut Vec<(f32, f32)>,
    ) -> usize {
        let &Form::Affine {
            bits,
            group_size,
            words,
            scales,
            biases,
        } = &self.form
        else {
            groups.clear();
            return 1;
        };
        let n_row_bytes = self.n_columns * bits / 8;
        let bytes = &words[row * n_row_bytes..][..n_row_bytes];
        let mask = (1u32 << bits) - 1;
        let (mut held, mut n_held) = (0u32, 0);
        let mut bytes = bytes.iter();
        for code in codes.iter_mut() {
            while n_held < bits {
                held |= u32::from(*bytes.next().unwrap_or(&0)) << n_held;
                n_held += 8;
            }
            *code = (held & mask) as u8;
            held >>= bits;
            n_held -= bits;
        }
        let n_groups = self.n_columns / group_size;
        let mut numbers = vec![0.0; 2 * n_groups];
        let (row_scales, row_biases) = numbers.split_at_mut(n_groups);
        scales.read(row * n_groups, row_scales);
        biases.read(row * n_groups, row_biases);
        groups.clear();
        groups.extend(row_scales.iter().copied().zip(row_biases.iter().copied()));
        group_size
    }
}
