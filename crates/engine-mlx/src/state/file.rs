//! A safetensors file that is written or read once, from start to end, and ends with a checksum of
//! its data.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crc32fast::Hasher;
use safetensors::tensor::Metadata;
use transom_engine::EngineError;

/// Longest header in bytes; that of a thousand layers is shorter.
const MAX_HEADER: usize = 1 << 20;

/// An open file, and the checksum of the data so far.
pub(super) struct ChecksummedFile<'a> {
    path: &'a Path,
    file: File,
    checksum: Hasher,
}

impl<'a> ChecksummedFile<'a> {
    /// Creates a file that only this user can read; fails if it exists.
    pub(super) fn create(path: &'a Path) -> Result<Self, EngineError> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        Self::new(path, options.open(path))
    }

    pub(super) fn open(path: &'a Path) -> Result<Self, EngineError> {
        Self::new(path, File::open(path))
    }

    fn new(path: &'a Path, file: io::Result<File>) -> Result<Self, EngineError> {
        Ok(Self {
            path,
            file: file.map_err(|error| EngineError::bad_file(path, error))?,
            checksum: Hasher::new(),
        })
    }

    pub(super) fn bad(&self, reason: impl ToString) -> EngineError {
        EngineError::bad_file(self.path, reason)
    }

    pub(super) fn write_header(&mut self, metadata: &Metadata) -> Result<(), EngineError> {
        let mut header = serde_json::to_vec(metadata).map_err(|error| self.bad(error))?;
        // Aligns the data.
        header.resize(header.len().next_multiple_of(8), b' ');
        self.write_all(&(header.len() as u64).to_le_bytes())?;
        self.write_all(&header)
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), EngineError> {
        self.checksum.update(bytes);
        self.write_all(bytes)
    }

    pub(super) fn write_checksum(mut self) -> Result<(), EngineError> {
        let checksum = self.checksum.clone().finalize();
        self.write_all(&checksum.to_le_bytes())
    }

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), EngineError> {
        let written = self.file.write_all(bytes);
        written.map_err(|error| self.bad(error))
    }

    /// Reads the header and compares the length of the file with it, so that reading the data takes
    /// no more memory than the file has bytes.
    pub(super) fn read_header(&mut self) -> Result<Metadata, EngineError> {
        let file_bytes = self.file.metadata().map_err(|error| self.bad(error))?.len();
        let mut length = [0; 8];
        self.read_exact(&mut length)?;
        let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
        if length > MAX_HEADER || length as u64 > file_bytes {
            return Err(self.bad("its header is too long"));
        }
        let mut header = vec![0; length];
        self.read_exact(&mut header)?;
        let metadata: Metadata =
            serde_json::from_slice(&header).map_err(|error| self.bad(error))?;
        let expected_bytes = (8 + length as u64).checked_add(metadata.data_len() as u64);
        if expected_bytes != Some(file_bytes) {
            return Err(self.bad("its length differs from its header"));
        }
        Ok(metadata)
    }

    pub(super) fn read(&mut self, n_bytes: usize) -> Result<Vec<u8>, EngineError> {
        let mut bytes = vec![0; n_bytes];
        self.read_exact(&mut bytes)?;
        self.checksum.update(&bytes);
        Ok(bytes)
    }

    /// Reads the checksum at the end and fails if it is not that of the data.
    pub(super) fn check_checksum(mut self) -> Result<(), EngineError> {
        let mut checksum = [0; 4];
        self.read_exact(&mut checksum)?;
        if u32::from_le_bytes(checksum) == self.checksum.clone().finalize() {
            return Ok(());
        }
        Err(self.bad("its checksum is wrong"))
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> Result<(), EngineError> {
        let read = self.file.read_exact(bytes);
        read.map_err(|error| self.bad(error))
    }
}
