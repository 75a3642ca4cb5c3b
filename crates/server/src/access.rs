//! Who may use the server: named keys in a file of the data folder, one key of the command line, or
//! everybody on this computer.
//!
//! The file holds only the SHA-256 digests of keys. A key has 256 random bits, so its digest reveals
//! nothing, and no keychain is needed, which a program without a session could not open.
//!
//! Rule: a key is shown once, when it is created. Digests are compared in constant time, and the
//! file is read for each request, so a revoked key is refused at once.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::ids::unix_seconds;

/// Name of the file in the data folder.
const FILE_NAME: &str = "api-keys.json";

/// Largest file of keys that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The name of the key that is created if there is none.
const DEFAULT_NAME: &str = "default";

/// The name of requests without a key of the file, for limits and logs.
const LOCAL: &str = "local";

/// Who may use the server.
#[derive(Debug, Clone)]
pub enum Access {
    /// Every program on this computer.
    Everybody,
    /// Programs that know this key.
    Key(KeyDigest),
    /// Programs that know a key of the file.
    File(KeyFile),
}

/// The SHA-256 digest of a key.
#[derive(Clone)]
pub struct KeyDigest([u8; 32]);

/// The keys of a data folder.
#[derive(Debug, Clone)]
pub struct KeyFile {
    path: PathBuf,
}

/// A key in a list. The key itself is not known any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedKey {
    /// Its unique name.
    pub name: String,
    /// When it was created, in seconds since 1970.
    pub created: u64,
    /// Its digest, as 64 hexadecimal digits.
    sha256: String,
}

/// Why keys can't be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The name is not usable.
    #[error("the name of a key is 1 to 40 letters, digits, `-` or `_`, and not {0:?}")]
    BadName(String),
    /// There is such a key already.
    #[error("there is a key called {0} already; revoke it first, or choose another name")]
    Exists(String),
    /// There is no such key.
    #[error("no key is called {0}")]
    Unknown(String),
    /// The file is damaged.
    #[error("{path}: {reason}; remove the file, and create new keys")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The system reported an error.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system has no random numbers.
    #[error("the system gave no random numbers for a key: {0}")]
    NoRandomness(getrandom::Error),
}

/// A text that is no origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an origin without a path, such as https://chat.example.org")]
pub struct OriginError;

/// Parses an origin whose pages may use the server. `*` is none: it would let every page use the
/// models.
///
/// # Errors
/// The text is no origin.
pub fn origin(text: &str) -> Result<String, OriginError> {
    let (scheme, host) = text.split_once("://").ok_or(OriginError)?;
    let is_scheme = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
    let is_host = |b: u8| b.is_ascii_alphanumeric() || b"-.:[]_".contains(&b);
    let is_valid = !scheme.is_empty()
        && scheme.bytes().all(is_scheme)
        && !host.is_empty()
        && host.bytes().all(is_host);
    is_valid
        .then(|| text.to_ascii_lowercase())
        .ok_or(OriginError)
}

impl Access {
    /// Returns access with this key only.
    pub fn key(key: &str) -> Self {
        Self::Key(KeyDigest::of(key))
    }

    /// Returns the name of the key that a request sent; `None` if it may not use the server.
    pub(crate) fn name_of(&self, key: Option<&str>) -> Option<String> {
        let sent = key.map(KeyDigest::of);
        match self {
            Self::Everybody => Some(LOCAL.to_owned()),
            Self::Key(digest) => is_same(&sent?.0, &digest.0).then(|| LOCAL.to_owned()),
            Self::File(file) => {
                let keys = file.read().unwrap_or_else(|error| {
                    tracing::warn!(%error, "no key is accepted");
                    Vec::new()
                });
                let sent = sent?.hex();
                // Every key is compared, so that the time says nothing about which one is right.
                keys.into_iter().fold(None, |found, key| {
                    let is_it = is_same(key.sha256.as_bytes(), sent.as_bytes());
                    if is_it { Some(key.name) } else { found }
                })
            }
        }
    }
}

impl KeyDigest {
    /// Returns the digest of a key.
    pub fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }

    fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl std::fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyDigest(…)")
    }
}

/// Compares all bytes, whatever the first ones are.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differences) == 0
}

impl KeyFile {
    /// Returns the keys of this data folder, which is created with the first key.
    pub fn of(data_folder: &Path) -> Self {
        Self {
            path: data_folder.join(FILE_NAME),
        }
    }

    /// Returns all keys, oldest first.
    ///
    /// # Errors
    /// [`KeyError::Damaged`] and [`KeyError::Io`].
    pub fn read(&self) -> Result<Vec<NamedKey>, KeyError> {
        let path = self.path.clone();
        let text = match transom_files::read(&path, MAX_FILE_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(KeyError::Io { path, source }),
        };
        serde_json::from_slice(&text).map_err(|error| KeyError::Damaged {
            path,
            reason: error.to_string(),
        })
    }

