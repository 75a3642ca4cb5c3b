//! What a download consists of: one commit, and each file's size and checksum.
//!
//! Rule: it is made once and kept beside the parts, so a download goes on with the same commit
//! whatever happens to the branch. A file is planned only with a size and a checksum; what the
//! caller listed and the hub says must agree.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::disk::{replace, trouble};
use crate::hub::check_file;
use crate::part::Identity;
use crate::{Hub, HubError, RemoteFile, Wanted, WantedFile};

const NAME: &str = "plan.json";

/// A download, settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) wanted: Wanted,
    pub(crate) commit: String,
    pub(crate) files: Vec<Identity>,
}

impl Plan {
    /// The one that was kept in this folder, if it is for the same wish.
    pub(crate) fn kept(folder: &Path, wanted: &Wanted) -> Option<Self> {
        let plan = Self::any_kept(folder)?;
        let is_same = plan.wanted.repository == wanted.repository
            && plan.wanted.revision == wanted.revision
            && plan.wanted.files == wanted.files;
        is_same.then_some(Self {
            wanted: wanted.clone(),
            ..plan
        })
    }

    /// The one that was kept in this folder.
    pub(crate) fn any_kept(folder: &Path) -> Option<Self> {
        let text = fs::read(folder.join(NAME)).ok()?;
        let plan: Self = serde_json::from_slice(&text).ok()?;
        let is_safe = plan.files.iter().all(|file| check_file(&file.name).is_ok());
        is_safe.then_some(plan)
    }

    pub(crate) fn keep(&self, folder: &Path) -> Result<(), HubError> {
        let path = folder.join(NAME);
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        replace(&path, &text).map_err(|error| trouble(&path, &error))
    }

    /// Asks the hub.
    pub(crate) async fn ask(hub: &Hub, wanted: &Wanted) -> Result<Self, HubError> {
        let listing = hub.files(&wanted.repository, &wanted.revision).await?;
        let chosen = match &*wanted.files {
            [] => listing.only_offer()?.files,
            files => files.to_vec(),
        };
        let mut files = Vec::with_capacity(chosen.len());
        for file in &chosen {
            check_file(&file.name)?;
            let listed = listing.files.iter().find(|known| known.name == file.name);
            let Some(listed) = listed else {
                return Err(HubError::FileNotFound {
                    repository: wanted.repository.clone(),
                    file: file.name.clone(),
                });
            };
            let (mut size_bytes, mut digest) = (listed.size_bytes, digest_of(listed));
            if size_bytes.is_none() || digest.is_none() {
                let commit = &listing.commit;
                let resolved = hub.resolve(&wanted.repository, commit, &file.name).await?;
                size_bytes = size_bytes.or(resolved.size_bytes);
                digest = digest.or(resolved.digest);
            }
            files.push(settle(hub, file, size_bytes, digest)?);
        }
        Ok(Self {
            wanted: wanted.clone(),
            commit: listing.commit,
            files,
        })
    }

    pub(crate) fn total_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size_bytes).sum()
    }

    /// Where a verified file waits for the others.
    pub(crate) fn whole_path(folder: &Path, file: &Identity) -> PathBuf {
        folder.join("whole").join(&file.name)
    }

    /// Where it belongs in the end.
    pub(crate) fn final_path(&self, file: &Identity) -> PathBuf {
        self.wanted.folder.join(&file.name)
    }
}

fn digest_of(file: &RemoteFile) -> Option<Digest> {
    let large = file.sha256.as_deref().and_then(Digest::sha256);
    large.or_else(|| file.git_sha1.as_deref().and_then(Digest::from_etag))
}

/// Holds what the caller listed against what the hub says.
fn settle(
    hub: &Hub,
    file: &WantedFile,
    size_bytes: Option<u64>,
    digest: Option<Digest>,
) -> Result<Identity, HubError> {
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
        (Some(size_bytes), Some(digest)) => Ok(Identity {
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
