//! The checked view of a file's bytes.
//!
//! Rule: [`Gguf::parse`] checks everything that the methods rely on. It allocates only a few numbers
//! per tensor and one per metadata entry, whatever the file claims.

use super::cursor::Cursor;
use super::tensor::{TensorInfo, TensorType, bad_shape};
use super::value::{Value, read_kind};
use crate::file_error::{Fault, FaultCode, quoted};

/// Maximum length of a tensor name in bytes (`GGML_MAX_NAME` without its closing zero).
const MAX_TENSOR_NAME: usize = 63;
/// Maximum length of a key in bytes, as the format defines.
const MAX_KEY: usize = 65_535;
const DEFAULT_ALIGNMENT: u64 = 32;

/// The checked contents of a GGUF file.
#[derive(Debug, Clone)]
pub struct Gguf<'a> {
    bytes: &'a [u8],
    entries_at: usize,
    /// Where each metadata entry begins, sorted by key: a vocabulary has hundreds of thousands of
    /// strings, which a search through the entries would walk for each key.
    places: Vec<usize>,
    n_tensors: u64,
    tensors_at: usize,
    data_at: u64,
    alignment: u64,
}

impl<'a> Gguf<'a> {
    /// Checks `bytes`, which are a whole file.
    ///
    /// # Errors
    /// The first fault.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Fault> {
        let mut cursor = Cursor::new(bytes);
        check_version(&mut cursor, bytes)?;
        let n_tensors = cursor.u64("the number of tensors")?;
        let n_entries = cursor.u64("the number of metadata entries")?;
        // The minimum size of each: a name of one byte, and the numbers after it.
        check_count("tensors", n_tensors, 8 + 1 + 4 + 4 + 8, bytes)?;
        check_count("metadata entries", n_entries, 8 + 1 + 4 + 1, bytes)?;
        let mut this = Self {
            bytes,
            entries_at: cursor.position(),
            // Offsets instead of keys: a short entry takes 14 bytes of the file, so 8 bytes per entry
            // are less than the file's size, and 16 would be more.
            places: Vec::with_capacity(n_entries as usize),
            n_tensors,
            tensors_at: 0,
            data_at: 0,
            alignment: DEFAULT_ALIGNMENT,
        };
        for index in 0..n_entries {
            this.places.push(cursor.position());
            read_entry(&mut cursor, index)?;
        }
        this.sort_keys()?;
        this.alignment = this.read_alignment()?;
        this.tensors_at = cursor.position();
        for index in 0..n_tensors {
            read_tensor(&mut cursor, index)?;
        }
        let end = cursor.position() as u64;
        this.data_at = end.checked_next_multiple_of(this.alignment).unwrap_or(end);
        this.check_tensors()?;
        Ok(this)
    }

    /// Returns the alignment of tensors in bytes.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// Returns the offset of the data section in the file.
    pub fn data_offset(&self) -> u64 {
        self.data_at
    }

    /// Returns the metadata in the order of the file.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> + use<'a> {
        let mut cursor = Cursor::new(&self.bytes[self.entries_at..]);
        let n_entries = self.places.len() as u64;
        (0..n_entries).map_while(move |index| read_entry(&mut cursor, index).ok())
    }

    /// Returns the value of `key`.
    pub fn get(&self, key: &str) -> Option<Value<'a>> {
        let found = |&place: &usize| key_at(self.bytes, place).cmp(key.as_bytes());
        let index = self.places.binary_search_by(found).ok()?;
        let mut cursor = Cursor::new(&self.bytes[self.places[index]..]);
        Some(read_entry(&mut cursor, 0).ok()?.1)
    }

    /// Returns the tensors in the order of the file.
    pub fn tensors(&self) -> impl Iterator<Item = TensorInfo<'a>> + use<'a> {
        let mut cursor = Cursor::new(&self.bytes[self.tensors_at..]);
        (0..self.n_tensors).map_while(move |index| read_tensor(&mut cursor, index).ok())
    }

    /// Returns the number of tensors.
    pub fn n_tensors(&self) -> u64 {
        self.n_tensors
    }

    /// Returns the bytes of all tensors, without padding.
    pub fn tensor_bytes(&self) -> u64 {
        self.tensors().map(|tensor| tensor.n_bytes).sum()
    }

    fn sort_keys(&mut self) -> Result<(), Fault> {
        let key = |place: usize| key_at(self.bytes, place);
        self.places.sort_unstable_by_key(|&place| key(place));
        let is_same = |pair: &&[usize]| key(pair[0]) == key(pair[1]);
        match self.places.windows(2).find(is_same) {
            None => Ok(()),
            Some(pair) => {
                let name = String::from_utf8_lossy(key(pair[0]));
                Err(duplicate("metadata entry", &name))
            }
        }
    }

    fn read_alignment(&self) -> Result<u64, Fault> {
        let value = match self.get("general.alignment") {
            None => return Ok(DEFAULT_ALIGNMENT),
            Some(Value::U32(n)) if n.is_power_of_two() => return Ok(n.into()),
            Some(Value::U32(n)) => n.to_string(),
            Some(_) => "a value of another type".to_owned(),
        };
        let key = "general.alignment";
        let reason = format!("{key} is {value}, but must be a power of two of type u32");
        Err(Fault::with_value(FaultCode::WrongEntry, key, reason))
    }

    fn check_tensor_names(&self) -> Result<(), Fault> {
        let mut names = Vec::with_capacity(self.n_tensors as usize);
        names.extend(self.tensors().map(|tensor| tensor.name));
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            None => Ok(()),
            Some(pair) => Err(duplicate("tensor", pair[0])),
        }
    }

    fn check_tensors(&self) -> Result<(), Fault> {
        self.check_tensor_names()?;
        let file_bytes = self.bytes.len() as u64;
        // Offset, length and index of each tensor that has bytes. A tensor takes at least 25 bytes of
        // the file, and one of these 24.
        let mut places = Vec::with_capacity(self.n_tensors as usize);
        for (index, tensor) in self.tensors().enumerate() {
            if !tensor.offset.is_multiple_of(self.alignment) {
                let (name, offset) = (quoted(tensor.name), tensor.offset);
                return Err(Fault::damaged(format!(
                    "tensor {name} begins at {offset}, which is not a multiple of {}",
                    self.alignment
                )));
            }
            let end = self.data_at.saturating_add(tensor.offset);
            let end = end.saturating_add(tensor.n_bytes);
            if end > file_bytes {
                let name = quoted(tensor.name);
                let reason = format!(
                    "cut short: tensor {name} ends at byte {end}, but the file has {file_bytes}; \
                     download it again"
                );
                return Err(Fault::new(FaultCode::Truncated, reason));
            }
            if tensor.n_bytes > 0 {
                places.push((tensor.offset, tensor.n_bytes, index));
            }
        }
        places.sort_unstable();
        for pair in places.windows(2) {
            if let [(start, length, first), (next, _, second)] = pair
                && start + length > *next
            {
                let name = |index: usize| {
                    let tensor = self.tensors().nth(index);
                    tensor.map_or_else(String::new, |tensor| quoted(tensor.name))
                };
                let (first, second) = (name(*first), name(*second));
                return Err(Fault::damaged(format!(
                    "tensors {first} and {second} overlap"
                )));
            }
        }
        Ok(())
    }
}