    /// Creates a key, and returns it. It can't be shown again.
    ///
    /// # Errors
    /// Any [`KeyError`].
    pub fn add(&self, name: &str) -> Result<String, KeyError> {
        let is_valid = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
        if name.is_empty() || name.len() > 40 || !name.bytes().all(is_valid) {
            return Err(KeyError::BadName(name.to_owned()));
        }
        let mut keys = self.read()?;
        if keys.iter().any(|key| key.name == name) {
            return Err(KeyError::Exists(name.to_owned()));
        }
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(KeyError::NoRandomness)?;
        let key = format!("sk-transom-{}", KeyDigest(random).hex());
        keys.push(NamedKey {
            name: name.to_owned(),
            created: unix_seconds(),
            sha256: KeyDigest::of(&key).hex(),
        });
        self.write(&keys)?;
        Ok(key)
    }

    /// Creates the first key if there is none, and returns it.
    ///
    /// # Errors
    /// Any [`KeyError`].
    pub fn add_first(&self) -> Result<Option<String>, KeyError> {
        match self.read()?.is_empty() {
            true => self.add(DEFAULT_NAME).map(Some),
            false => Ok(None),
        }
    }

    /// Revokes a key.
    ///
    /// # Errors
    /// [`KeyError::Unknown`], and the errors of reading and writing.
    pub fn revoke(&self, name: &str) -> Result<(), KeyError> {
        let mut keys = self.read()?;
        let n_keys = keys.len();
        keys.retain(|key| key.name != name);
        match keys.len() == n_keys {
            true => Err(KeyError::Unknown(name.to_owned())),
            false => self.write(&keys),
        }
    }

    /// Replaces the file at once. Temporary files are readable by this user only.
    fn write(&self, keys: &[NamedKey]) -> Result<(), KeyError> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        // Before its first use there is no data folder.
        let written = transom_files::create_private_folder(folder)
            .and_then(|()| transom_files::replace_json(&self.path, &keys));
        written.map_err(|source| KeyError::Io {
            path: self.path.clone(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn keys_are_created_once_and_revoked_at_once() {
        let data = tempfile::tempdir().unwrap();
        let file = KeyFile::of(data.path());
        let access = Access::File(file.clone());
        assert_eq!(access.name_of(Some("anything")), None);
        let first = file.add_first().unwrap().unwrap();
        assert_eq!(file.add_first().unwrap(), None);
        let second = file.add("editor").unwrap();
        assert_ne!(first, second);
        assert_eq!(access.name_of(Some(&first)).as_deref(), Some("default"));
        assert_eq!(access.name_of(Some(&second)).as_deref(), Some("editor"));
        for wrong in [
            None,
            Some(""),
            Some("sk-transom-"),
            Some(&*first.to_uppercase()),
        ] {
            assert_eq!(access.name_of(wrong), None);
        }
        file.revoke("default").unwrap();
        assert_eq!(access.name_of(Some(&first)), None);
        assert!(matches!(file.revoke("default"), Err(KeyError::Unknown(_))));
        assert!(matches!(file.add("editor"), Err(KeyError::Exists(_))));
        assert!(matches!(file.add("a b"), Err(KeyError::BadName(_))));
    }

    #[test]
    fn the_file_is_private_and_contains_no_key() {
        let data = tempfile::tempdir().unwrap();
        let file = KeyFile::of(data.path());
        let key = file.add("editor").unwrap();
        let text = std::fs::read_to_string(&file.path).unwrap();
        let secret = key.strip_prefix("sk-transom-").unwrap();
        assert_eq!(secret.len(), 64);
        assert!(!text.contains(secret));
        let metadata = std::fs::metadata(&file.path).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_file_admits_nobody() {
        let data = tempfile::tempdir().unwrap();
        let file = KeyFile::of(data.path());
        std::fs::write(&file.path, "oops").unwrap();
        assert!(matches!(file.add("x"), Err(KeyError::Damaged { .. })));
        assert_eq!(Access::File(file).name_of(Some("x")), None);
    }

    #[test]
    fn an_origin_is_one_site() {
        for good in [
            "https://chat.example.org",
            "http://[::1]:3000",
            "vscode-webview://abc",
        ] {
            assert_eq!(origin(good), Ok(good.to_owned()));
        }
        for bad in [
            "*",
            "https://*",
            "https://a/b",
            "example.org",
            "://a",
            "https://",
        ] {
            assert!(origin(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn one_key_of_the_command_line() {
        let access = Access::key("secret");
        assert_eq!(access.name_of(Some("secret")).as_deref(), Some("local"));
        assert_eq!(access.name_of(Some("Secret")), None);
        assert_eq!(access.name_of(None), None);
        assert!(Access::Everybody.name_of(None).is_some());
        assert_eq!(format!("{access:?}"), "Key(KeyDigest(…))");
    }
}
