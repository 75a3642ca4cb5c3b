//! Writes GGUF files, for tests and for converting models.
//!
//! Tensors are in order, each padded to the alignment, as llama.cpp requires. A tensor's bytes may
//! be given when it is added or only when the file is written, so that a model larger than the
//! memory can be written.

use std::io::{self, Write};

use super::tensor::TensorType;
use crate::file_error::Fault;

/// A file that is being built.
#[derive(Debug, Clone)]
pub struct GgufWriter {
    pub(super) version: u32,
    pub(super) alignment: usize,
    n_entries: u64,
    entries: Vec<u8>,
    tensors: Vec<Announced>,
}

#[derive(Debug, Clone)]
struct Announced {
    name: String,
    shape: Vec<u64>,
    kind: TensorType,
    n_bytes: u64,
    /// `None` if the bytes follow when the file is written.
    bytes: Option<Vec<u8>>,
}

impl Default for GgufWriter {
    fn default() -> Self {
        Self {
            version: 3,
            alignment: 32,
            n_entries: 0,
            entries: Vec::new(),
            tensors: Vec::new(),
        }
    }
}

impl GgufWriter {
    /// Returns an empty file.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn raw(&mut self, key: &str, kind: u32, value: &[u8]) -> &mut Self {
        self.n_entries += 1;
        push_string(&mut self.entries, key.as_bytes());
        self.entries.extend_from_slice(&kind.to_le_bytes());
        self.entries.extend_from_slice(value);
        self
    }

    /// Adds a whole number.
    pub fn u32(&mut self, key: &str, value: u32) -> &mut Self {
        self.raw(key, 4, &value.to_le_bytes())
    }

    /// Adds a number with a fraction.
    pub fn f32(&mut self, key: &str, value: f32) -> &mut Self {
        self.raw(key, 6, &value.to_le_bytes())
    }

    /// Adds a boolean.
    pub fn bool(&mut self, key: &str, value: bool) -> &mut Self {
        self.raw(key, 7, &[u8::from(value)])
    }

    /// Adds a text.
    pub fn string(&mut self, key: &str, value: &str) -> &mut Self {
        let mut bytes = Vec::new();
        push_string(&mut bytes, value.as_bytes());
        self.raw(key, 8, &bytes)
    }

    /// Adds an array of texts.
    pub fn strings<T: AsRef<[u8]>>(&mut self, key: &str, values: &[T]) -> &mut Self {
        let mut bytes = array_head(8, values.len());
        for value in values {
            push_string(&mut bytes, value.as_ref());
        }
        self.raw(key, 9, &bytes)
    }

    /// Adds an array of whole numbers.
    pub fn i32s(&mut self, key: &str, values: &[i32]) -> &mut Self {
        let mut bytes = array_head(5, values.len());
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        self.raw(key, 9, &bytes)
    }

    /// Adds an array of numbers with a fraction.
    pub fn f32s(&mut self, key: &str, values: &[f32]) -> &mut Self {
        let mut bytes = array_head(6, values.len());
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        self.raw(key, 9, &bytes)
    }

    /// Adds a tensor. `shape` has the fastest axis first; `bytes` are encoded as `kind`.
    pub fn tensor(
        &mut self,
        name: &str,
        shape: &[u64],
        kind: TensorType,
        bytes: Vec<u8>,
    ) -> &mut Self {
        self.tensors.push(Announced {
            name: name.to_owned(),
            shape: shape.to_vec(),
            kind,
            n_bytes: bytes.len() as u64,
            bytes: Some(bytes),
        });
        self
    }

    /// Adds a tensor without its bytes, which [`Self::write_with`] requests.
    ///
    /// # Errors
    /// [`Fault::Shape`] for a shape that `kind` can't have.
    pub fn tensor_later(
        &mut self,
        name: &str,
        shape: &[u64],
        kind: TensorType,
    ) -> Result<&mut Self, Fault> {
        let mut sizes = [1; 4];
        let Some(axes) = sizes.get_mut(..shape.len()) else {
            return Err(Fault::Shape {
                name: name.to_owned(),
                reason: format!("{} axes, but there are at most 4", shape.len()),
            });
        };
        axes.copy_from_slice(shape);
        self.tensors.push(Announced {
            name: name.to_owned(),
            shape: shape.to_vec(),
            kind,
            n_bytes: kind.n_bytes(name, &sizes)?,
            bytes: None,
        });
        Ok(self)
    }

    /// Returns the bytes of all tensors, without padding.
    pub fn tensor_bytes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.n_bytes).sum()
    }

    /// Writes a file whose tensors all have their bytes.
    ///
    /// # Errors
    /// Those of `to`; [`io::ErrorKind::InvalidInput`] if a tensor has no bytes.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        self.write_with(to, |index, _| {
            Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("tensor {index} has no bytes"),
            ))
        })
    }

    /// Writes the file. Calls `fill` for each tensor without bytes, in order, with its index among all
    /// tensors, to write its bytes.
    ///
    /// # Errors
    /// Those of `to` and of `fill`; [`io::ErrorKind::InvalidData`] if `fill` writes a wrong number of
    /// bytes.
    pub fn write_with<W: Write, E: From<io::Error>>(
        &self,
        to: &mut W,
        mut fill: impl FnMut(usize, &mut dyn Write) -> Result<(), E>,
    ) -> Result<(), E> {
        to.write_all(&self.head())?;
        for (index, tensor) in self.tensors.iter().enumerate() {
            match &tensor.bytes {
                Some(bytes) => to.write_all(bytes)?,
                None => {
                    let mut counted = Counted { to, n_bytes: 0 };
                    fill(index, &mut counted)?;
                    if counted.n_bytes != tensor.n_bytes {
                        let (name, expected) = (&tensor.name, tensor.n_bytes);
                        let reason =
                            format!("{name} has {} bytes, not {expected}", counted.n_bytes);
                        return Err(io::Error::new(io::ErrorKind::InvalidData, reason).into());
                    }
                }
            }
            let padding = self.padded(tensor.n_bytes) - tensor.n_bytes;
            to.write_all(&vec![0; padding as usize])?;
        }
        to.flush()?;
        Ok(())
    }

    fn head(&self) -> Vec<u8> {
        let mut head = Vec::new();
        head.extend_from_slice(b"GGUF");
        head.extend_from_slice(&self.version.to_le_bytes());
        head.extend_from_slice(&(self.tensors.len() as u64).to_le_bytes());
        head.extend_from_slice(&self.n_entries.to_le_bytes());
        head.extend_from_slice(&self.entries);
        let mut offset = 0u64;
        for tensor in &self.tensors {
            push_string(&mut head, tensor.name.as_bytes());
            head.extend_from_slice(&(tensor.shape.len() as u32).to_le_bytes());
            head.extend(tensor.shape.iter().flat_map(|size| size.to_le_bytes()));
            head.extend_from_slice(&tensor.kind.number().to_le_bytes());
            head.extend_from_slice(&offset.to_le_bytes());
            offset += self.padded(tensor.n_bytes);
        }
        head.resize(self.padded(head.len() as u64) as usize, 0);
        head
    }

    fn padded(&self, n_bytes: u64) -> u64 {
        n_bytes.next_multiple_of(self.alignment as u64)
    }
}

struct Counted<'a, W> {
    to: &'a mut W,
    n_bytes: u64,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n_written = self.to.write(bytes)?;
        self.n_bytes += n_written as u64;
        Ok(n_written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn array_head(kind: u32, length: usize) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend_from_slice(&(length as u64).to_le_bytes());
    bytes
}

fn push_string(to: &mut Vec<u8>, text: &[u8]) {
    to.extend_from_slice(&(text.len() as u64).to_le_bytes());
    to.extend_from_slice(text);
}
