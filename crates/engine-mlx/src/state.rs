//! Saves a session of a model to a file and restores it: the tokens and the caches of all layers.
//!
//! The content of the file follows from the model and from two numbers, that of all tokens and that
//! of the tokens up to the last checkpoint. So its header is compared with the expected one and not
//! interpreted.
//!
//! Rule: no data of a file reaches a session before the whole file was found valid.

mod file;

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crc32fast::Hasher;
use mlx_rs::{Array, Dtype};
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::json;
use transom_engine::{EngineError, ModelInfo, ParkedState};

use self::file::ChecksummedFile;
use crate::error::{Context, MlxResult};
use crate::kv_cache::LayerCache;
use crate::nn::{Positions, Rope, Transformer};
use crate::ops::copied_array;
use crate::session::Session;

/// Names of tensors in the file. They are part of its format, so they stay.
const TOKENS: &str = "tokens";
const CHECKPOINT_TOKENS: &str = "pinned_tokens";
const CHECKSUM: &str = "checksum";

const SAVING: &str = "saving the session";
const RESTORING: &str = "restoring the session";

/// Writes `session`, of the model that `info` describes, to a new file. Returns the number of its
/// tokens; see [`transom_engine::LoadedModel::save_state`].
pub(crate) fn save(
    session: &Session,
    transformer: &Transformer,
    info: &ModelInfo,
    path: &Path,
) -> Result<usize, EngineError> {
    let n_tokens = session.tokens().len();
    if n_tokens == 0 {
        return Ok(0);
    }
    let file = ChecksummedFile::create(path)?;
    write(file, session, identity(transformer, info)).inspect_err(|_| {
        // An incomplete file that cannot be removed is refused when it is restored.
        let _ = fs::remove_file(path);
    })?;
    Ok(n_tokens)
}

fn write(
    mut file: ChecksummedFile<'_>,
    session: &Session,
    identity: HashMap<String, String>,
) -> Result<(), EngineError> {
    let saved = SavedPositions {
        end: session.tokens().len() as i32,
        checkpoint: last_checkpoint(session.caches()),
    };
    let header = header(saved, session.caches(), identity, &file)?;
    file.write_header(&header)?;
    for n_tokens in [saved.end, saved.checkpoint] {
        let tokens = session.tokens()[..n_tokens as usize].iter();
        let tokens: Vec<u8> = tokens.flat_map(|token| token.to_le_bytes()).collect();
        file.write(&tokens)?;
    }
    for (cache, position) in saved.of_caches(session.caches()) {
        for array in cache.saved(position).during(SAVING)? {
            let bytes = array.contiguous().and_then(|array| array.view::<u8>());
            let bytes = bytes.during(SAVING)?;
            let bytes = bytes.try_as_slice::<u8>();
            let bytes = bytes.map_err(|error| file.bad(error))?;
            file.write(bytes)?;
        }
    }
    file.write_checksum()
}

#[derive(Debug, Clone, Copy)]
struct SavedPositions {
    end: i32,
    /// The position of the last checkpoint; 0 if there is none.
    checkpoint: i32,
}

impl SavedPositions {
    /// Returns all caches at the end, then those that have checkpoints at the last checkpoint.
    fn of_caches(self, caches: &[LayerCache]) -> impl Iterator<Item = (&LayerCache, i32)> {
        let at_end = caches.iter().map(move |cache| (cache, self.end));
        let caches = caches.iter().filter(move |_| self.checkpoint > 0);
        let at_checkpoint = caches.filter(|cache| cache.has_checkpoints());
        at_end.chain(at_checkpoint.map(move |cache| (cache, self.checkpoint)))
    }
}

/// Returns the last checkpoint, which all caches with checkpoints share; 0 if there is none.
fn last_checkpoint(caches: &[LayerCache]) -> i32 {
    let checkpoints = caches.iter().map(LayerCache::checkpoints);
    let last = checkpoints.filter_map(|checkpoints| checkpoints.last().copied());
    last.min().unwrap_or(0)
}

/// Reads the session that [`save`] wrote; see [`transom_engine::LoadedModel::restore_state`].
pub(crate) fn restore(
    transformer: &Transformer,
    info: &ModelInfo,
    path: &Path,
) -> Result<Session, EngineError> {
    let mut file = ChecksummedFile::open(path)?;
    let metadata = file.read_header()?;
    let identity = identity(transformer, info);
    if metadata.metadata().as_ref() != Some(&identity) {
        return Err(file.bad("it was saved by another model"));
    }
    let n_tokens = length(&metadata, TOKENS);
    let context_length = info.context_length;
    if n_tokens == 0 || n_tokens > context_length {
        let reason = format!("it has {n_tokens} tokens, but the context holds {context_length}");
        return Err(file.bad(reason));
    }
    let checkpoint = length(&metadata, CHECKPOINT_TOKENS);
    if checkpoint > n_tokens {
        let reason = format!("it has a checkpoint at token {checkpoint} of {n_tokens}");
        return Err(file.bad(reason));
    }
    let saved = SavedPositions {
        end: n_tokens as i32,
        checkpoint: checkpoint as i32,
    };
    let templates = lazy_caches(transformer).during(RESTORING)?;
    let expected = header(saved, &templates, identity, &file)?;
    if json!(metadata) != json!(expected) {
        return Err(file.bad("its tensors are not those of this model"));
    }
    let tokens = read_tokens(&mut file, n_tokens, info)?;
    if read_tokens(&mut file, checkpoint, info)? != tokens[..checkpoint] {
        return Err(file.bad("its checkpoint has other tokens"));
    }
    let mut caches = Vec::with_capacity(templates.len());
    for (template, position) in saved.of_caches(&templates) {
        let arrays = saved_arrays(template, position)
            .iter()
            .map(|array| {
                let bytes = file.read(array.n_bytes())?;
                copied_array(&bytes, &array.shape, array.dtype).during(RESTORING)
            })
            .collect::<Result<Vec<_>, _>>()?;
        caches.push(template.restore(position, arrays).during(RESTORING)?);
    }
    file.check_checksum()?;
    let checkpoints = caches.split_off(templates.len());
    let with_checkpoints = caches.iter_mut().filter(|cache| cache.has_checkpoints());
    for (cache, checkpoint) in with_checkpoints.zip(checkpoints) {
        cache.add_restored_checkpoint(checkpoint);
    }
    Ok(Session::from_saved(tokens, caches))
}

