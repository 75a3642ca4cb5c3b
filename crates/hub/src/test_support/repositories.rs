//! The contents of a local hub: repositories with commits, and their JSON.
//!
//! Rule: a commit is the set of its files; the checksums are those of git and SHA-256.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::digest::Digest;

/// Files of this size and larger are in the blob store.
const LARGE: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Repositories(BTreeMap<String, Repository>);

#[derive(Debug, Default, Clone)]
struct Repository {
    is_gated: bool,
    /// Oldest first.
    commits: Vec<(String, Files)>,
}

type Files = BTreeMap<String, Blob>;

/// The bytes of a file and their checksum.
#[derive(Debug, Clone)]
pub(super) struct Blob {
    pub(super) bytes: Arc<Vec<u8>>,
    pub(super) digest: Digest,
}

impl Blob {
    fn new(bytes: Vec<u8>) -> Self {
        let kind = if bytes.len() >= LARGE {
            Digest::Sha256(String::new())
        } else {
            Digest::GitSha1(String::new())
        };
        let mut hasher = kind.hasher(bytes.len() as u64);
        hasher.update(&bytes);
        Self {
            digest: hasher.finish(),
            bytes: Arc::new(bytes),
        }
    }

    pub(super) fn is_large(&self) -> bool {
        matches!(self.digest, Digest::Sha256(_))
    }
}

/// The hub's error code for something that does not exist.
pub(super) type NotFoundCode = &'static str;

impl Repositories {
    pub(super) fn put(&mut self, repository: &str, file: &str, bytes: Vec<u8>) -> String {
        let repository = self.0.entry(repository.to_owned()).or_default();
        let mut files = match repository.commits.last() {
            Some((_, files)) => files.clone(),
            None => Files::new(),
        };
        files.insert(file.to_owned(), Blob::new(bytes));
        let commit = commit_of(&files);
        repository.commits.push((commit.clone(), files));
        commit
    }

    pub(super) fn rewrite(&mut self, repository: &str, file: &str, bytes: Vec<u8>) {
        let blob = Blob::new(bytes);
        if let Some(repository) = self.0.get_mut(repository) {
            for (_, files) in &mut repository.commits {
                if let Some(old) = files.get_mut(file) {
                    *old = blob.clone();
                }
            }
        }
    }

    /// Replaces the bytes of a file with others of the same length.
    pub(super) fn change(&mut self, repository: &str, file: &str) {
        if let Ok((_, blob)) = self.file(repository, "main", file) {
            let bytes = blob.bytes.iter().map(|byte| byte.wrapping_add(1)).collect();
            self.rewrite(repository, file, bytes);
        }
    }

    pub(super) fn forget_history(&mut self, repository: &str) {
        if let Some(repository) = self.0.get_mut(repository) {
            let n_old = repository.commits.len().saturating_sub(1);
            repository.commits.drain(..n_old);
        }
    }

    pub(super) fn gate(&mut self, repository: &str) {
        self.0.entry(repository.to_owned()).or_default().is_gated = true;
    }

    pub(super) fn is_gated(&self, repository: &str) -> bool {
        self.0
            .get(repository)
            .is_some_and(|repository| repository.is_gated)
    }

    /// Returns a file, with the commit that the revision resolves to.
    pub(super) fn file(
        &self,
        repository: &str,
        revision: &str,
        file: &str,
    ) -> Result<(&str, &Blob), NotFoundCode> {
        let (commit, files) = self.commit(repository, revision)?;
        let blob = files.get(file).ok_or("EntryNotFound")?;
        Ok((commit, blob))
    }

    fn commit(&self, repository: &str, revision: &str) -> Result<(&str, &Files), NotFoundCode> {
        let repository = self.0.get(repository).ok_or("RepoNotFound")?;
        let mut commits = repository.commits.iter().rev();
        let found = commits.find(|(commit, _)| revision == "main" || revision == commit);
        found
            .map(|(commit, files)| (&**commit, files))
            .ok_or("RevisionNotFound")
    }

    pub(super) fn listing(&self, repository: &str, revision: &str) -> Result<Value, NotFoundCode> {
        let (commit, files) = self.commit(repository, revision)?;
        let siblings: Vec<Value> = files
            .iter()
            .map(|(name, blob)| {
                let size = blob.bytes.len();
                let hex = blob.digest.hex();
                if blob.is_large() {
                    json!({ "rfilename": name, "size": size, "blobId": "0".repeat(40),
                            "lfs": { "sha256": hex, "size": size, "pointerSize": 134 } })
                } else {
                    json!({ "rfilename": name, "size": size, "blobId": hex })
                }
            })
            .collect();
        let gated = match self.is_gated(repository) {
            true => json!("manual"),
            false => json!(false),
        };
        Ok(
            json!({ "id": repository, "modelId": repository, "sha": commit, "gated": gated,
                   "private": false, "siblings": siblings }),
        )
    }

    /// Returns repositories whose names contain all words, with tags according to their files.
    pub(super) fn search(&self, words: &str, tag: Option<&str>) -> Value {
        let words = words.to_lowercase();
        let has_words = |name: &str| {
            words
                .split_whitespace()
                .all(|word| name.to_lowercase().contains(word))
        };
        let found = self.0.iter().filter(|(name, _)| has_words(name));
        let found = found.map(|(name, repository)| {
            let files = repository.commits.last().map(|(_, files)| files);
            let has =
                |end: &str| files.is_some_and(|files| files.keys().any(|name| name.ends_with(end)));
            let mut tags = vec!["license:apache-2.0"];
            tags.extend(has(".safetensors").then_some("mlx"));
            tags.extend(has(".gguf").then_some("gguf"));
            (name, repository, tags)
        });
        let found = found.filter(|(_, _, tags)| tag.is_none_or(|tag| tags.contains(&tag)));
        found
            .map(|(name, repository, tags)| {
                json!({ "id": name, "modelId": name, "downloads": 12, "likes": 3,
                        "gated": repository.is_gated, "tags": tags,
                        "lastModified": "2026-01-01T00:00:00.000Z" })
            })
            .collect()
    }
}

fn commit_of(files: &Files) -> String {
    let mut hasher = Digest::GitSha1(String::new()).hasher(0);
    for (name, blob) in files {
        hasher.update(name.as_bytes());
        hasher.update(blob.digest.hex().as_bytes());
    }
    hasher.finish().hex().to_owned()
}
