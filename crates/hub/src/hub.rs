//! Asks a hub: which repositories are there, which files are in one, where a file's bytes lie.
//!
//! Rule: the token goes to the endpoint's own host only, never along a redirect to another one, so
//! redirects are followed here and not by the HTTP library.

mod answers;
mod names;
mod wire;

use std::fmt;
use std::sync::Arc;

use reqwest::Url;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

pub(crate) use answers::{About, span_of};
pub(crate) use names::{check_file, check_repository};
pub(crate) use wire::{Answer, Part, Wire};

use crate::digest::Digest;
use crate::{Found, HubError, HubOptions, Library, Listing, RemoteFile, Token};

/// How many repositories a search finds at most.
const MOST_FOUND: usize = 50;
/// Most files of a repository that is listed.
const MAX_FILES: usize = 5_000;
/// Largest size of a file. The sizes of [`MAX_FILES`] such files can be added without overflow.
const MAX_FILE_BYTES: u64 = 1 << 50;

/// A hub. Cheap to clone; all clones share connections and the token.
#[derive(Debug, Clone)]
pub struct Hub {
    wire: Arc<Wire>,
}

/// Where a file's bytes lie, and which bytes they are.
#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    /// The commit that answered, where the hub says so.
    pub(crate) commit: Option<String>,
    pub(crate) size_bytes: Option<u64>,
    pub(crate) digest: Option<Digest>,
    /// Signed for a while, at a blob store mostly.
    pub(crate) link: Url,
}

impl Hub {
    /// Asks nothing yet. Fails for an endpoint that is no address.
    pub fn new(options: HubOptions) -> Result<Self, HubError> {
        Ok(Self {
            wire: Arc::new(Wire::new(options)?),
        })
    }

    /// Where it is, without a slash at the end.
    pub fn endpoint(&self) -> &str {
        self.wire.endpoint()
    }

    /// Repositories of models whose names have the words, the most used first.
    pub async fn search(&self, words: &str, only: Option<Library>) -> Result<Vec<Found>, HubError> {
        let mut url = self.wire.url(&["api", "models"]);
        url.query_pairs_mut()
            .append_pair("search", words.trim())
            .append_pair("sort", "downloads")
            .append_pair("direction", "-1")
            .append_pair("limit", &MOST_FOUND.to_string())
            .append_pair("full", "true");
        if let Some(library) = only {
            url.query_pairs_mut().append_pair("filter", library.tag());
        }
        let about = About::of("the search", "main");
        let found: Vec<FoundAnswer> = self.wire.json(url, &about).await?;
        // A name that no command takes is of no use in a list.
        let usable = found
            .into_iter()
            .filter(|found| check_repository(&found.id).is_ok());
        Ok(usable
            .take(MOST_FOUND)
            .map(FoundAnswer::into_found)
            .collect())
    }

    /// The files of a repository, at the commit that the revision stands for.
    pub async fn files(&self, repository: &str, revision: &str) -> Result<Listing, HubError> {
        check_repository(repository)?;
        let mut url = self.wire.url(&["api", "models"]);
        names::push(&mut url, repository.split('/'));
        names::push(&mut url, ["revision", revision].into_iter());
        url.query_pairs_mut().append_pair("blobs", "true");
        let about = About::of(repository, revision);
        let listing: ListingAnswer = self.wire.json(url, &about).await?;
        if listing.siblings.len() > MAX_FILES {
            let n_files = listing.siblings.len();
            let what = format!("it lists {n_files} files; the limit is {MAX_FILES}");
            return Err(self.wire.not_a_hub(&what));
        }
        let files = listing.siblings.into_iter();
        let files = files
            .map(|file| self.checked(file.into_file()))
            .collect::<Result<_, _>>()?;
        // The hub may spell the name differently. Another name could replace another model.
        let own_spelling = listing.id.filter(|id| id.eq_ignore_ascii_case(repository));
        Ok(Listing {
            repository: own_spelling.unwrap_or_else(|| repository.to_owned()),
            commit: listing.sha,
            is_gated: listing.gated.0,
            files,
        })
    }

    fn checked(&self, file: RemoteFile) -> Result<RemoteFile, HubError> {
        if file.name.contains(transom_files::is_control) {
            return Err(HubError::BadName { name: file.name });
        }
        match file.size_bytes {
            Some(bytes) if bytes > MAX_FILE_BYTES => {
                let what = format!("it says that {} has {bytes} bytes", file.name);
                Err(self.wire.not_a_hub(&what))
            }
            _ => Ok(file),
        }
    }

