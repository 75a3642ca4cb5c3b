//! A conversation in a file: its tokens, and what every layer remembers of them.
//!
//! It is a safetensors file that ends with a checksum. What it must hold follows from the model and
//! the numbers of tokens (all, and up to the last pinned place) alone, so its header is compared and not interpreted. Rule: nothing of a
//! file reaches a session before all of it was found right.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crc32fast::Hasher;
use mlx_rs::{Array, Dtype};
use safetensors::tensor::{Metadata, TensorInfo};
use transom_engine::{EngineError, ModelInfo};

use crate::config::bad;
use crate::decoder::Session;
use crate::error::{Context, MlxResult};
use crate::kv_cache::LayerCache;
use crate::nn::{Rope, Transformer, Wanted};
use crate::ops::copied_array;

/// Longest header, in bytes: one of a thousand layers is shorter.
const MAX_HEADER: usize = 1 << 20;

const TOKENS: &str = "tokens";
const PINNED: &str = "pinned_tokens";
const CHECKSUM: &str = "checksum";

const KEEPING: &str = "keeping a conversation";
const TAKING_UP: &str = "taking up a conversation";

/// An array of a layer, as a file keeps it.
#[derive(Debug, Clone)]
struct Form {
    name: String,
    dtype: Dtype,
    shape: Vec<i32>,
}

impl Form {
    fn n_bytes(&self) -> usize {
        let size = crate::ops::element_size(self.dtype).unwrap_or(0);
        let n_elements: usize = self.shape.iter().map(|&size| size as usize).product();
        n_elements * size
    }
}

/// Writes `session`, of the model that `info` describes, to a new file. Returns its tokens; see
/// [`transom_engine::LoadedModel::save_state`].
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
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let file = options.open(path).map_err(|error| wrong(path, &error))?;
    write(file, session, identity(transformer, info), path).inspect_err(|_| {
        // Half a file is of no use to anybody; one that cannot be removed is refused later.
        let _ = fs::remove_file(path);
    })?;
    Ok(n_tokens)
}

fn write(
    file: File,
    session: &Session,
    identity: HashMap<String, String>,
    path: &Path,
) -> Result<(), EngineError> {
    let n_tokens = session.tokens().len();
    let places = Places {
        end: n_tokens as i32,
        pin: last_pin(session.cache()),
    };
    let layout = layout(places, session.cache(), path)?;
    let metadata = Metadata::new(Some(identity), layout);
    let metadata = metadata.map_err(|error| bad(path, error.to_string()))?;
    let mut out = Summed::new(file);
    let wrong = |error| wrong(path, &error);
    out.write_header(&metadata).map_err(wrong)?;
    for n_tokens in [places.end, places.pin] {
        let tokens = session.tokens()[..n_tokens as usize].iter();
        let tokens: Vec<u8> = tokens.flat_map(|token| token.to_le_bytes()).collect();
        out.write(&tokens).map_err(wrong)?;
    }
    for (layer, place) in places.of_layers(session.cache()) {
        let arrays = layer.stored(place).during(KEEPING)?;
        for array in arrays {
            let bytes = array.contiguous().and_then(|array| array.view::<u8>());
            let bytes = bytes.during(KEEPING)?;
            let bytes = bytes.try_as_slice::<u8>();
            let bytes = bytes.map_err(|error| bad(path, error.to_string()))?;
            out.write(bytes).map_err(wrong)?;
        }
    }
    out.write_sum().map_err(wrong)
}

/// The places of a conversation that a file keeps.
#[derive(Debug, Clone, Copy)]
struct Places {
    /// All tokens.
    end: i32,
    /// The tokens up to the last pinned place; 0 where there is none.
    pin: i32,
}

impl Places {
    /// Every layer at the end, then those that keep something of the pinned place.
    fn of_layers(self, cache: &[LayerCache]) -> impl Iterator<Item = (&LayerCache, i32)> {
        let at_end = cache.iter().map(move |layer| (layer, self.end));
        let has_pins = |layer: &&LayerCache| !matches!(layer, LayerCache::Growing(_));
        let pinned = cache.iter().filter(move |_| self.pin > 0).filter(has_pins);
        at_end.chain(pinned.map(move |layer| (layer, self.pin)))
    }
}

/// The last pinned place, which all layers with pins share; 0 where there is none.
fn last_pin(cache: &[LayerCache]) -> i32 {
    let pins = cache.iter().map(LayerCache::pins);
    let last = pins.filter_map(|pins| pins.last().copied());
    last.min().unwrap_or(0)
}

