//! A conversation in a file: its tokens, and the keys and values that every layer has of them.
//!
//! It is a safetensors file that ends with a checksum. What it must hold follows from the model and
//! the number of tokens alone, so its header is compared and not interpreted. Rule: nothing of a
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
use crate::kv_cache::FullKvCache;
use crate::nn::{Transformer, Wanted};
use crate::ops::copied_array;

/// Longest header, in bytes: one of a thousand layers is shorter.
const MAX_HEADER: usize = 1 << 20;

const TOKENS: &str = "tokens";
const CHECKSUM: &str = "checksum";

/// Keys or values of one layer: `[1, n_heads, tokens, head_dim]`.
#[derive(Debug, Clone, Copy)]
struct Form {
    dtype: Dtype,
    n_heads: i32,
    head_dim: i32,
}

impl Form {
    fn of(array: &Array) -> Self {
        Self {
            dtype: array.dtype(),
            n_heads: array.dim(1),
            head_dim: array.dim(3),
        }
    }
}

/// Writes `session`, of the model that `info` describes, to a new file. Returns its tokens; see
/// [`transom_engine::LoadedModel::save_state`].
pub(crate) fn save(session: &Session, info: &ModelInfo, path: &Path) -> Result<usize, EngineError> {
    let n_tokens = session.tokens().len();
    if n_tokens == 0 {
        return Ok(0);
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let file = options.open(path).map_err(|error| wrong(path, &error))?;
    write(file, session, info, path).inspect_err(|_| {
        // Half a file is of no use to anybody; one that cannot be removed is refused later.
        let _ = fs::remove_file(path);
    })?;
    Ok(n_tokens)
}

fn write(file: File, session: &Session, info: &ModelInfo, path: &Path) -> Result<(), EngineError> {
    let forms = forms(session.cache());
    let layout = layout(session.tokens().len(), &forms, path)?;
    let metadata = Metadata::new(Some(identity(info)), layout);
    let metadata = metadata.map_err(|error| bad(path, error.to_string()))?;
    let mut out = Summed::new(file);
    let wrong = |error| wrong(path, &error);
    out.write_header(&metadata).map_err(wrong)?;
    let tokens = session.tokens().iter();
    let tokens: Vec<u8> = tokens.flat_map(|token| token.to_le_bytes()).collect();
    out.write(&tokens).map_err(wrong)?;
    for layer in session.cache() {
        for bytes in layer.bytes_of_tokens() {
            let bytes = bytes.during("keeping a conversation")?;
            let bytes = bytes.try_as_slice::<u8>();
            let bytes = bytes.map_err(|error| bad(path, error.to_string()))?;
            out.write(bytes).map_err(wrong)?;
        }
    }
    out.write_sum().map_err(wrong)
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
    if metadata.metadata().as_ref() != Some(&identity(info)) {
        return Err(bad(path, "it is a conversation with another model"));
    }
    let n_tokens = metadata.info(TOKENS).and_then(|info| info.shape.first());
    let n_tokens = n_tokens.copied().unwrap_or(0);
    if n_tokens == 0 || n_tokens > info.context_length {
        let room = info.context_length;
        let reason = format!("it has {n_tokens} tokens, but the context holds {room}");
        return Err(bad(path, reason));
    }
    let forms = expected_forms(transformer).during("taking up a conversation")?;
    check_layout(&metadata, &layout(n_tokens, &forms, path)?, path)?;
    let tokens = from.read(n_tokens * 4).map_err(wrong)?;
    let tokens = tokens.as_chunks().0.iter();
    let tokens: Vec<u32> = tokens.map(|bytes| u32::from_le_bytes(*bytes)).collect();
    let foreign = tokens
        .iter()
        .find(|&&token| token as usize >= info.vocab_size);
    if let Some(token) = foreign {
        return Err(bad(path, format!("token {token} is not in the vocabulary")));
    }
    let mut cache = Vec::with_capacity(forms.len() / 2);
    for [keys, values] in forms.as_chunks().0 {
        let keys = read_array(&mut from, *keys, n_tokens, path)?;
        let values = read_array(&mut from, *values, n_tokens, path)?;
        cache.push(FullKvCache::holding(keys, values));
    }
    if !from.read_sum().map_err(wrong)? {
        return Err(bad(path, "its checksum is wrong"));
    }
    Ok(Session::holding(tokens, cache))
}

fn read_array(
    from: &mut Summed,
    form: Form,
    n_tokens: usize,
    path: &Path,
) -> Result<Array, EngineError> {
    let bytes = from.read(n_bytes(form, n_tokens));
    let bytes = bytes.map_err(|error| wrong(path, &error))?;
    let shape = [1, form.n_heads, n_tokens as i32, form.head_dim];
    copied_array(&bytes, &shape, form.dtype).during("taking up a conversation")
}

/// Keys and values of each layer, by turns.
fn forms(cache: &[FullKvCache]) -> Vec<Form> {
    let arrays = cache.iter().flat_map(FullKvCache::arrays);
    arrays.map(Form::of).collect()
}

/// What the model's own keys and values would be. It is asked for those of one token, which are
/// planned and never computed.
fn expected_forms(transformer: &Transformer) -> MlxResult<Vec<Form>> {
    let token = Array::from_slice(&[0_u32], &[1]);
    let mut cache = transformer.new_cache();
    transformer.forward(&token, &mut cache, Wanted::LastLogits)?;
    Ok(forms(&cache))
}

/// What a file of `n_tokens` holds, in order.
fn layout(
    n_tokens: usize,
    forms: &[Form],
    path: &Path,
) -> Result<Vec<(String, TensorInfo)>, EngineError> {
    let mut tensors = Vec::with_capacity(forms.len() + 2);
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
    push(
        TOKENS.to_owned(),
        safetensors::Dtype::U32,
        vec![n_tokens],
        n_tokens * 4,
    );
    for (index, form) in forms.iter().enumerate() {
        let part = if index % 2 == 0 { "keys" } else { "values" };
        let dtype = file_dtype(form.dtype)
            .ok_or_else(|| bad(path, format!("{part} of {:?} are not kept", form.dtype)))?;
        let shape = vec![1, form.n_heads as usize, n_tokens, form.head_dim as usize];
        let name = format!("layers.{}.{part}", index / 2);
        push(name, dtype, shape, n_bytes(*form, n_tokens));
    }
    push(CHECKSUM.to_owned(), safetensors::Dtype::U32, vec![1], 4);
    Ok(tensors)
}

fn n_bytes(form: Form, n_tokens: usize) -> usize {
    let size = crate::ops::element_size(form.dtype).unwrap_or(0);
    form.n_heads as usize * form.head_dim as usize * n_tokens * size
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
fn identity(info: &ModelInfo) -> HashMap<String, String> {
    let of_model = [
        ("transom_conversation", "1"),
        ("engine", &info.engine),
        ("name", &info.name),
        ("architecture", &info.architecture),
        ("n_parameters", &info.n_parameters.to_string()),
        ("vocab_size", &info.vocab_size.to_string()),
        ("stored_as", &info.stored_as),
        ("computed_as", &info.computed_as),
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
