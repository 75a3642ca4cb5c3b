//! The client of a hub: searches repositories, lists their files, and resolves where a file's bytes
//! are.
//!
//! Rule: the token is sent only to the endpoint's own origin and never follows a redirect to
//! another one. So this crate follows redirects itself and does not leave them to the HTTP library.

mod http_client;
mod names;
mod responses;

use std::sync::Arc;

use reqwest::Url;
use serde::Deserialize;
use serde_json::value::RawValue;

pub(crate) use http_client::{HttpClient, HubResponse, RangeRequest};
pub(crate) use names::{check_file, check_repository};
pub(crate) use responses::{RequestContext, content_range};

use crate::digest::Digest;
use crate::{FoundRepository, HubError, HubOptions, Listing, ModelFormat, RemoteFile, Token};

const MAX_RESULTS: usize = 50;
const MAX_FILES: usize = 5_000;
/// The maximum size of a file. The sizes of [`MAX_FILES`] such files can be added without overflow.
const MAX_FILE_BYTES: u64 = 1 << 50;

/// A hub. Cheap to clone; all clones share their connections and the token.
#[derive(Debug, Clone)]
pub struct Hub {
    http: Arc<HttpClient>,
}

#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    /// The commit that the hub resolved the revision to, if the response says so.
    pub(crate) commit: Option<String>,
    pub(crate) size_bytes: Option<u64>,
    pub(crate) digest: Option<Digest>,
    /// The address of the bytes. Links to a blob store are usually signed and expire.
    pub(crate) link: Url,
}

impl Hub {
    /// Creates the client without sending a request. Fails if the endpoint is not a valid address.
    pub fn new(options: HubOptions) -> Result<Self, HubError> {
        Ok(Self {
            http: Arc::new(HttpClient::new(options)?),
        })
    }

    /// Returns the address of the hub without a slash at the end.
    pub fn endpoint(&self) -> &str {
        self.http.endpoint()
    }

    /// Returns model repositories whose names contain the words, with the most downloads first.
    pub async fn search(
        &self,
        words: &str,
        only: Option<ModelFormat>,
    ) -> Result<Vec<FoundRepository>, HubError> {
        let mut url = self.http.url(&["api", "models"]);
        url.query_pairs_mut()
            .append_pair("search", words.trim())
            .append_pair("sort", "downloads")
            .append_pair("direction", "-1")
            .append_pair("limit", &MAX_RESULTS.to_string())
            .append_pair("full", "true");
        if let Some(library) = only {
            url.query_pairs_mut().append_pair("filter", library.tag());
        }
        let context = RequestContext::of("the search", "main");
        let found: Vec<FoundRepositoryJson> = self.http.json(url, &context).await?;
        // Repositories with invalid names are left out, because no command accepts them.
        let usable = found
            .into_iter()
            .filter(|found| check_repository(&found.id).is_ok());
        Ok(usable
            .take(MAX_RESULTS)
            .map(FoundRepositoryJson::into_repository)
            .collect())
    }

