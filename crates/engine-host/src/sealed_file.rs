//! Encrypted files, which only the owner of a key can read.
//!
//! A file is a nonce (12 bytes), the encrypted bytes and their tag (16), sealed with
//! ChaCha20-Poly1305. Its name is authenticated with it, so files can be neither changed nor
//! exchanged.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

/// Bytes that a sealed file has in addition to its content.
pub(crate) const OVERHEAD_BYTES: u64 = 12 + 16;

/// Largest file that is read: more than all saved KV caches together may take.
const MAX_BYTES: u64 = 16 << 30;

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

    /// Returns the key as 64 hexadecimal digits, for a keychain.
    pub fn to_text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the key with this text; `None` if it is not that of a key.
    pub fn from_text(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        let mut key = [0; 32];
        if digits.len() != 2 * key.len() {
            return None;
        }
        for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(key))
    }

    /// Returns this key encrypted with `master`; `None` if the system has no random numbers.
    pub fn sealed_with(&self, master: &Self) -> Option<Vec<u8>> {
        let mut bytes = self.0.to_vec();
        let nonce = master.seal("key", &mut bytes).ok()?;
        Some([&nonce[..], &bytes].concat())
    }

    /// Returns the key that [`StateKey::sealed_with`] encrypted; `None` if it was with another
    /// master key.
    pub fn opened_with(master: &Self, sealed: &[u8]) -> Option<Self> {
        let mut bytes = sealed.to_vec();
        master.open("key", &mut bytes).ok()?;
        bytes.try_into().map(Self).ok()
    }

    /// Encrypts `bytes` in place and returns the nonce.
    fn seal(&self, name: &str, bytes: &mut Vec<u8>) -> io::Result<[u8; NONCE_LEN]> {
        let mut nonce = [0; NONCE_LEN];
        let no_numbers = |_| io::Error::other("the system has no random numbers");
        SystemRandom::new().fill(&mut nonce).map_err(no_numbers)?;
        self.cipher()?
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(name), bytes)
            .map_err(|_| io::Error::other("the file is too long"))?;
        Ok(nonce)
    }

    /// Decrypts a nonce and the bytes that were sealed with it in place. Fails if a byte of them
    /// differs.
    fn open(&self, name: &str, bytes: &mut Vec<u8>) -> io::Result<()> {
        let wrong = || io::Error::new(ErrorKind::InvalidData, "it is damaged or has another key");
        let nonce = *bytes.first_chunk().ok_or_else(wrong)?;
        let nonce = Nonce::assume_unique_for_key(nonce);
        let cipher = self.cipher()?;
        let opened = cipher.open_within(nonce, Aad::from(name), bytes, NONCE_LEN..);
        let n_opened = opened.map_err(|_| wrong())?.len();
        bytes.truncate(n_opened);
        Ok(())
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

/// Encrypts `bytes` and writes them to the new file `name` in `folder`, which only this user can
/// read. Fails if the file exists. An incomplete file stays.
pub(crate) fn write(
    folder: &Path,
    name: &str,
    key: &StateKey,
    mut bytes: Vec<u8>,
) -> io::Result<()> {
    let nonce = key.seal(name, &mut bytes)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(folder.join(name))?;
    file.write_all(&nonce)?;
    file.write_all(&bytes)
}

/// Returns the content of the file at `path` that was written as `name`.
pub(crate) fn read(path: &Path, name: &str, key: &StateKey) -> io::Result<Vec<u8>> {
    let mut bytes = transom_files::read(path, MAX_BYTES)?;
    key.open(name, &mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_can_be_read_with_its_key_and_name_only() {
        let folder = tempfile::tempdir().unwrap();
        let (key, other) = (StateKey::random().unwrap(), StateKey::random().unwrap());
        write(folder.path(), "file", &key, b"a secret".to_vec()).unwrap();
        let path = folder.path().join("file");
        assert_eq!(read(&path, "file", &key).unwrap(), b"a secret");
        assert!(read(&path, "file", &other).is_err());
        assert!(read(&path, "other", &key).is_err());
        assert!(write(folder.path(), "file", &key, Vec::new()).is_err());
        let n_bytes = std::fs::metadata(&path).unwrap().len();
        assert_eq!(n_bytes, 8 + OVERHEAD_BYTES);
    }

    #[test]
    fn no_plain_text_is_on_the_disk_and_every_change_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let key = StateKey::random().unwrap();
        write(folder.path(), "file", &key, b"a secret".to_vec()).unwrap();
        let path = folder.path().join("file");
        let written = std::fs::read(&path).unwrap();
        assert!(!written.windows(6).any(|bytes| bytes == b"secret"));
        for index in 0..written.len() {
            let mut changed = written.clone();
            changed[index] ^= 1;
            std::fs::write(&path, changed).unwrap();
            assert!(read(&path, "file", &key).is_err(), "byte {index}");
            std::fs::write(&path, &written[..index]).unwrap();
            assert!(read(&path, "file", &key).is_err(), "{index} bytes");
        }
    }

    #[test]
    fn only_a_regular_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("file");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        // Opening it would wait for a writer.
        let key = StateKey::random().unwrap();
        let error = read(&fifo, "file", &key).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn a_key_can_be_kept_as_text_and_encrypted() {
        let (key, master) = (StateKey::random().unwrap(), StateKey::random().unwrap());
        assert_eq!(format!("{key:?}"), "StateKey(…)");
        assert_eq!(StateKey::from_text(&key.to_text()), Some(key.clone()));
        for text in ["", "0", &"x".repeat(64), &"é".repeat(32)] {
            assert_eq!(StateKey::from_text(text), None, "{text}");
        }
        let sealed = key.sealed_with(&master).unwrap();
        assert!(!sealed.windows(8).any(|bytes| bytes == &key.0[..8]));
        assert_eq!(StateKey::opened_with(&master, &sealed), Some(key.clone()));
        assert_eq!(StateKey::opened_with(&key, &sealed), None);
        assert_eq!(StateKey::opened_with(&master, &sealed[1..]), None);
        assert_eq!(StateKey::opened_with(&master, &[]), None);
    }
}