/// Returns the key of the metadata entry that begins at `place`, which was checked.
fn key_at(bytes: &[u8], place: usize) -> &[u8] {
    let mut cursor = Cursor::new(&bytes[place..]);
    cursor.string("a metadata key").unwrap_or_default()
}

fn duplicate(what: &str, name: &str) -> Fault {
    Fault::damaged(format!("{what} {} is there twice", quoted(name)))
}

fn check_version(cursor: &mut Cursor<'_>, bytes: &[u8]) -> Result<(), Fault> {
    if !bytes.starts_with(b"GGUF") {
        let found = &bytes[..bytes.len().min(4)];
        let reason =
            format!("not a GGUF file: it begins with {found:02x?}, but should with \"GGUF\"");
        return Err(Fault::new(FaultCode::WrongFormat, reason));
    }
    cursor.take(4, "the magic number")?;
    let (value, reason) = match cursor.u32("the version")? {
        2..=3 => return Ok(()),
        1 => {
            let reason = "GGUF version 1, which nothing has written since 2023; download the model \
                          again";
            ("1".to_owned(), reason.to_owned())
        }
        version if (1..=3).contains(&version.swap_bytes()) => {
            let version = version.swap_bytes();
            let reason = format!(
                "a big-endian GGUF file (version {version}); only little-endian files can be used \
                 here"
            );
            (format!("{version} (big-endian)"), reason)
        }
        version => {
            let reason = format!(
                "GGUF version {version} is not known; versions 2 and 3 are. Is there an update?"
            );
            (version.to_string(), reason)
        }
    };
    Err(Fault::with_value(
        FaultCode::UnsupportedVersion,
        value,
        reason,
    ))
}