/// The conversation that [`save`] wrote, as a session of `transformer`; see
/// [`transom_engine::LoadedModel::restore_state`].
pub(crate) fn restore(
    transformer: &Transformer,
    info: &ModelInfo,
    path: &Path,
) -> Result<Session, EngineError> {
    let wrong = |error| wrong(path, &error);
    let mut from = Summed::new(File::open(path).map_err(wrong)?);
    let metadata = from.read_header().map_err(wrong)?;
    if metadata.metadata().as_ref() != Some(&identity(transformer, info)) {
        return Err(bad(path, "it is a conversation with another model"));
    }
    let n_tokens = length(&metadata, TOKENS);
    if n_tokens == 0 || n_tokens > info.context_length {
        let room = info.context_length;
        let reason = format!("it has {n_tokens} tokens, but the context holds {room}");
        return Err(bad(path, reason));
    }
    let pinned = length(&metadata, PINNED);
    if pinned > n_tokens {
        let reason = format!("it is pinned at token {pinned} of {n_tokens}");
        return Err(bad(path, reason));
    }
    let places = Places {
        end: n_tokens as i32,
        pin: pinned as i32,
    };
    let model = planned_cache(transformer).during(TAKING_UP)?;
    check_layout(&metadata, &layout(places, &model, path)?, path)?;
    let tokens = read_tokens(&mut from, n_tokens, info, path)?;
    if read_tokens(&mut from, pinned, info, path)? != tokens[..pinned] {
        return Err(bad(path, "what is pinned is another conversation"));
    }
    let mut caches = Vec::with_capacity(model.len());
    for (layer, place) in places.of_layers(&model) {
        let arrays = forms(layer, place)
            .iter()
            .map(|form| read_array(&mut from, form, path))
            .collect::<Result<Vec<_>, _>>()?;
        caches.push(layer.restored(place, arrays).during(TAKING_UP)?);
    }
    if !from.read_sum().map_err(wrong)? {
        return Err(bad(path, "its checksum is wrong"));
    }
    let pins = caches.split_off(model.len());
    let with_pins = caches
        .iter_mut()
        .filter(|layer| !matches!(layer, LayerCache::Growing(_)));
    for (layer, pin) in with_pins.zip(pins) {
        layer.take_pin(pin);
    }
    Ok(Session::holding(tokens, caches))
}

fn length(metadata: &Metadata, name: &str) -> usize {
    let length = metadata.info(name).and_then(|info| info.shape.first());
    length.copied().unwrap_or(0)
}

fn read_tokens(
    from: &mut Summed,
    n_tokens: usize,
    info: &ModelInfo,
    path: &Path,
) -> Result<Vec<u32>, EngineError> {
    let tokens = from.read(n_tokens * 4);
    let tokens = tokens.map_err(|error| wrong(path, &error))?;
    let tokens = tokens.as_chunks().0.iter();
    let tokens: Vec<u32> = tokens.map(|bytes| u32::from_le_bytes(*bytes)).collect();
    let is_foreign = |token: &&u32| **token as usize >= info.vocab_size;
    match tokens.iter().find(is_foreign) {
        Some(token) => Err(bad(path, format!("token {token} is not in the vocabulary"))),
        None => Ok(tokens),
    }
}

fn read_array(from: &mut Summed, form: &Form, path: &Path) -> Result<Array, EngineError> {
    let bytes = from.read(form.n_bytes());
    let bytes = bytes.map_err(|error| wrong(path, &error))?;
    copied_array(&bytes, &form.shape, form.dtype).during(TAKING_UP)
}

/// What a file keeps of a layer after `n_tokens` tokens.
fn forms(layer: &LayerCache, n_tokens: i32) -> Vec<Form> {
    let shapes = layer.stored_shapes(n_tokens).into_iter();
    shapes
        .zip(layer.arrays())
        .map(|((name, shape), array)| Form {
            name,
            dtype: array.dtype(),
            shape,
        })
        .collect()
}

/// The model's own cache after one token, which is planned and never computed: it says what arrays
/// there are.
fn planned_cache(transformer: &Transformer) -> MlxResult<Vec<LayerCache>> {
    let token = Array::from_slice(&[0_u32], &[1]);
    let mut cache = transformer.new_cache();
    transformer.forward(&token, &mut cache, Wanted::LastLogits)?;
    Ok(cache)
}

