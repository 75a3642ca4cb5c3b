//! A safetensors file that is written or read once, from start to end, and ends with a checksum of
//! its data.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crc32fast::Hasher;
use safetensors::tensor::Metadata;

/// Longest header in bytes; that of a thousand layers is shorter.
const MAX_HEADER: usize = 1 << 20;

/// An open file, and the checksum of the data so far.
pub(super) struct ChecksummedFile {
    file: File,
    checksum: Hasher,
}

impl ChecksummedFile {
    /// Creates a file that only this user can read; fails if it exists.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(path).map(Self::new)
    }

    /// Opens a file to read it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        File::open(path).map(Self::new)
    }

    fn new(file: File) -> Self {
        Self {
            file,
            checksum: Hasher::new(),
        }
    }

    pub(super) fn write_header(&mut self, metadata: &Metadata) -> io::Result<()> {
        let mut header = serde_json::to_vec(metadata)?;
        // Aligns the data.
        header.resize(header.len().next_multiple_of(8), b' ');
        self.file.write_all(&(header.len() as u64).to_le_bytes())?;
        self.file.write_all(&header)
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.checksum.update(bytes);
        self.file.write_all(bytes)
    }

    pub(super) fn write_checksum(mut self) -> io::Result<()> {
        let checksum = self.checksum.finalize();
        self.file.write_all(&checksum.to_le_bytes())
    }

    /// Reads the header and compares the length of the file with it, so that reading the data takes
    /// no more memory than the file has bytes.
    pub(super) fn read_header(&mut self) -> io::Result<Metadata> {
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
        let expected_bytes = (8 + length as u64).checked_add(metadata.data_len() as u64);
        if expected_bytes != Some(file_bytes) {
            return Err(invalid("its length differs from its header"));
        }
        Ok(metadata)
    }

    pub(super) fn read(&mut self, n_bytes: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; n_bytes];
        self.file.read_exact(&mut bytes)?;
        self.checksum.update(&bytes);
        Ok(bytes)
    }

    /// Reads the checksum at the end and returns true if it is that of the data.
    pub(super) fn read_checksum(mut self) -> io::Result<bool> {
        let mut checksum = [0; 4];
        self.file.read_exact(&mut checksum)?;
        Ok(u32::from_le_bytes(checksum) == self.checksum.finalize())
    }
}
