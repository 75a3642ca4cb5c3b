//! A file of encrypted records, which only the owner of a key can read.
//!
//! A record is a length (8 bytes), a nonce (12), the encrypted bytes and their tag (16), sealed with
//! ChaCha20-Poly1305. Its position in the file is authenticated with it, so records can be neither
//! changed nor exchanged.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

const LENGTH_BYTES: u64 = 8;

/// A key for files with saved KV caches. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StateKey([u8; 32]);

impl StateKey {
    /// Returns a new key; `None` if the system has no random numbers.
    pub fn random() -> Option<Self> {
        let mut bytes = [0; 32];
        SystemRandom::new().fill(&mut bytes).ok()?;
        Some(Self(bytes))
    }

    fn cipher(&self) -> io::Result<LessSafeKey> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, &self.0);
        key.map(LessSafeKey::new)
            .map_err(|_| io::Error::other("the key has another length"))
    }
}

impl fmt::Debug for StateKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("StateKey(…)")
    }
}

/// A new file.
pub(crate) struct SealedWriter {
    file: File,
    cipher: LessSafeKey,
    random: SystemRandom,
    n_bytes: u64,
}

impl SealedWriter {
    /// Creates a file that only this user can read. Fails if it exists.
    pub(crate) fn create(path: &Path, key: &StateKey) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        Ok(Self {
            cipher: key.cipher()?,
            file: options.open(path)?,
            random: SystemRandom::new(),
            n_bytes: 0,
        })
    }

    /// Returns the bytes written so far.
    pub(crate) fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// Returns the bytes that a record of `n_bytes` bytes takes.
    pub(crate) fn record_bytes(n_bytes: usize) -> u64 {
        let overhead = NONCE_LEN + CHACHA20_POLY1305.tag_len();
        LENGTH_BYTES + (n_bytes + overhead) as u64
    }

    /// Encrypts `bytes` in place and writes them.
    pub(crate) fn write(&mut self, mut bytes: Vec<u8>) -> io::Result<()> {
        let mut nonce = [0; NONCE_LEN];
        let no_numbers = |_| io::Error::other("the system has no random numbers");
        self.random.fill(&mut nonce).map_err(no_numbers)?;
        let position = Aad::from(self.n_bytes.to_le_bytes());
        self.cipher
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), position, &mut bytes)
            .map_err(|_| io::Error::other("the record is too long"))?;
        let length = (nonce.len() + bytes.len()) as u64;
        self.file.write_all(&length.to_le_bytes())?;
        self.file.write_all(&nonce)?;
        self.file.write_all(&bytes)?;
        self.n_bytes += LENGTH_BYTES + length;
        Ok(())
    }

    /// Removes everything from `n_bytes` on.
    pub(crate) fn truncate(&mut self, n_bytes: u64) -> io::Result<()> {
        self.file.set_len(n_bytes)?;
        self.file.seek(SeekFrom::Start(n_bytes))?;
        self.n_bytes = n_bytes;
        Ok(())
    }
}

/// A file that [`SealedWriter`] wrote.
pub(crate) struct SealedReader {
    file: File,
    cipher: LessSafeKey,
    position: u64,
    n_bytes: u64,
}

impl SealedReader {
    pub(crate) fn open(path: &Path, key: &StateKey) -> io::Result<Self> {
        let file = File::open(path)?;
        Ok(Self {
            cipher: key.cipher()?,
            n_bytes: file.metadata()?.len(),
            file,
            position: 0,
        })
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.position == self.n_bytes
    }

    pub(crate) fn seek(&mut self, position: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(position))?;
        self.position = position;
        Ok(())
    }

    /// Skips a record.
    pub(crate) fn skip(&mut self) -> io::Result<()> {
        let length = self.length()?;
        self.seek(self.position + LENGTH_BYTES + length as u64)
    }

    /// Reads and decrypts a record. Fails if a byte of it differs from what was written.
    pub(crate) fn read(&mut self) -> io::Result<Vec<u8>> {
        let start = self.position;
        let length = self.length()?;
        let too_short = || io::Error::new(io::ErrorKind::InvalidData, "a record is too short");
        let n_sealed = length.checked_sub(NONCE_LEN).ok_or_else(too_short)?;
        let mut nonce = [0; NONCE_LEN];
        self.file.read_exact(&mut nonce)?;
        let mut bytes = vec![0; n_sealed];
        self.file.read_exact(&mut bytes)?;
        self.position += LENGTH_BYTES + length as u64;
        let position = Aad::from(start.to_le_bytes());
        let opened =
            self.cipher
                .open_in_place(Nonce::assume_unique_for_key(nonce), position, &mut bytes);
        let wrong = |_| io::Error::new(io::ErrorKind::InvalidData, "a record is damaged");
        let n_opened = opened.map_err(wrong)?.len();
        bytes.truncate(n_opened);
        Ok(bytes)
    }

    /// Reads the length of the next record, which is not longer than the rest of the file.
    fn length(&mut self) -> io::Result<usize> {
        let mut length = [0; LENGTH_BYTES as usize];
        self.file.read_exact(&mut length)?;
        let left = self.n_bytes.saturating_sub(self.position + LENGTH_BYTES);
        let length = Some(u64::from_le_bytes(length)).filter(|length| *length <= left);
        let length = length.and_then(|length| usize::try_from(length).ok());
        length.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "a record is longer than the file",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, key: &StateKey) {
        let mut writer = SealedWriter::create(path, key).unwrap();
        writer.write(b"the first secret".to_vec()).unwrap();
        writer.write(b"no secret".to_vec()).unwrap();
        writer.truncate(SealedWriter::record_bytes(16)).unwrap();
        writer.write(b"the second secret".to_vec()).unwrap();
    }

    fn read(path: &Path, key: &StateKey) -> io::Result<[Vec<u8>; 2]> {
        let mut reader = SealedReader::open(path, key)?;
        Ok([reader.read()?, reader.read()?])
    }

    #[test]
    fn records_can_be_read_with_their_key_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let key = StateKey::random().unwrap();
        write(&path, &key);
        let expected = [b"the first secret".to_vec(), b"the second secret".to_vec()];
        assert_eq!(read(&path, &key).unwrap(), expected);
        assert!(read(&path, &StateKey::random().unwrap()).is_err());
        assert_eq!(format!("{key:?}"), "StateKey(…)");
        let mut reader = SealedReader::open(&path, &key).unwrap();
        reader.skip().unwrap();
        assert_eq!(reader.read().unwrap(), expected[1]);
        assert!(reader.is_at_end());
    }

    #[test]
    fn no_plain_text_is_on_the_disk_and_every_change_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let key = StateKey::random().unwrap();
        write(&path, &key);
        let written = std::fs::read(&path).unwrap();
        assert!(!written.windows(6).any(|bytes| bytes == b"secret"));
        for index in 0..written.len() {
            let mut changed = written.clone();
            changed[index] ^= 1;
            std::fs::write(&path, changed).unwrap();
            assert!(read(&path, &key).is_err(), "byte {index}");
            std::fs::write(&path, &written[..index]).unwrap();
            assert!(read(&path, &key).is_err(), "{index} bytes");
        }
        let (first, second) = written.split_at(SealedWriter::record_bytes(16) as usize);
        std::fs::write(&path, [second, first].concat()).unwrap();
        assert!(read(&path, &key).is_err());
    }
}
