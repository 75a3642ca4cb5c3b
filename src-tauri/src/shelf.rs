//! Models that can be had and those on their way: the watched list, the hub, and the queue of
//! downloads.
//!
//! Rule: nothing here asks the network before a person did, but to go on with what they had begun.
//! Whatever of it cannot be opened leaves everything else as it is, and is tried again when it is
//! next needed.

mod views;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{RwLock, watch};
use tokio::time::timeout;
use transom_hub::{
    Download, DownloadId, Downloads, DownloadsOptions, Hub, HubError, Listing, ModelFormat as Kind,
    QueuePosition, Token, hub_settings,
};
use transom_library::download::{PlanError, Reference};
use transom_library::{
    CATALOG_FILE, Catalog, CatalogError, CatalogWatcher, DiskSpace, Library, MODELS_FOLDER,
    PARTS_FOLDER, own_executable, starter_near,
};

use crate::catalogue;
use crate::wire::{DownloadChange, EntryView, HubAccessView, Refusal};
pub(crate) use views::{download_views, trouble};

/// What came is written by then on all but the slowest disk.
const STOPPED_WITHIN: Duration = Duration::from_secs(2);

/// See the head of this file.
pub(crate) struct Shelf {
    data_folder: PathBuf,
    list: CatalogWatcher,
    /// The downloads as they are now, whichever queue has them.
    downloads: watch::Sender<Arc<Vec<Download>>>,
    open: RwLock<Option<Open>>,
}

/// A hub, and the queue that fetches from it.
#[derive(Clone)]
struct Open {
    hub: Hub,
    queue: Downloads,
}

impl Shelf {
    /// Reads the list and watches it. `on_list` is called on a thread of its own when another list
    /// is in force, or another mistake.
    pub(crate) fn new(data_folder: &Path, on_list: impl FnMut() + Send + 'static) -> Self {
        let user = data_folder.join(CATALOG_FILE);
        Self {
            list: CatalogWatcher::start(built_in(), Some(user), on_list),
            data_folder: data_folder.to_owned(),
            downloads: watch::Sender::default(),
            open: RwLock::default(),
        }
    }

    /// The list in force.
    pub(crate) fn list(&self) -> Arc<Catalog> {
        self.list.current()
    }

    /// Why a file of it is not in force as it is.
    pub(crate) fn mistake(&self) -> Option<CatalogError> {
        self.list.error()
    }

    /// The user's own list, which need not be there.
    pub(crate) fn user_file(&self) -> PathBuf {
        self.data_folder.join(CATALOG_FILE)
    }

    /// Where models go.
    pub(crate) fn models_folder(&self) -> PathBuf {
        self.data_folder.join(MODELS_FOLDER)
    }

    /// The downloads, now and after each change.
    pub(crate) fn downloads(&self) -> watch::Receiver<Arc<Vec<Download>>> {
        self.downloads.subscribe()
    }

    /// The disk that models are fetched to, as it is now. Asks the system.
    pub(crate) fn disk(&self) -> DiskSpace {
        let downloads = self.downloads.borrow().clone();
        DiskSpace::read(&self.options(), &downloads)
    }

    fn options(&self) -> DownloadsOptions {
        DownloadsOptions {
            is_persistent: true,
            ..DownloadsOptions::in_folder(self.models_folder().join(PARTS_FOLDER))
        }
    }

    /// Opens the hub and goes on with the queue, unless that was done.
    ///
    /// # Errors
    /// When the hub's address is none, or the queue cannot be kept.
    pub(crate) async fn begin(&self) -> Result<(), HubError> {
        self.opened().await.map(drop)
    }

    async fn opened(&self) -> Result<Open, HubError> {
        if let Some(open) = self.open.read().await.as_ref() {
            return Ok(open.clone());
        }
        let mut place = self.open.write().await;
        if let Some(open) = place.as_ref() {
            return Ok(open.clone());
        }
        let hub = Hub::new(hub_settings::options(&self.data_folder)?)?;
        let queue = Downloads::start(hub.clone(), self.options()).await?;
        self.follow(&queue);
        let open = Open { hub, queue };
        *place = Some(open.clone());
        Ok(open)
    }

    /// Tells what this queue says, until it ends.
    fn follow(&self, queue: &Downloads) {
        let mut changes = queue.watch();
        let downloads = self.downloads.clone();
        tauri::async_runtime::spawn(async move {
            loop {
                let now = changes.borrow_and_update().clone();
                downloads.send_replace(now);
                if changes.changed().await.is_err() {
                    return;
                }
            }
        });
    }

    /// Stops the queue; what came stays, and the next start goes on from it.
    pub(crate) async fn close(&self) {
        let Some(open) = self.open.write().await.take() else {
            return;
        };
        if timeout(STOPPED_WITHIN, open.queue.stop()).await.is_err() {
            tracing::warn!(
                "a download is slow to stop; the next start fetches a little of it again"
            );
        }
    }

