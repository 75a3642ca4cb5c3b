//! Writes GGUF files: for tests, and for converting the starter model.
//!
//! Tensors are laid out as llama.cpp demands: in order, each padded to the alignment.

use std::io::{self, Write};

use super::tensor::TensorType;

/// A file in the making.
#[derive(Debug, Clone)]
pub struct GgufWriter {
    pub(super) version: u32,
    pub(super) alignment: usize,
    n_entries: u64,
    entries: Vec<u8>,
    tensors: Vec<(String, Vec<u64>, u32, Vec<u8>)>,
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
    /// A file with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry whose value is `value`, already in the file's form.
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

    /// Adds true or false.
    pub fn bool(&mut self, key: &str, value: bool) -> &mut Self {
        self.raw(key, 7, &[u8::from(value)])
    }

    /// Adds text.
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

    /// Adds a tensor; `shape` has the fastest axis first, `bytes` are packed as `kind` says.
    pub fn tensor(
        &mut self,
        name: &str,
        shape: &[u64],
        kind: TensorType,
        bytes: Vec<u8>,
    ) -> &mut Self {
        self.tensors
            .push((name.to_owned(), shape.to_vec(), kind.number(), bytes));
        self
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut head = Vec::new();
        head.extend_from_slice(b"GGUF");
        head.extend_from_slice(&self.version.to_le_bytes());
        head.extend_from_slice(&(self.tensors.len() as u64).to_le_bytes());
        head.extend_from_slice(&self.n_entries.to_le_bytes());
        head.extend_from_slice(&self.entries);
        let mut offset = 0;
        for (name, shape, kind, bytes) in &self.tensors {
            push_string(&mut head, name.as_bytes());
            head.extend_from_slice(&(shape.len() as u32).to_le_bytes());
            head.extend(shape.iter().flat_map(|size| size.to_le_bytes()));
            head.extend_from_slice(&kind.to_le_bytes());
            head.extend_from_slice(&(offset as u64).to_le_bytes());
            offset += bytes.len().next_multiple_of(self.alignment);
        }
        head.resize(head.len().next_multiple_of(self.alignment), 0);
        to.write_all(&head)?;
        for (_, _, _, bytes) in &self.tensors {
            to.write_all(bytes)?;
            let padding = bytes.len().next_multiple_of(self.alignment) - bytes.len();
            to.write_all(&vec![0; padding])?;
        }
        to.flush()
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
