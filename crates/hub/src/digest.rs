//! The two checksums of a hub: SHA-256 for large files, git's SHA-1 for small ones.
//!
//! Rule: a digest is computed from the bytes on the disk, from the first to the last.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::Digest as _;

/// The expected checksum of a file, in lower-case hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Digest {
    Sha256(String),
    GitSha1(String),
}

impl Digest {
    /// Parses an ETag. The hub's ETags are checksums; their length tells which.
    pub(crate) fn from_etag(etag: &str) -> Option<Self> {
        let etag = etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"');
        match etag.len() {
            64 => Self::sha256(etag),
            40 => is_hex(etag).then(|| Self::GitSha1(etag.to_ascii_lowercase())),
            _ => None,
        }
    }

    pub(crate) fn sha256(hex: &str) -> Option<Self> {
        (hex.len() == 64 && is_hex(hex)).then(|| Self::Sha256(hex.to_ascii_lowercase()))
    }

    pub(crate) fn hex(&self) -> &str {
        match self {
            Self::Sha256(hex) | Self::GitSha1(hex) => hex,
        }
    }

    pub(crate) fn hasher(&self, size_bytes: u64) -> Hasher {
        match self {
            Self::Sha256(_) => Hasher::Sha256(Box::default()),
            Self::GitSha1(_) => {
                let mut hasher = sha1::Sha1::default();
                hasher.update(format!("blob {size_bytes}\0"));
                Hasher::GitSha1(hasher)
            }
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.hex())
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

pub(crate) enum Hasher {
    Sha256(Box<sha2::Sha256>),
    GitSha1(sha1::Sha1),
}

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::GitSha1(hasher) => hasher.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> Digest {
        match self {
            Self::Sha256(hasher) => Digest::Sha256(hex(&hasher.finalize())),
            Self::GitSha1(hasher) => Digest::GitSha1(hex(&hasher.finalize())),
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_digests_equal_those_of_git_and_sha256sum() {
        let git = Digest::from_etag("\"ce013625030ba8dba906f756967f9e9ca394464a\"").unwrap();
        let mut hasher = git.hasher(6);
        hasher.update(b"hel");
        hasher.update(b"lo\n");
        assert_eq!(hasher.finish(), git);
        let sha256 = "5891B5B522D5DF086D0FF0B110FBD9D21BB4FC7163AF34D08286A2E846F6BE03";
        let large = Digest::from_etag(sha256).unwrap();
        let mut hasher = large.hasher(6);
        hasher.update(b"hello\n");
        assert_eq!(hasher.finish(), large);
    }

    #[test]
    fn an_etag_without_a_digest_is_none() {
        for etag in ["", "\"abc-12\"", &"g".repeat(64), &"x".repeat(40)] {
            assert_eq!(Digest::from_etag(etag), None, "{etag}");
        }
        assert!(Digest::from_etag(&format!("W/\"{}\"", "a".repeat(40))).is_some());
    }
}
