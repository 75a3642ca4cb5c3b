//! Asks a hub: which repositories are there, which files are in one, where a file's bytes lie.
//!
//! Rule: the token goes to the endpoint's own host only, never along a redirect to another one, so
//! redirects are followed here and not by the HTTP library.

mod answers;
mod names;
mod wire;

use std::sync::Arc;

use reqwest::Url;
use serde::Deserialize;

pub(crate) use answers::{About, span_of};
pub(crate) use names::{check_file, check_repository};
pub(crate) use wire::{Answer, Part, Wire};

use crate::digest::Digest;
use crate::{Found, HubError, HubOptions, Library, Listing, RemoteFile, Token};

/// How many repositories a search finds at most.
const MOST_FOUND: usize = 50;

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
        Ok(found.into_iter().map(FoundAnswer::into_found).collect())
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
        let files = listing.siblings.into_iter().map(FileAnswer::into_file);
        Ok(Listing {
            repository: listing.id.unwrap_or_else(|| repository.to_owned()),
            commit: listing.sha,
            is_gated: is_gated(&listing.gated),
            files: files.collect(),
        })
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
        self.wire.head(url, &about).await
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
    gated: serde_json::Value,
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
            is_gated: is_gated(&self.gated),
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
    gated: serde_json::Value,
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

/// `false`, `"auto"` or `"manual"`.
fn is_gated(value: &serde_json::Value) -> bool {
    !matches!(
        value,
        serde_json::Value::Null | serde_json::Value::Bool(false)
    )
}