    /// Asks where the file's bytes lie, with the token; the link itself is asked without.
    pub(crate) async fn resolve(
        &self,
        repository: &str,
        commit: &str,
        file: &str,
    ) -> Result<Resolved, HubError> {
        check_repository(repository)?;
        check_file(file)?;
        let mut url = self.wire.url(&[]);
        names::push(&mut url, repository.split('/'));
        names::push(&mut url, ["resolve", commit].into_iter());
        names::push(&mut url, file.split('/'));
        let about = About {
            file: Some(file.to_owned()),
            ..About::of(repository, commit)
        };
        let resolved = self.wire.head(url, &about).await?;
        match resolved.size_bytes {
            Some(bytes) if bytes > MAX_FILE_BYTES => {
                let what = format!("it says that {file} has {bytes} bytes");
                Err(self.wire.not_a_hub(&what))
            }
            _ => Ok(resolved),
        }
    }

    pub(crate) fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Keeps the token in the keychain and uses it from now on.
    pub async fn set_token(&self, token: Token) -> Result<(), HubError> {
        self.wire.set_token(Some(token)).await
    }

    /// Deletes the token from the keychain and uses none from now on, but for one of the
    /// environment.
    pub async fn clear_token(&self) -> Result<(), HubError> {
        self.wire.set_token(None).await
    }

    /// Whether requests carry a token. An error says that no keychain could be asked.
    pub async fn has_token(&self) -> Result<bool, HubError> {
        self.wire.has_token().await
    }
}

#[derive(Deserialize)]
struct FoundAnswer {
    id: String,
    #[serde(default)]
    downloads: u64,
    #[serde(default)]
    likes: u64,
    #[serde(default)]
    gated: Gated,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(rename = "lastModified")]
    updated: Option<String>,
}

impl FoundAnswer {
    fn into_found(self) -> Found {
        let has = |tag: &str| self.tags.iter().any(|known| known == tag);
        let licence = self
            .tags
            .iter()
            .find_map(|tag| tag.strip_prefix("license:"));
        Found {
            is_gated: self.gated.0,
            libraries: [Library::Mlx, Library::Gguf]
                .into_iter()
                .filter(|library| has(library.tag()))
                .collect(),
            licence: licence.map(str::to_owned),
            repository: self.id,
            downloads: self.downloads,
            likes: self.likes,
            updated: self.updated,
        }
    }
}

#[derive(Deserialize)]
struct ListingAnswer {
    id: Option<String>,
    sha: String,
    #[serde(default)]
    gated: Gated,
    #[serde(default)]
    siblings: Vec<FileAnswer>,
}

#[derive(Deserialize)]
struct FileAnswer {
    rfilename: String,
    size: Option<u64>,
    #[serde(rename = "blobId")]
    blob_id: Option<String>,
    lfs: Option<LargeAnswer>,
}

#[derive(Deserialize)]
struct LargeAnswer {
    sha256: Option<String>,
    size: Option<u64>,
}

impl FileAnswer {
    fn into_file(self) -> RemoteFile {
        let large = self.lfs;
        let size_bytes = large.as_ref().and_then(|large| large.size).or(self.size);
        RemoteFile {
            name: self.rfilename,
            size_bytes,
            // The git blob of a large file is only a pointer to it.
            git_sha1: self.blob_id.filter(|_| large.is_none()),
            sha256: large.and_then(|large| large.sha256),
        }
    }
}

/// Whether a repository is gated: `"auto"` or `"manual"` if it is, `false` if not. Any other value
/// counts as gated and is skipped without keeping it.
#[derive(Default)]
struct Gated(bool);

impl<'de> Deserialize<'de> for Gated {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct GatedVisitor;

        impl<'de> Visitor<'de> for GatedVisitor {
            type Value = Gated;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("any value")
            }

            fn visit_bool<E>(self, is_gated: bool) -> Result<Gated, E> {
                Ok(Gated(is_gated))
            }

            fn visit_unit<E>(self) -> Result<Gated, E> {
                Ok(Gated(false))
            }

            fn visit_str<E>(self, _: &str) -> Result<Gated, E> {
                Ok(Gated(true))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Gated, E> {
                Ok(Gated(true))
            }

            fn visit_u64<E>(self, _: u64) -> Result<Gated, E> {
                Ok(Gated(true))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Gated, E> {
                Ok(Gated(true))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Gated, A::Error> {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Gated(true))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Gated, A::Error> {
                while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Gated(true))
            }
        }

        deserializer.deserialize_any(GatedVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_gated_is_understood() {
        for (json, expected) in [
            ("null", false),
            ("false", false),
            ("true", true),
            (r#""auto""#, true),
            (r#""manual""#, true),
            ("-1", true),
            ("1", true),
            ("1.5", true),
            ("[[], {}]", true),
            (r#"{"a": {"b": []}}"#, true),
        ] {
            let gated: Gated = serde_json::from_str(json).unwrap();
            assert_eq!(gated.0, expected, "{json}");
        }
    }
}
