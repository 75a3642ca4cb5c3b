//! The safetensors files of a folder, memory-mapped.
//!
//! The `safetensors` crate parses and checks the header (sizes, overlaps, products), so every
//! tensor is inside its file. Format: <https://github.com/huggingface/safetensors>.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;
use mlx_rs::{Array, Dtype};
use safetensors::SafeTensors;
use serde::Deserialize;
use transom_catalog::safetensors::is_for_text;
use transom_engine::tokenizer_config::read_json;
use transom_engine::{EngineError, UnsupportedFeature};

use crate::error::Context;
use crate::ops::{array_over_mapping, copied_array, element_size};

/// The tensors of a text model, by name.
#[derive(Debug)]
pub(crate) struct WeightFiles {
    folder: PathBuf,
    /// An error for element types that no layer can use. Files contain such tensors that no layer
    /// needs (position ids, masks).
    tensors: HashMap<String, Result<Tensor, EngineError>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Tensor {
    file: Arc<MappedFile>,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<i32>,
    bytes: Range<usize>,
}

#[derive(Debug)]
struct MappedFile {
    path: PathBuf,
    mapping: Arc<Mmap>,
}

/// An index has about a hundred bytes per tensor.
const MAX_INDEX_BYTES: u64 = 16 << 20;

const DOWNLOAD_AGAIN: &str = "download the model again";

/// `model.safetensors.index.json`.
#[derive(Deserialize)]
struct Index {
    weight_map: HashMap<String, String>,
}

impl WeightFiles {
    /// Maps the weight files of `folder` and reads their headers.
    pub(crate) fn open(folder: &Path) -> Result<Self, EngineError> {
        let mut files = Self {
            folder: folder.to_owned(),
            tensors: HashMap::new(),
        };
        for path in weight_paths(folder)? {
            add_file(&path, &mut files)?;
        }
        Ok(files)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    pub(crate) fn get(&self, name: &str) -> Result<&Tensor, EngineError> {
        let tensor = self.tensors.get(name).ok_or_else(|| {
            let reason = format!("tensor {name} is missing; download the model again");
            EngineError::bad_file(&self.folder, reason)
        })?;
        tensor.as_ref().map_err(EngineError::clone)
    }

    pub(crate) fn total_bytes(&self) -> u64 {
        self.usable().map(Tensor::n_bytes).sum()
    }

    /// Returns the tensors that a layer can use.
    pub(crate) fn usable(&self) -> impl Iterator<Item = &Tensor> {
        self.tensors.values().flatten()
    }
}

impl Tensor {
    pub(crate) fn n_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(crate) fn path(&self) -> &Path {
        &self.file.path
    }

    /// Returns the tensor as an array: over the mapped pages of its file if `in_place`, else a
    /// copy.
    pub(crate) fn to_array(&self, in_place: bool) -> Result<Array, EngineError> {
        let size = element_size(self.dtype).ok_or_else(|| {
            let reason = format!("{:?} weights are not supported", self.dtype);
            EngineError::bad_file(self.path(), reason)
        })?;
        let operation = format!("reading weights of {}", self.path().display());
        // Some tools write tensors that are not aligned to their elements.
        let mapping = &self.file.mapping;
        let array = if in_place && self.bytes.start.is_multiple_of(size) {
            let n_elements = self.bytes.len() / size;
            array_over_mapping(mapping, self.bytes.start, n_elements, self.dtype)
                .and_then(|flat| flat.reshape(&self.shape))
        } else {
            copied_array(&mapping[self.bytes.clone()], &self.shape, self.dtype)
        };
        array.during(&operation)
    }
}

/// Returns the files in the index or, without an index, the files `model*.safetensors`. Other files
/// may be adapters, or contain the same weights in another layout.
fn weight_paths(folder: &Path) -> Result<BTreeSet<PathBuf>, EngineError> {
    let index_path = folder.join("model.safetensors.index.json");
    let Some(index) = read_json::<Index>(&index_path, MAX_INDEX_BYTES)? else {
        return unlisted_weight_paths(folder);
    };
    let names: BTreeSet<&String> = index.weight_map.values().collect();
    names
        .into_iter()
        .map(|name| {
            let is_inside = !name.is_empty()
                && Path::new(name)
                    .components()
                    .all(|part| matches!(part, Component::Normal(_)));
            if !is_inside {
                let reason =
                    format!("it names {name:?}, which is not a file inside the model's folder");
                return Err(EngineError::bad_file(&index_path, reason));
            }
            let path = folder.join(name);
            if path.is_file() {
                Ok(path)
            } else {
                let what = "a weight file that the index names";
                Err(EngineError::not_found(path, what, DOWNLOAD_AGAIN))
            }
        })
        .collect()
}

fn unlisted_weight_paths(folder: &Path) -> Result<BTreeSet<PathBuf>, EngineError> {
    let entries = fs::read_dir(folder).map_err(|error| EngineError::bad_file(folder, error))?;
    let paths: BTreeSet<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("model") && name.ends_with(".safetensors")
        })
        .collect();
    if paths.is_empty() {
        let what = "weights (model*.safetensors)";
        return Err(EngineError::not_found(folder, what, DOWNLOAD_AGAIN));
    }
    Ok(paths)
}