    /// Returns the files of a repository at the commit that the revision resolves to.
    pub async fn files(&self, repository: &str, revision: &str) -> Result<Listing, HubError> {
        check_repository(repository)?;
        let mut url = self.http.url(&["api", "models"]);
        names::push(&mut url, repository.split('/'));
        names::push(&mut url, ["revision", revision].into_iter());
        url.query_pairs_mut().append_pair("blobs", "true");
        let context = RequestContext::of(repository, revision);
        let listing: ListingJson = self.http.json(url, &context).await?;
        if listing.siblings.len() > MAX_FILES {
            let n_files = listing.siblings.len();
            let what = format!("it lists {n_files} files; the limit is {MAX_FILES}");
            return Err(self.http.not_a_hub(&what));
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
            is_gated: is_gated(listing.gated.as_deref()),
            files,
        })
    }

    fn checked(&self, file: RemoteFile) -> Result<RemoteFile, HubError> {
        if file.name.contains(transom_files::is_control) {
            return Err(HubError::BadName { name: file.name });
        }
        self.check_size(&file.name, file.size_bytes)?;
        Ok(file)
    }

    fn check_size(&self, file: &str, size_bytes: Option<u64>) -> Result<(), HubError> {
        match size_bytes {
            Some(bytes) if bytes > MAX_FILE_BYTES => {
                let what = format!("it says that {file} has {bytes} bytes");
                Err(self.http.not_a_hub(&what))
            }
            _ => Ok(()),
        }
    }

    /// Asks the hub where a file's bytes are. This request carries the token; requests to the
    /// returned link do not.
    pub(crate) async fn resolve(
        &self,
        repository: &str,
        commit: &str,
        file: &str,
    ) -> Result<Resolved, HubError> {
        check_repository(repository)?;
        check_file(file)?;
        let mut url = self.http.url(&[]);
        names::push(&mut url, repository.split('/'));
        names::push(&mut url, ["resolve", commit].into_iter());
        names::push(&mut url, file.split('/'));
        let context = RequestContext {
            file: Some(file.to_owned()),
            ..RequestContext::of(repository, commit)
        };
        let resolved = self.http.head(url, &context).await?;
        self.check_size(file, resolved.size_bytes)?;
        Ok(resolved)
    }

    pub(crate) fn http(&self) -> &HttpClient {
        &self.http
    }

    /// Stores the token in the keychain and uses it for all further requests.
    pub async fn set_token(&self, token: Token) -> Result<(), HubError> {
        self.http.set_token(Some(token)).await
    }

    /// Deletes the token from the keychain. Further requests carry no token, unless the environment
    /// has one.
    pub async fn clear_token(&self) -> Result<(), HubError> {
        self.http.set_token(None).await
    }

    /// Returns true if requests carry a token, and an error if the keychain cannot be read.
    pub async fn has_token(&self) -> Result<bool, HubError> {
        self.http.has_token().await
    }
}

#[derive(Deserialize)]
struct FoundRepositoryJson {
    id: String,
    #[serde(default)]
    downloads: u64,
    #[serde(default)]
    likes: u64,
    gated: Option<Box<RawValue>>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(rename = "lastModified")]
    updated: Option<String>,
}

impl FoundRepositoryJson {
    fn into_repository(self) -> FoundRepository {
        let has = |tag: &str| self.tags.iter().any(|known| known == tag);
        let license = self
            .tags
            .iter()
            .find_map(|tag| tag.strip_prefix("license:"));
        FoundRepository {
            is_gated: is_gated(self.gated.as_deref()),
            formats: [ModelFormat::Mlx, ModelFormat::Gguf]
                .into_iter()
                .filter(|library| has(library.tag()))
                .collect(),
            license: license.map(str::to_owned),
            repository: self.id,
            downloads: self.downloads,
            likes: self.likes,
            updated: self.updated,
        }
    }
}

#[derive(Deserialize)]
struct ListingJson {
    id: Option<String>,
    sha: String,
    gated: Option<Box<RawValue>>,
    #[serde(default)]
    siblings: Vec<FileJson>,
}

#[derive(Deserialize)]
struct FileJson {
    rfilename: String,
    size: Option<u64>,
    #[serde(rename = "blobId")]
    blob_id: Option<String>,
    lfs: Option<LfsJson>,
}

#[derive(Deserialize)]
struct LfsJson {
    sha256: Option<String>,
    size: Option<u64>,
}

impl FileJson {
    fn into_file(self) -> RemoteFile {
        let large = self.lfs;
        let size_bytes = large.as_ref().and_then(|large| large.size).or(self.size);
        RemoteFile {
            name: self.rfilename,
            size_bytes,
            // The git blob of an LFS file is only a pointer to it.
            git_sha1: self.blob_id.filter(|_| large.is_none()),
            sha256: large.and_then(|large| large.sha256),
        }
    }
}

/// Returns true if a repository is gated: `"auto"` or `"manual"` if it is, `false` if it is not. Any
/// other value counts as gated.
fn is_gated(value: Option<&RawValue>) -> bool {
    value.is_some_and(|value| value.get() != "false")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_gated_is_parsed() {
        for (value, expected) in [
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
            let json = format!(r#"{{"sha": "c", "gated": {value} }}"#);
            let listing: ListingJson = serde_json::from_str(&json).unwrap();
            assert_eq!(is_gated(listing.gated.as_deref()), expected, "{json}");
        }
    }
}