/// What a file holds, in order.
fn layout(
    places: Places,
    cache: &[LayerCache],
    path: &Path,
) -> Result<Vec<(String, TensorInfo)>, EngineError> {
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
    for (name, n_tokens) in [(TOKENS, places.end), (PINNED, places.pin)] {
        let n_tokens = n_tokens as usize;
        let dtype = safetensors::Dtype::U32;
        push(name.to_owned(), dtype, vec![n_tokens], n_tokens * 4);
    }
    for (index, (layer, place)) in places.of_layers(cache).enumerate() {
        for form in forms(layer, place) {
            let Form { name, dtype, shape } = &form;
            let dtype = file_dtype(*dtype)
                .ok_or_else(|| bad(path, format!("{name} of {dtype:?} are not kept")))?;
            let shape = shape.iter().map(|&size| size as usize).collect();
            push(
                format!("layers.{index}.{name}"),
                dtype,
                shape,
                form.n_bytes(),
            );
        }
    }
    push(CHECKSUM.to_owned(), safetensors::Dtype::U32, vec![1], 4);
    Ok(tensors)
}

fn file_dtype(dtype: Dtype) -> Option<safetensors::Dtype> {
    match dtype {
        Dtype::Float32 => Some(safetensors::Dtype::F32),
        Dtype::Float16 => Some(safetensors::Dtype::F16),
        Dtype::Bfloat16 => Some(safetensors::Dtype::BF16),
        _ => None,
    }
}

fn check_layout(
    found: &Metadata,
    expected: &[(String, TensorInfo)],
    path: &Path,
) -> Result<(), EngineError> {
    let n_found = found.tensors().len();
    if n_found != expected.len() {
        let reason = format!("it has {n_found} tensors instead of {}", expected.len());
        return Err(bad(path, reason));
    }
    for (name, expected) in expected {
        let is_same = found.info(name).is_some_and(|found| {
            (found.dtype, &found.shape, found.data_offsets)
                == (expected.dtype, &expected.shape, expected.data_offsets)
        });
        if !is_same {
            let (dtype, shape) = (expected.dtype, &expected.shape);
            let reason = format!("its {name} are not {dtype:?} of the shape {shape:?}");
            return Err(bad(path, reason));
        }
    }
    Ok(())
}

/// What the keys and values depend on.
fn identity(transformer: &Transformer, info: &ModelInfo) -> HashMap<String, String> {
    // With LongRoPE, the context length decides how keys are turned.
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

fn wrong(path: &Path, error: &io::Error) -> EngineError {
    bad(path, error.to_string())
}

/// A file that is read or written once, from its start, and the checksum of its data so far.
struct Summed {
    file: File,
    sum: Hasher,
}

impl Summed {
    fn new(file: File) -> Self {
        Self {
            file,
            sum: Hasher::new(),
        }
    }

    fn write_header(&mut self, metadata: &Metadata) -> io::Result<()> {
        let mut header = serde_json::to_vec(metadata)?;
        // Readers want the data aligned.
        header.resize(header.len().next_multiple_of(8), b' ');
        self.file.write_all(&(header.len() as u64).to_le_bytes())?;
        self.file.write_all(&header)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.file.write_all(bytes)
    }

    fn write_sum(mut self) -> io::Result<()> {
        let sum = self.sum.finalize();
        self.file.write_all(&sum.to_le_bytes())
    }

    /// The header of a file that is as long as it says. So nothing that is read after it takes more
    /// memory than the file has bytes.
    fn read_header(&mut self) -> io::Result<Metadata> {
        let invalid = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason);
        let file_bytes = self.file.metadata()?.len();
        let mut length = [0; 8];
        self.file.read_exact(&mut length)?;
        let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
        if length > MAX_HEADER || length as u64 > file_bytes {
            return Err(invalid("its header is too long"));
        }
        let mut header = vec![0; length];
        self.file.read_exact(&mut header)?;
        let metadata: Metadata = serde_json::from_slice(&header)?;
        let whole = (8 + length as u64).checked_add(metadata.data_len() as u64);
        if whole != Some(file_bytes) {
            return Err(invalid("it is not as long as it says"));
        }
        Ok(metadata)
    }

    fn read(&mut self, n_bytes: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; n_bytes];
        self.file.read_exact(&mut bytes)?;
        self.sum.update(&bytes);
        Ok(bytes)
    }

    /// Whether the sum at the end is that of what was read.
    fn read_sum(mut self) -> io::Result<bool> {
        let mut sum = [0; 4];
        self.file.read_exact(&mut sum)?;
        Ok(u32::from_le_bytes(sum) == self.sum.finalize())
    }
}
