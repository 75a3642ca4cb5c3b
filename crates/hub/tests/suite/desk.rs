//! What every case needs: a hub, a folder, a queue, and waiting for a state.
//!
//! Rule: a wait ends after a minute, and says what it saw.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::timeout;
use transom_hub::test_support::LocalHub;
use transom_hub::{
    Download, DownloadId, Downloads, DownloadsOptions, Hub, HubError, Patience, State, Wanted,
};

pub(crate) const REPOSITORY: &str = "owner/model";
pub(crate) const MODEL: &str = "model.safetensors";

pub(crate) struct Desk {
    pub(crate) folder: TempDir,
    pub(crate) local: LocalHub,
}

impl Desk {
    /// A hub with a model of these many bytes of weights.
    pub(crate) fn with_model(n_bytes: usize) -> Self {
        let desk = Self {
            folder: tempfile::tempdir().unwrap(),
            local: LocalHub::start().unwrap(),
        };
        desk.local.put(REPOSITORY, "config.json", "{}");
        desk.local.put(REPOSITORY, "README.md", "words");
        desk.local.put(REPOSITORY, MODEL, noise(n_bytes, 1));
        desk
    }

    pub(crate) fn parts(&self) -> PathBuf {
        self.folder.path().join("models/.downloads")
    }

    pub(crate) fn model(&self) -> PathBuf {
        self.folder.path().join("models/owner/model")
    }

    pub(crate) fn hub(&self) -> Hub {
        self.local.hub().unwrap()
    }

    pub(crate) fn options(&self) -> DownloadsOptions {
        let mut options = DownloadsOptions::in_folder(self.parts());
        options.piece_bytes = 20_000;
        options.spare_bytes = 0;
        options.patience = Patience {
            first_wait: Duration::from_millis(2),
            longest_wait: Duration::from_millis(20),
            n_tries: 5,
        };
        options
    }

    pub(crate) async fn downloads(&self) -> Downloads {
        Downloads::start(self.hub(), self.options()).await.unwrap()
    }

    pub(crate) fn wanted(&self) -> Wanted {
        Wanted {
            key: "model".to_owned(),
            name: "Model".to_owned(),
            repository: REPOSITORY.to_owned(),
            revision: "main".to_owned(),
            files: Vec::new(),
            folder: self.model(),
        }
    }

    /// Adds the model and returns it as it ended.
    pub(crate) async fn fetch(&self, downloads: &Downloads) -> Download {
        let id = downloads.add(self.wanted()).await.unwrap();
        until(downloads, id, "over", |it| it.state.is_over()).await
    }

    /// Fetches the model with a queue of its own, and returns it as it ended.
    pub(crate) async fn fetched(&self) -> Download {
        self.fetch(&self.downloads().await).await
    }

    /// The same of one that must come whole.
    pub(crate) async fn comes_whole(&self) -> Download {
        let done = self.fetched().await;
        assert_eq!(done.state, State::Done);
        self.assert_whole();
        done
    }

    /// Whether the model is in its folder as the hub has it.
    #[track_caller]
    pub(crate) fn assert_whole(&self) {
        for name in ["config.json", MODEL] {
            let found = std::fs::read(self.model().join(name)).unwrap();
            let right = self.local.bytes(REPOSITORY, name).unwrap();
            assert!(found == right, "{name} is not the hub's");
        }
    }

    /// How many bytes of large files the hub was asked for.
    pub(crate) fn asked_bytes(&self) -> u64 {
        let ranges = self.local.seen().into_iter().filter_map(|seen| seen.range);
        ranges
            .map(|range| {
                let (first, last) = range.trim_start_matches("bytes=").split_once('-').unwrap();
                last.parse::<u64>().unwrap() + 1 - first.parse::<u64>().unwrap()
            })
            .sum()
    }
}

pub(crate) fn noise(n_bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    (0..n_bytes)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as u8
        })
        .collect()
}

/// Waits until the list is as it should be.
pub(crate) async fn until_list(
    downloads: &Downloads,
    what: &str,
    is_so: impl Fn(&[Download]) -> bool,
) -> Arc<Vec<Download>> {
    let mut watch: watch::Receiver<Arc<Vec<Download>>> = downloads.watch();
    let limit = Duration::from_secs(60);
    let seen = timeout(limit, watch.wait_for(|list| is_so(list))).await;
    let list = seen.map(|list| list.unwrap().clone());
    list.unwrap_or_else(|_| panic!("not {what} after 60 s: {:#?}", downloads.watch().borrow()))
}

/// Waits until one download is as it should be.
pub(crate) async fn until(
    downloads: &Downloads,
    id: DownloadId,
    what: &str,
    is_so: impl Fn(&Download) -> bool,
) -> Download {
    let find = |list: &[Download]| list.iter().find(|it| it.id == id).cloned();
    let list = until_list(downloads, what, |list| {
        find(list).is_some_and(|it| is_so(&it))
    })
    .await;
    find(&list).unwrap()
}

#[track_caller]
pub(crate) fn failed(download: &Download) -> &HubError {
    match &download.state {
        State::Failed(error) => error,
        state => panic!("it did not fail: {state:?}"),
    }
}
