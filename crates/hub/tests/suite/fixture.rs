//! What every test needs: a hub, a folder, a queue, and waiting for a state.
//!
//! Rule: a wait ends after a minute, and its panic shows the last list.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::timeout;
use transom_hub::test_support::LocalHub;
use transom_hub::{
    Download, DownloadId, DownloadRequest, Downloads, DownloadsOptions, Hub, HubError,
    RetryOptions, State,
};

pub(crate) const REPOSITORY: &str = "owner/model";
pub(crate) const MODEL: &str = "model.safetensors";

pub(crate) struct Fixture {
    pub(crate) folder: TempDir,
    pub(crate) local: LocalHub,
}

impl Fixture {
    /// Creates a hub with a model whose weights have so many bytes.
    pub(crate) fn with_model(n_bytes: usize) -> Self {
        let fixture = Self {
            folder: tempfile::tempdir().unwrap(),
            local: LocalHub::start().unwrap(),
        };
        fixture.local.put(REPOSITORY, "config.json", "{}");
        fixture.local.put(REPOSITORY, "README.md", "words");
        fixture.local.put(REPOSITORY, MODEL, noise(n_bytes, 1));
        fixture
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
        options.retry = RetryOptions {
            initial_delay: Duration::from_millis(2),
            max_delay: Duration::from_millis(20),
            max_attempts: 5,
        };
        options
    }

    pub(crate) async fn downloads(&self) -> Downloads {
        Downloads::start(self.hub(), self.options()).await.unwrap()
    }

    pub(crate) fn request(&self) -> DownloadRequest {
        DownloadRequest {
            key: "model".to_owned(),
            name: "Model".to_owned(),
            repository: REPOSITORY.to_owned(),
            revision: "main".to_owned(),
            files: Vec::new(),
            folder: self.model(),
        }
    }

    /// Adds the model and returns the download when it has finished.
    pub(crate) async fn download(&self, downloads: &Downloads) -> Download {
        let id = downloads.add(self.request()).await.unwrap();
        until(downloads, id, "over", |it| it.state.is_finished()).await
    }

    /// Downloads the model with a new queue and returns the download when it has finished.
    pub(crate) async fn download_alone(&self) -> Download {
        self.download(&self.downloads().await).await
    }

    /// Downloads the model with a new queue, and asserts that it is complete.
    pub(crate) async fn download_and_verify(&self) -> Download {
        let done = self.download_alone().await;
        assert_eq!(done.state, State::Done);
        self.assert_complete();
        done
    }

    /// Asserts that the files in the model's folder equal those of the hub.
    #[track_caller]
    pub(crate) fn assert_complete(&self) {
        for name in ["config.json", MODEL] {
            let found = std::fs::read(self.model().join(name)).unwrap();
            let right = self.local.bytes(REPOSITORY, name).unwrap();
            assert!(found == right, "{name} is not the hub's");
        }
    }

    /// Returns how many bytes of large files were requested.
    pub(crate) fn requested_bytes(&self) -> u64 {
        let ranges = self
            .local
            .requests()
            .into_iter()
            .filter_map(|received| received.range);
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

/// Waits until the list has the expected state.
pub(crate) async fn until_list(
    downloads: &Downloads,
    what: &str,
    is_so: impl Fn(&[Download]) -> bool,
) -> Arc<Vec<Download>> {
    let mut watch: watch::Receiver<Arc<Vec<Download>>> = downloads.watch();
    let limit = Duration::from_secs(60);
    let received = timeout(limit, watch.wait_for(|list| is_so(list))).await;
    let list = received.map(|list| list.unwrap().clone());
    list.unwrap_or_else(|_| panic!("not {what} after 60 s: {:#?}", downloads.watch().borrow()))
}

/// Waits until one download has the expected state.
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
