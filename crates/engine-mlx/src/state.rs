//! Saves a session of a model as bytes and restores it: the caches of all layers.
//!
//! Attention layers without a window are in blocks of consecutive tokens, because their keys and
//! values never change. Complete blocks may have 8 bits, as those of parked conversations have. The head
//! is a safetensors file with all other layers, after the last token and at the last checkpoint. Its
//! content follows from the model and from these two positions, so its header is compared with the
//! expected one and not interpreted.
//!
//! Rule: no data reaches a session before all of it was found valid.

use std::collections::HashMap;
use std::ops::Range;

use crc32fast::Hasher;
use mlx_rs::transforms::eval;
use mlx_rs::{Array, Dtype};
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::json;
use transom_engine::saved::{BLOCK_TOKENS, bad_saved_data};
use transom_engine::{EngineError, ModelInfo, ParkedState, SavedConversation};

use crate::error::{Context, MlxResult};
use crate::kv_cache::{LayerCache, QUANTIZED_DESCRIPTION};
use crate::nn::{Positions, Rope, Transformer};
use crate::ops::{copied_array, element_size};
use crate::session::Session;

/// Names in the metadata of the head. They are part of its format, so they stay.
const END: &str = "end";
const CHECKPOINT: &str = "checkpoint";

/// Longest header in bytes; that of a thousand layers is shorter.
const MAX_HEADER: usize = 1 << 20;

const SAVING: &str = "saving the session";
const RESTORING: &str = "restoring the session";

/// Returns keys and values of `tokens` in the layers without a window; see
/// [`transom_engine::SavableCache::save_block`].
pub(crate) fn save_block(session: &Session, tokens: Range<usize>) -> Result<Vec<u8>, EngineError> {
    let mut block = Vec::new();
    let quantized = is_quantized(session.quantizes_parked(), tokens.len());
    for cache in session
        .caches()
        .iter()
        .filter(|cache| !cache.has_checkpoints())
    {
        let arrays = cache.block(tokens.start as i32, tokens.end as i32, quantized);
        push_bytes(&mut block, arrays.during(SAVING)?)?;
    }
    Ok(block)
}

/// Returns true if a block of this many tokens has keys and values in 8 bits: only complete ones have.
fn is_quantized(quantizes_parked: bool, n_tokens: usize) -> bool {
    quantizes_parked && n_tokens == BLOCK_TOKENS
}

/// See [`transom_engine::SavableCache::save_head`].
pub(crate) fn save_head(
    session: &Session,
    transformer: &Transformer,
    info: &ModelInfo,
) -> Result<Vec<u8>, EngineError> {
    let saved = SavedPositions {
        end: session.tokens().len() as i32,
        checkpoint: last_checkpoint(session.caches()),
    };
    let header = header(saved, session.caches(), identity(transformer, info))?;
    let failed = |error| EngineError::backend(SAVING, error);
    let mut json = serde_json::to_vec(&header).map_err(failed)?;
    // Aligns the data.
    json.resize(json.len().next_multiple_of(8), b' ');
    let mut head = (json.len() as u64).to_le_bytes().to_vec();
    head.extend(json);
    for (cache, position) in saved.of_caches(session.caches()) {
        push_bytes(&mut head, cache.saved(position).during(SAVING)?)?;
    }
    Ok(head)
}

