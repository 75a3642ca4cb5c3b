//! The two checksums of a hub: SHA-256 of large files, git's own of small ones.
//!
//! Rule: a digest is computed from what lies on the disk, from the first byte to the last.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::Digest as _;

/// What a file's checksum must be, in lower-case hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Digest {
    Sha256(String),
    GitSha1(String),
}

impl Digest {
    /// The hub's ETags are digests, told apart by their length.
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

    /// Begins the computation for a file of this size.
    pub(crate) fn begin(&self, size_bytes: u64) -> Sum {
        match self {
            Self::Sha256(_) => Sum::Sha256(Box::default()),
            Self::GitSha1(_) => {
                let mut sum = sha1::Sha1::default();
                sum.update(format!("blob {size_bytes}\0"));
                Sum::GitSha1(sum)
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

/// A digest that is being computed.
pub(crate) enum Sum {
    Sha256(Box<sha2::Sha256>),
    GitSha1(sha1::Sha1),
}

impl Sum {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(sum) => sum.update(bytes),
            Self::GitSha1(sum) => sum.update(bytes),
        }
    }

    pub(crate) fn end(self) -> Digest {
        match self {
            Self::Sha256(sum) => Digest::Sha256(hex(&sum.finalize())),
            Self::GitSha1(sum) => Digest::GitSha1(hex(&sum.finalize())),
        }
    }
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_are_those_that_git_and_sha256sum_print() {
        let git = Digest::from_etag("\"ce013625030ba8dba906f756967f9e9ca394464a\"").unwrap();
        let mut sum = git.begin(6);
        sum.add(b"hel");
        sum.add(b"lo\n");
        assert_eq!(sum.end(), git);
        let sha256 = "5891B5B522D5DF086D0FF0B110FBD9D21BB4FC7163AF34D08286A2E846F6BE03";
        let large = Digest::from_etag(sha256).unwrap();
        let mut sum = large.begin(6);
        sum.add(b"hello\n");
        assert_eq!(sum.end(), large);
    }

    #[test]
    fn an_etag_that_is_no_digest_is_none() {
        for etag in ["", "\"abc-12\"", &"g".repeat(64), &"x".repeat(40)] {
            assert_eq!(Digest::from_etag(etag), None, "{etag}");
        }
        assert!(Digest::from_etag(&format!("W/\"{}\"", "a".repeat(40))).is_some());
    }
}