/// Returns the length of a vector in the file; 0 if the file does not have it.
fn length(metadata: &Metadata, name: &str) -> usize {
    let length = metadata.info(name).and_then(|info| info.shape.first());
    length.copied().unwrap_or(0)
}

fn read_tokens(
    file: &mut ChecksummedFile<'_>,
    n_tokens: usize,
    info: &ModelInfo,
) -> Result<Vec<u32>, EngineError> {
    let bytes = file.read(n_tokens * 4)?;
    let tokens = bytes.as_chunks().0.iter();
    let tokens: Vec<u32> = tokens.map(|bytes| u32::from_le_bytes(*bytes)).collect();
    let is_unknown = |token: &&u32| **token as usize >= info.vocab_size;
    match tokens.iter().find(is_unknown) {
        Some(token) => Err(file.bad(format!("token {token} is not in the vocabulary"))),
        None => Ok(tokens),
    }
}

#[derive(Debug, Clone)]
struct SavedArray {
    name: String,
    dtype: Dtype,
    shape: Vec<i32>,
}

impl SavedArray {
    fn n_bytes(&self) -> usize {
        let size = crate::ops::element_size(self.dtype).unwrap_or(0);
        let n_elements: usize = self.shape.iter().map(|&size| size as usize).product();
        n_elements * size
    }
}

/// Returns the arrays that the file has of a cache at a position.
fn saved_arrays(cache: &LayerCache, position: i32) -> Vec<SavedArray> {
    let shapes = cache.saved_shapes(position).into_iter();
    shapes
        .zip(cache.arrays())
        .map(|((name, shape), array)| SavedArray {
            name,
            dtype: array.dtype(),
            shape,
        })
        .collect()
}

/// Returns the caches of the model after one token, whose arrays are never evaluated: they only
/// provide types and sizes.
fn lazy_caches(transformer: &Transformer) -> MlxResult<Vec<LayerCache>> {
    let token = Array::from_slice(&[0_u32], &[1]);
    let mut caches = transformer.new_caches();
    transformer.hidden_states(&token, &mut caches, Positions::Last)?;
    Ok(caches)
}

/// Returns the header of the file: the model, and the tensors in order.
fn header(
    saved: SavedPositions,
    caches: &[LayerCache],
    identity: HashMap<String, String>,
    file: &ChecksummedFile<'_>,
) -> Result<Metadata, EngineError> {
    let mut tensors = Vec::new();
    let mut end = 0;
    let mut push = |name: String, dtype, shape, n_bytes| {
        let data_offsets = (end, end + n_bytes);
        end += n_bytes;
        let info = TensorInfo {
            dtype,
            shape,
            data_offsets,
        };
        tensors.push((name, info));
    };
    for (name, n_tokens) in [(TOKENS, saved.end), (CHECKPOINT_TOKENS, saved.checkpoint)] {
        let n_tokens = n_tokens as usize;
        let dtype = safetensors::Dtype::U32;
        push(name.to_owned(), dtype, vec![n_tokens], n_tokens * 4);
    }
    for (index, (cache, position)) in saved.of_caches(caches).enumerate() {
        for array in saved_arrays(cache, position) {
            let SavedArray { name, dtype, shape } = &array;
            let dtype = file_dtype(*dtype)
                .ok_or_else(|| file.bad(format!("{name} of type {dtype:?} cannot be saved")))?;
            let shape = shape.iter().map(|&size| size as usize).collect();
            push(
                format!("layers.{index}.{name}"),
                dtype,
                shape,
                array.n_bytes(),
            );
        }
    }
    push(CHECKSUM.to_owned(), safetensors::Dtype::U32, vec![1], 4);
    Metadata::new(Some(identity), tensors).map_err(|error| file.bad(error))
}

fn file_dtype(dtype: Dtype) -> Option<safetensors::Dtype> {
    match dtype {
        Dtype::Float32 => Some(safetensors::Dtype::F32),
        Dtype::Float16 => Some(safetensors::Dtype::F16),
        Dtype::Bfloat16 => Some(safetensors::Dtype::BF16),
        _ => None,
    }
}

/// Returns the properties of the model that keys and values depend on.
fn identity(transformer: &Transformer, info: &ModelInfo) -> HashMap<String, String> {
    // With LongRoPE, the rotation of keys depends on the context length.
    let mut rope = Hasher::new();
    let numbers = transformer.ropes.iter().flat_map(Rope::numbers);
    numbers.for_each(|number| rope.update(&number.to_le_bytes()));
    let of_model = [
        ("transom_conversation", "2"),
        ("engine", &info.engine),
        ("name", &info.name),
        ("architecture", &info.architecture),
        ("n_parameters", &info.n_parameters.to_string()),
        ("vocab_size", &info.vocab_size.to_string()),
        ("stored_as", &info.stored_as),
        ("computed_as", &info.computed_as),
        ("rope", &rope.finalize().to_string()),
    ];
    let owned = of_model.map(|(name, value)| (name.to_owned(), value.to_owned()));
    owned.into()
}