fn push_bytes(bytes: &mut Vec<u8>, arrays: Vec<Array>) -> Result<(), EngineError> {
    for array in arrays {
        let array = array.contiguous().and_then(|array| array.view::<u8>());
        let array = array.during(SAVING)?;
        let slice = array.try_as_slice::<u8>();
        bytes.extend(slice.map_err(|error| EngineError::backend(SAVING, error))?);
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
struct SavedPositions {
    end: i32,
    /// The position of the last checkpoint; 0 if there is none.
    checkpoint: i32,
}

impl SavedPositions {
    /// Returns the caches that have checkpoints, at the end and then at the last checkpoint.
    fn of_caches(self, caches: &[LayerCache]) -> impl Iterator<Item = (&LayerCache, i32)> {
        let positions = [self.end, self.checkpoint].into_iter();
        positions
            .filter(|position| *position > 0)
            .flat_map(|position| {
                let caches = caches.iter().filter(|cache| cache.has_checkpoints());
                caches.map(move |cache| (cache, position))
            })
    }
}

/// Returns the last checkpoint, which all caches with checkpoints share; 0 if there is none.
fn last_checkpoint(caches: &[LayerCache]) -> i32 {
    let checkpoints = caches.iter().map(LayerCache::checkpoints);
    let last = checkpoints.filter_map(|checkpoints| checkpoints.last().copied());
    last.min().unwrap_or(0)
}

/// Returns the session that [`save_head`] and [`save_block`] saved.
pub(crate) fn restore(
    transformer: &Transformer,
    info: &ModelInfo,
    saved: SavedConversation<'_>,
) -> Result<Session, EngineError> {
    let mut reader = Reader(saved.head);
    let metadata = reader.header()?;
    let identity = identity(transformer, info);
    let n_tokens = saved.tokens.len();
    let checkpoint = checkpoint(&metadata).filter(|checkpoint| *checkpoint <= n_tokens);
    let checkpoint = checkpoint.ok_or_else(|| bad_saved_data("it has a bad checkpoint"))?;
    let positions = SavedPositions {
        end: n_tokens as i32,
        checkpoint: checkpoint as i32,
    };
    let templates = lazy_caches(transformer).during(RESTORING)?;
    let expected = header(positions, &templates, identity)?;
    if json!(metadata) != json!(expected) {
        return Err(bad_saved_data("it was saved by another model"));
    }
    let mut others = Vec::new();
    for (template, position) in positions.of_caches(&templates) {
        let arrays = saved_arrays(template, position).into_iter();
        let arrays = reader.arrays(arrays.map(|array| (array.shape, array.dtype)).collect())?;
        others.push(template.restore(position, arrays).during(RESTORING)?);
    }
    reader.end()?;
    let n_others = templates
        .iter()
        .filter(|cache| cache.has_checkpoints())
        .count();
    let mut checkpoints = others.split_off(n_others).into_iter();
    let mut others = others.into_iter();
    let mut caches = Vec::with_capacity(templates.len());
    for template in &templates {
        // Their numbers are equal, because both lists come from the templates.
        let cache = match template.has_checkpoints() {
            true => others.next(),
            false => Some(template.reserved(n_tokens as i32).during(RESTORING)?),
        };
        caches.extend(cache);
    }
    for cache in caches.iter_mut().filter(|cache| cache.has_checkpoints()) {
        if let Some(checkpoint) = checkpoints.next() {
            cache.add_restored_checkpoint(checkpoint);
        }
    }
    let growing = templates.iter().any(|cache| !cache.has_checkpoints());
    let mut end = 0;
    for (index, tokens) in saved.blocks.iter().enumerate() {
        if !growing || tokens.start != end || tokens.end > n_tokens {
            return Err(bad_saved_data("it has a bad block"));
        }
        end = tokens.end;
        let block = (saved.read_block)(index)?;
        let quantized = is_quantized(transformer.quantizes_parked, tokens.len());
        append_block(&mut caches, &templates, tokens.len(), quantized, &block)?;
    }
    if growing && end != n_tokens {
        return Err(bad_saved_data("it has too few blocks"));
    }
    let session = Session::from_saved(
        saved.tokens.to_vec(),
        caches,
        saved.id,
        transformer.quantizes_parked,
    );
    session.evaluate().during(RESTORING)?;
    Ok(session)
}

fn append_block(
    caches: &mut [LayerCache],
    templates: &[LayerCache],
    n_tokens: usize,
    quantized: bool,
    block: &[u8],
) -> Result<(), EngineError> {
    let mut reader = Reader(block);
    let layers = caches.iter_mut().zip(templates);
    for (cache, template) in layers.filter(|(cache, _)| !cache.has_checkpoints()) {
        let arrays = template.block_arrays(n_tokens as i32, quantized);
        let arrays = reader.arrays(arrays)?;
        cache.append_block(arrays).during(RESTORING)?;
        // So that no more than this layer is in memory twice.
        eval(cache.arrays()).during(RESTORING)?;
    }
    reader.end()
}

/// Returns the position of the checkpoint; `None` if the head has none.
fn checkpoint(metadata: &Metadata) -> Option<usize> {
    metadata.metadata().as_ref()?.get(CHECKPOINT)?.parse().ok()
}

/// The rest of saved bytes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n_bytes: usize) -> Result<&'a [u8], EngineError> {
        let parts = self.0.split_at_checked(n_bytes);
        let (taken, rest) = parts.ok_or_else(|| bad_saved_data("it is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn header(&mut self) -> Result<Metadata, EngineError> {
        let length = self.take(8)?.try_into().map(u64::from_le_bytes);
        let length = length.ok().and_then(|length| usize::try_from(length).ok());
        let length = length.filter(|length| *length <= MAX_HEADER);
        let length = length.ok_or_else(|| bad_saved_data("its header is too long"))?;
        serde_json::from_slice(self.take(length)?).map_err(bad_saved_data)
    }

    fn arrays(&mut self, arrays: Vec<(Vec<i32>, Dtype)>) -> Result<Vec<Array>, EngineError> {
        let read = |(shape, dtype): (Vec<i32>, Dtype)| {
            let bytes = self.take(n_bytes(&shape, dtype))?;
            copied_array(bytes, &shape, dtype).during(RESTORING)
        };
        arrays.into_iter().map(read).collect()
    }

    fn end(self) -> Result<(), EngineError> {
        match self.0 {
            [] => Ok(()),
            rest => Err(bad_saved_data(format!(
                "it has {} bytes too many",
                rest.len()
            ))),
        }
    }
}

#[derive(Debug, Clone)]
struct SavedArray {
    name: String,
    dtype: Dtype,
    shape: Vec<i32>,
}

fn n_bytes(shape: &[i32], dtype: Dtype) -> usize {
    let n_elements: usize = shape.iter().map(|&size| size as usize).product();
    n_elements * element_size(dtype).unwrap_or(0)
}

/// Returns the arrays that are saved of a cache at a position.
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
    transformer.hidden_states(&token, &mut [&mut caches], Positions::Last)?;
    Ok(caches)
}

/// Returns the header of the head: the model, and the tensors in order.
fn header(
    saved: SavedPositions,
    caches: &[LayerCache],
    mut identity: HashMap<String, String>,
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
    for (name, position) in [(END, saved.end), (CHECKPOINT, saved.checkpoint)] {
        identity.insert(name.to_owned(), position.to_string());
    }
    for (index, (cache, position)) in saved.of_caches(caches).enumerate() {
        for array in saved_arrays(cache, position) {
            let SavedArray { name, dtype, shape } = &array;
            let dtype = file_dtype(*dtype).ok_or_else(|| {
                bad_saved_data(format!("{name} of type {dtype:?} cannot be saved"))
            })?;
            let shape = shape.iter().map(|&size| size as usize).collect();
            push(
                format!("layers.{index}.{name}"),
                dtype,
                shape,
                n_bytes(&array.shape, array.dtype),
            );
        }
    }
    Metadata::new(Some(identity), tensors).map_err(bad_saved_data)
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
    let blocks = match transformer.quantizes_parked {
        true => QUANTIZED_DESCRIPTION,
        false => "plain",
    };
    let of_model = [
        ("transom_conversation", "5"),
        ("blocks", blocks),
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
