//! Writes GGUF files, for tests and for the starter model.
//!
//! Tensors are in order, each padded to the alignment, as llama.cpp requires.

use std::io::{self, Write};

use crate::gguf::TensorType;

/// A file that is being built.
#[derive(Debug, Clone)]
pub struct GgufWriter {
    pub(crate) version: u32,
    pub(crate) alignment: usize,
    n_entries: u64,
    entries: Vec<u8>,
    tensors: Vec<Tensor>,
}

#[derive(Debug, Clone)]
struct Tensor {
    name: String,
    shape: Vec<u64>,
    kind: TensorType,
    bytes: Vec<u8>,
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

    pub(crate) fn raw(&mut self, key: &str, kind: u32, value: &[u8]) -> &mut Self {
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
        self.tensors.push(Tensor {
            name: name.to_owned(),
            shape: shape.to_vec(),
            kind,
            bytes,
        });
        self
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.head())?;
        for tensor in &self.tensors {
            to.write_all(&tensor.bytes)?;
            let n_bytes = tensor.bytes.len();
            to.write_all(&vec![0; self.padded(n_bytes) - n_bytes])?;
        }
        to.flush()
    }

    fn head(&self) -> Vec<u8> {
        let mut head = Vec::new();
        head.extend_from_slice(b"GGUF");
        head.extend_from_slice(&self.version.to_le_bytes());
        head.extend_from_slice(&(self.tensors.len() as u64).to_le_bytes());
        head.extend_from_slice(&self.n_entries.to_le_bytes());
        head.extend_from_slice(&self.entries);
        let mut offset = 0;
        for tensor in &self.tensors {
            push_string(&mut head, tensor.name.as_bytes());
            head.extend_from_slice(&(tensor.shape.len() as u32).to_le_bytes());
            head.extend(tensor.shape.iter().flat_map(|size| size.to_le_bytes()));
            head.extend_from_slice(&tensor.kind.number().to_le_bytes());
            head.extend_from_slice(&(offset as u64).to_le_bytes());
            offset += self.padded(tensor.bytes.len());
        }
        head.resize(self.padded(head.len()), 0);
        head
    }

    fn padded(&self, n_bytes: usize) -> usize {
        n_bytes.next_multiple_of(self.alignment)
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