    /// Repositories whose names have these words.
    ///
    /// # Errors
    /// The hub's.
    pub(crate) async fn search(&self, words: &str) -> Result<Vec<EntryView>, HubError> {
        let hub = self.opened().await?.hub;
        let (mlx, gguf) = tokio::join!(
            hub.search(words, Some(Kind::Mlx)),
            hub.search(words, Some(Kind::Gguf)),
        );
        let mut found = mlx?;
        found.extend(gguf?);
        Ok(catalogue::found_views(found))
    }

    /// What a repository has.
    ///
    /// # Errors
    /// The hub's.
    pub(crate) async fn files(&self, repository: &str) -> Result<Listing, HubError> {
        self.opened().await?.hub.files(repository, "main").await
    }

    /// Begins to download the model with this key, or goes on with it.
    ///
    /// # Errors
    /// When nothing has that key, and the hub's where it had to be asked what there is.
    pub(crate) async fn install(&self, key: &str, library: &Library) -> Result<(), Refusal> {
        let open = self.opened().await?;
        let reference = Reference::parse(key, library.catalog(), open.hub.endpoint());
        let reference = reference.map_err(|error| Refusal::Invalid {
            field: "variant".to_owned(),
            reason: error.to_string(),
        })?;
        // The queue finds what is not required by itself, also later when there is a network again.
        let query = library.listing_of(&reference)?;
        let listing = match query.filter(|query| query.is_required) {
            Some(query) => Some(open.hub.files(&query.repository, &query.revision).await?),
            None => None,
        };
        let wanted = library.plan(&reference, listing.as_ref())?.wanted;
        tracing::info!(key, repository = wanted.repository, "downloading a model");
        open.queue.add(wanted).await?;
        Ok(())
    }

    /// Changes a download.
    ///
    /// # Errors
    /// The queue's, as when the download is gone.
    pub(crate) async fn change(&self, id: u64, change: DownloadChange) -> Result<(), HubError> {
        let queue = self.opened().await?.queue;
        let id = DownloadId(id);
        match change {
            DownloadChange::Pause => queue.pause(id).await,
            DownloadChange::Resume => queue.resume(id).await,
            DownloadChange::Cancel => queue.cancel(id).await.map(drop),
            DownloadChange::Move { place } => {
                let list = self.downloads.borrow().clone();
                queue.move_to(id, place_at(&list, id, place as usize)).await
            }
        }
    }

    /// How the hub is reached.
    ///
    /// # Errors
    /// When its address is none.
    pub(crate) async fn access(&self) -> Result<HubAccessView, HubError> {
        let options = hub_settings::options(&self.data_folder)?;
        let hub = self.opened().await?.hub;
        let (has_token, keychain_problem) = match hub.has_token().await {
            Ok(has_token) => (has_token, None),
            Err(error) => (false, Some(error.to_string())),
        };
        Ok(HubAccessView {
            has_token,
            is_token_from_environment: hub_settings::is_token_from_environment(),
            keychain_problem,
            endpoint: hub.endpoint().to_owned(),
            is_default_endpoint: hub_settings::is_default(hub.endpoint()),
            is_endpoint_from_environment: hub_settings::is_endpoint_from_environment(),
            is_offline: options.is_offline,
        })
    }

    /// Puts a token into the keychain, or takes it out.
    ///
    /// # Errors
    /// When it is none, or the keychain refuses.
    pub(crate) async fn set_token(&self, token: Option<String>) -> Result<(), HubError> {
        let hub = self.opened().await?.hub;
        match token {
            Some(token) => hub.set_token(Token::new(token)?).await,
            None => hub.clear_token().await,
        }
    }

    /// Another hub from now on; downloads go on from there.
    ///
    /// # Errors
    /// When it is no address, or cannot be kept.
    pub(crate) async fn set_endpoint(&self, endpoint: Option<String>) -> Result<(), HubError> {
        if let Some(endpoint) = &endpoint {
            let mut options = hub_settings::options(&self.data_folder)?;
            options.endpoint = endpoint.clone();
            Hub::new(options)?;
        }
        hub_settings::save_endpoint(&self.data_folder, endpoint)?;
        self.close().await;
        self.begin().await
    }
}

impl From<PlanError> for Refusal {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Lookup(error) => error.into(),
            PlanError::Hub(error) => error.into(),
            PlanError::Bundled { .. } => Self::Invalid {
                field: "variant".to_owned(),
                reason: error.to_string(),
            },
        }
    }
}

/// The list beside the starter, as in a checkout, where it may change; else the built-in one.
fn built_in() -> Option<PathBuf> {
    let executable = own_executable()?;
    let starter = starter_near(&executable)?;
    let list = starter.ancestors().nth(2)?.join(CATALOG_FILE);
    list.is_file().then_some(list)
}

/// Where in the queue the place with this number is, for `id`.
fn place_at(list: &[Download], id: DownloadId, place: usize) -> QueuePosition {
    if place == 0 {
        return QueuePosition::First;
    }
    let mut others = list.iter().filter(|download| download.id != id);
    match others.nth(place) {
        Some(other) => QueuePosition::Before(other.id),
        None => QueuePosition::Last,
    }
}

#[cfg(test)]
mod tests;