/// Refuses a count that is too large for the file, before a loop that long begins.
fn check_count(what: &str, count: u64, least: u64, bytes: &[u8]) -> Result<(), Fault> {
    let file_bytes = bytes.len() as u64;
    if count.checked_mul(least).is_some_and(|n| n <= file_bytes) {
        return Ok(());
    }
    Err(Fault::damaged(format!(
        "says it has {count} {what}, more than its {file_bytes} bytes could hold"
    )))
}

fn read_entry<'a>(cursor: &mut Cursor<'a>, index: u64) -> Result<(&'a str, Value<'a>), Fault> {
    let key = name(
        cursor.string("a metadata key")?,
        MAX_KEY,
        "metadata entry",
        index,
    )?;
    let kind = read_kind(cursor, key)?;
    Ok((key, Value::read(cursor, kind, key, 0)?))
}

fn read_tensor<'a>(cursor: &mut Cursor<'a>, index: u64) -> Result<TensorInfo<'a>, Fault> {
    let name = name(
        cursor.string("a tensor's name")?,
        MAX_TENSOR_NAME,
        "tensor",
        index,
    )?;
    let n_axes = cursor.u32("a tensor's number of axes")? as usize;
    if n_axes > 4 {
        let reason = format!("{n_axes} axes, but there are at most 4");
        return Err(bad_shape(name, &reason));
    }
    let mut shape = [1; 4];
    for size in shape.iter_mut().take(n_axes) {
        *size = cursor.u64("a tensor's shape")?;
    }
    let number = cursor.u32("a tensor's type")?;
    let kind = TensorType::from_number(number).ok_or_else(|| {
        let reason = format!(
            "tensor {} has the unknown type {number}; is there an update?",
            quoted(name)
        );
        Fault::with_value(FaultCode::UnsupportedType, number.to_string(), reason)
    })?;
    Ok(TensorInfo {
        name,
        shape,
        n_axes,
        kind,
        offset: cursor.u64("a tensor's offset")?,
        n_bytes: kind.n_bytes(name, &shape)?,
    })
}

fn name<'a>(bytes: &'a [u8], limit: usize, what: &str, index: u64) -> Result<&'a str, Fault> {
    let reason = match std::str::from_utf8(bytes) {
        _ if bytes.is_empty() => "it is empty",
        _ if bytes.len() > limit => "it is too long",
        Err(_) => "it is not UTF-8",
        Ok(name) => return Ok(name),
    };
    Err(Fault::damaged(format!(
        "{what} {index} has a bad name: {reason}"
    )))
}
