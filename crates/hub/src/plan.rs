//! The plan of a download: one commit, and the size and checksum of each file.
//!
//! Rule: a plan is made once and saved beside the part files, so a download stays at its commit
//! whatever happens to the branch. Every file of a plan has a size and a checksum, and the values
//! of the request and of the hub must agree.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::disk::save_json;
use crate::hub::check_file;
use crate::part_file::FileIdentity;
use crate::{DownloadRequest, Hub, HubError, RemoteFile, RequestedFile};

const NAME: &str = "plan.json";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    #[serde(alias = "wanted")]
    pub(crate) request: DownloadRequest,
    pub(crate) commit: String,
    pub(crate) files: Vec<FileIdentity>,
}

impl Plan {
    /// Loads the saved plan of this folder if it is for the same request.
    pub(crate) fn load_for(folder: &Path, request: &DownloadRequest) -> Option<Self> {
        let plan = Self::load(folder)?;
        let is_same = plan.request.repository == request.repository
            && plan.request.revision == request.revision
            && plan.request.files == request.files;
        is_same.then_some(Self {
            request: request.clone(),
            ..plan
        })
    }

    pub(crate) fn load(folder: &Path) -> Option<Self> {
        let text = fs::read(folder.join(NAME)).ok()?;
        let plan: Self = serde_json::from_slice(&text).ok()?;
        let is_safe = plan.files.iter().all(|file| check_file(&file.name).is_ok());
        is_safe.then_some(plan)
    }

    pub(crate) fn save(&self, folder: &Path) -> Result<(), HubError> {
        save_json(&folder.join(NAME), self)
    }

    pub(crate) async fn fetch(hub: &Hub, request: &DownloadRequest) -> Result<Self, HubError> {
        let listing = hub.files(&request.repository, &request.revision).await?;
        let chosen = match &*request.files {
            [] => listing.default_variant()?.files,
            files => files.to_vec(),
        };
        let mut files = Vec::with_capacity(chosen.len());
        for file in &chosen {
            check_file(&file.name)?;
            let listed = listing.files.iter().find(|known| known.name == file.name);
            let Some(listed) = listed else {
                return Err(HubError::FileNotFound {
                    repository: request.repository.clone(),
                    file: file.name.clone(),
                });
            };
            let (mut size_bytes, mut digest) = (listed.size_bytes, digest_of(listed));
            if size_bytes.is_none() || digest.is_none() {
                let commit = &listing.commit;
                let resolved = hub.resolve(&request.repository, commit, &file.name).await?;
                size_bytes = size_bytes.or(resolved.size_bytes);
                digest = digest.or(resolved.digest);
            }
            files.push(checked_identity(hub, file, size_bytes, digest)?);
        }
        Ok(Self {
            request: request.clone(),
            commit: listing.commit,
            files,
        })
    }

    pub(crate) fn total_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size_bytes).sum()
    }

    /// Returns where a verified file is stored until all files are verified.
    pub(crate) fn verified_path(folder: &Path, file: &FileIdentity) -> PathBuf {
        folder.join("whole").join(&file.name)
    }

    pub(crate) fn final_path(&self, file: &FileIdentity) -> PathBuf {
        self.request.folder.join(&file.name)
    }
}

fn digest_of(file: &RemoteFile) -> Option<Digest> {
    let large = file.sha256.as_deref().and_then(Digest::sha256);
    large.or_else(|| file.git_sha1.as_deref().and_then(Digest::from_etag))
}

/// Compares the values of the request with those of the hub.
fn checked_identity(
    hub: &Hub,
    file: &RequestedFile,
    size_bytes: Option<u64>,
    digest: Option<Digest>,
) -> Result<FileIdentity, HubError> {
    let differs = |expected: &str, found: &str| HubError::NotAsListed {
        file: file.name.clone(),
        expected: expected.to_owned(),
        found: found.to_owned(),
    };
    if let (Some(listed), Some(found)) = (file.size_bytes, size_bytes)
        && listed != found
    {
        return Err(differs(
            &format!("{listed} bytes"),
            &format!("{found} bytes"),
        ));
    }
    let listed = file.sha256.as_deref().and_then(Digest::sha256);
    if let (Some(listed), Some(Digest::Sha256(found))) = (&listed, &digest)
        && listed.hex() != found
    {
        return Err(differs(listed.hex(), found));
    }
    match (size_bytes.or(file.size_bytes), listed.or(digest)) {
        (Some(size_bytes), Some(digest)) => Ok(FileIdentity {
            name: file.name.clone(),
            size_bytes,
            digest,
        }),
        _ => Err(HubError::NotAHub {
            host: hub.endpoint().to_owned(),
            what: format!("it says no size or no checksum of {}", file.name),
        }),
    }
}
