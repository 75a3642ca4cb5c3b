//! The source of new models: the catalog, the hub and the download queue.
//!
//! Rule: nothing here uses the network before the user asks for something, except to resume
//! downloads. If a part cannot be opened, everything else works, and opening is retried when it is
//! needed.

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
use transom_library::download::Reference;
use transom_library::{
    CATALOG_FILE, Catalog, CatalogError, CatalogWatcher, DiskSpace, Library, MODELS_FOLDER,
    PARTS_FOLDER,
};

use crate::catalog;
use crate::wire::{CommandResult, DownloadChange, EntryView, HubAccessView};
pub(crate) use views::{download_views, hub_error_view};

/// On all but the slowest disks, received data is written within this time.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct ModelSource {
    data_folder: PathBuf,
    catalog: CatalogWatcher,
    /// The current downloads, whichever queue has them.
    downloads: watch::Sender<Arc<Vec<Download>>>,
    session: RwLock<Option<HubSession>>,
}

/// A hub and its download queue.
#[derive(Clone)]
struct HubSession {
    hub: Hub,
    queue: Downloads,
}

impl ModelSource {
    /// Reads and watches the catalog. `on_catalog_change` is called on a separate thread when the
    /// catalog or its error changes.
    pub(crate) fn new(
        data_folder: &Path,
        on_catalog_change: impl FnMut() + Send + 'static,
    ) -> Self {
        let user = data_folder.join(CATALOG_FILE);
        Self {
            catalog: CatalogWatcher::start(user, on_catalog_change),
            data_folder: data_folder.to_owned(),
            downloads: watch::Sender::default(),
            session: RwLock::default(),
        }
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.current()
    }

    /// Returns the error in a catalog file, if there is one.
    pub(crate) fn error(&self) -> Option<CatalogError> {
        self.catalog.error()
    }

    /// Returns the path of the user's own catalog, which may not exist.
    pub(crate) fn user_file(&self) -> PathBuf {
        self.data_folder.join(CATALOG_FILE)
    }

    /// Returns the downloads and their changes.
    pub(crate) fn downloads(&self) -> watch::Receiver<Arc<Vec<Download>>> {
        self.downloads.subscribe()
    }

    /// Returns the free space of the disk for downloads. Calls the system.
    pub(crate) fn disk(&self) -> DiskSpace {
        let downloads = self.downloads.borrow().clone();
        DiskSpace::read(&self.options(), &downloads)
    }

    fn options(&self) -> DownloadsOptions {
        let folder = self.data_folder.join(MODELS_FOLDER).join(PARTS_FOLDER);
        DownloadsOptions {
            is_persistent: true,
            ..DownloadsOptions::in_folder(folder)
        }
    }

    /// Opens the hub and resumes the queue, if this was not done before.
    pub(crate) async fn open(&self) -> Result<(), HubError> {
        self.session().await.map(drop)
    }

    async fn session(&self) -> Result<HubSession, HubError> {
        if let Some(session) = self.session.read().await.as_ref() {
            return Ok(session.clone());
        }
        let mut slot = self.session.write().await;
        if let Some(session) = slot.as_ref() {
            return Ok(session.clone());
        }
        let hub = Hub::new(hub_settings::options(&self.data_folder)?)?;
        let queue = Downloads::start(hub.clone(), self.options()).await?;
        self.follow(&queue);
        let session = HubSession { hub, queue };
        *slot = Some(session.clone());
        Ok(session)
    }

    /// Forwards changes of this queue until it ends.
    fn follow(&self, queue: &Downloads) {
        let mut changes = queue.watch();
        let downloads = self.downloads.clone();
        tauri::async_runtime::spawn(async move {
            changes.mark_changed();
            while changes.changed().await.is_ok() {
                downloads.send_replace(changes.borrow_and_update().clone());
            }
        });
    }

    /// Stops the queue. Received data is kept for the next start.
    pub(crate) async fn close(&self) {
        let stop = async {
            // Another task may be opening the session.
            let session = self.session.write().await.take();
            if let Some(session) = session {
                session.queue.stop().await;
            }
        };
        if timeout(STOP_TIMEOUT, stop).await.is_err() {
            tracing::warn!(
                "a download is slow to stop; the next start fetches a little of it again"
            );
        }
    }

    /// Returns repositories whose names match the query.
    pub(crate) async fn search(&self, words: &str) -> Result<Vec<EntryView>, HubError> {
        let hub = self.session().await?.hub;
        let (mlx, gguf) = tokio::join!(
            hub.search(words, Some(Kind::Mlx)),
            hub.search(words, Some(Kind::Gguf)),
        );
        let mut found = mlx?;
        found.extend(gguf?);
        Ok(catalog::search_views(found))
    }

    pub(crate) async fn files(&self, repository: &str) -> Result<Listing, HubError> {
        self.session().await?.hub.files(repository, "main").await
    }

    /// Starts or resumes the download of the model with this key.
    pub(crate) async fn install(&self, key: &str, library: &Library) -> CommandResult<()> {
        let session = self.session().await?;
        let reference = Reference::parse(key, library.catalog(), session.hub.endpoint())?;
        // The queue looks up everything else by itself, also later when the network is back.
        let query = library.listing_of(&reference)?;
        let listing = match query.filter(|query| query.is_required) {
            Some(query) => {
                let listing = session.hub.files(&query.repository, &query.revision);
                Some(listing.await?)
            }
            None => None,
        };
        let request = library.plan(&reference, listing.as_ref())?.request;
        tracing::info!(key, repository = request.repository, "downloading a model");
        session.queue.add(request).await?;
        Ok(())
    }

    pub(crate) async fn change(&self, id: u64, change: DownloadChange) -> Result<(), HubError> {
        let queue = self.session().await?.queue;
        let id = DownloadId(id);
        match change {
            DownloadChange::Pause => queue.pause(id).await,
            DownloadChange::Resume => queue.resume(id).await,
            DownloadChange::Cancel => queue.cancel(id).await.map(drop),
            DownloadChange::Move { position } => {
                let list = self.downloads.borrow().clone();
                queue.move_to(id, queue_place(&list, id, position)).await
            }
        }
    }

    /// Returns the settings for accessing the hub.
    pub(crate) async fn access(&self) -> Result<HubAccessView, HubError> {
        let options = hub_settings::options(&self.data_folder)?;
        let hub = self.session().await?.hub;
        let (has_token, keychain_problem) = match hub.has_token().await {
            Ok(has_token) => (has_token, None),
            Err(error) => (false, Some(hub_error_view(&error))),
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

    /// Stores a token in the keychain, or removes it.
    pub(crate) async fn set_token(&self, token: Option<String>) -> Result<(), HubError> {
        let hub = self.session().await?.hub;
        match token {
            Some(token) => hub.set_token(Token::new(token)?).await,
            None => hub.clear_token().await,
        }
    }

    /// Sets another hub address. Downloads continue there.
    pub(crate) async fn set_endpoint(&self, endpoint: Option<String>) -> Result<(), HubError> {
        if let Some(endpoint) = &endpoint {
            let mut options = hub_settings::options(&self.data_folder)?;
            options.endpoint = endpoint.clone();
            Hub::new(options)?;
        }
        hub_settings::save_endpoint(&self.data_folder, endpoint)?;
        self.close().await;
        self.open().await
    }
}

/// Converts a position in the list into a place in the queue for `id`.
fn queue_place(list: &[Download], id: DownloadId, place: usize) -> QueuePosition {
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