#[expect(unsafe_code, reason = "memory-mapping")]
fn add_file(path: &Path, files: &mut WeightFiles) -> Result<(), EngineError> {
    let file = transom_files::open(path).map_err(|error| EngineError::bad_file(path, error))?;
    // SAFETY: the mapping is only read. If another program truncates the file, SIGBUS ends the
    // process, as with every memory-mapped model; programs do not write weights in place.
    let mapping =
        unsafe { Mmap::map(&file) }.map_err(|error| EngineError::bad_file(path, error))?;
    let mapped = Arc::new(MappedFile {
        path: path.to_owned(),
        mapping: Arc::new(mapping),
    });
    let bytes: &[u8] = &mapped.mapping;
    let parsed = SafeTensors::deserialize(bytes).map_err(|error| {
        let reason = format!("not a valid safetensors file ({error}); download the model again");
        EngineError::bad_file(path, reason)
    })?;
    for (name, view) in parsed.iter().filter(|(name, _)| is_for_text(name)) {
        let start = view.data().as_ptr() as usize - bytes.as_ptr() as usize;
        let Some(dtype) = mlx_dtype(view.dtype()) else {
            let dtype = format!("{:?}", view.dtype());
            let reason = format!("tensor {name} has the element type {dtype}");
            let feature = UnsupportedFeature::Quantization { name: dtype };
            let error = EngineError::unsupported(path, feature, reason);
            files.tensors.insert(name.to_owned(), Err(error));
            continue;
        };
        let shape = view
            .shape()
            .iter()
            .map(|&size| i32::try_from(size))
            .collect::<Result<_, _>>()
            .map_err(|_| {
                let reason = format!("tensor {name} has the shape {:?}", view.shape());
                EngineError::bad_file(path, reason)
            })?;
        let tensor = Tensor {
            file: Arc::clone(&mapped),
            dtype,
            shape,
            bytes: start..start + view.data().len(),
        };
        let earlier = files.tensors.insert(name.to_owned(), Ok(tensor));
        if earlier.is_some() {
            let reason = format!("tensor {name} is in more than one file");
            return Err(EngineError::bad_file(path, reason));
        }
    }
    Ok(())
}

fn mlx_dtype(dtype: safetensors::Dtype) -> Option<Dtype> {
    Some(match dtype {
        safetensors::Dtype::F32 => Dtype::Float32,
        safetensors::Dtype::F16 => Dtype::Float16,
        safetensors::Dtype::BF16 => Dtype::Bfloat16,
        safetensors::Dtype::U32 => Dtype::Uint32,
        safetensors::Dtype::I32 => Dtype::Int32,
        safetensors::Dtype::U8 => Dtype::Uint8,
        _ => return None,
    })
}
