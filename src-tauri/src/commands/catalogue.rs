//! Models that can be had: the list, the hub, downloads, and how the hub is reached.
//!
//! Rule: the network is asked only when a person asked for what it has.

use std::sync::Arc;

use tauri::{AppHandle, Manager, State};
use transom_hub::HubError;

use crate::catalogue as views;
use crate::rooms::Rooms;
use crate::shelf;
use crate::shell::{Shell, blocking};
use crate::wire::{
    CatalogueView, DownloadChange, DownloadView, EntryView, HubAccessView, Refusal, TierView,
};

type Done<T> = Result<T, Refusal>;

impl From<HubError> for Refusal {
    fn from(error: HubError) -> Self {
        Self::Hub {
            trouble: shelf::trouble(&error),
        }
    }
}

#[tauri::command]
pub(crate) async fn catalogue(shell: State<'_, Shell>) -> Done<CatalogueView> {
    let rooms = shell.rooms().await?;
    blocking(move || {
        let mistake = rooms.shelf.mistake();
        let disk = rooms.shelf.disk();
        Ok(CatalogueView {
            user_file: rooms.shelf.user_file().to_string_lossy().into_owned(),
            ..views::view(&rooms.timed_library(), mistake.as_ref(), &disk)
        })
    })
    .await
}

/// Which models for computers of which size: asked for only when a person wants to see it.
#[tauri::command]
pub(crate) async fn tiers(shell: State<'_, Shell>) -> Done<Vec<TierView>> {
    let rooms = shell.rooms().await?;
    blocking(move || Ok(views::tiers::views(&rooms.timed_library()))).await
}

#[tauri::command]
pub(crate) async fn search_hub(shell: State<'_, Shell>, words: String) -> Done<Vec<EntryView>> {
    Ok(shell.rooms().await?.shelf.search(&words).await?)
}

#[tauri::command]
pub(crate) async fn hub_entry(shell: State<'_, Shell>, repository: String) -> Done<EntryView> {
    let rooms = shell.rooms().await?;
    let listing = rooms.shelf.files(&repository).await?;
    blocking(move || {
        let disk = rooms.shelf.disk();
        Ok(views::listing_view(&listing, &rooms.timed_library(), &disk))
    })
    .await
}

#[tauri::command]
pub(crate) async fn install(shell: State<'_, Shell>, variant: String) -> Done<()> {
    let rooms = shell.rooms().await?;
    let of = rooms.clone();
    let library = blocking(move || Ok(of.library())).await?;
    rooms.shelf.install(&variant, &library).await
}

#[tauri::command]
pub(crate) async fn downloads(app: AppHandle) -> Done<Vec<DownloadView>> {
    let rooms = app.state::<Shell>().rooms().await?;
    download_views(&rooms).await
}

#[tauri::command]
pub(crate) async fn change_download(
    shell: State<'_, Shell>,
    id: u64,
    change: DownloadChange,
) -> Done<()> {
    Ok(shell.rooms().await?.shelf.change(id, change).await?)
}

#[tauri::command]
pub(crate) async fn hub_access(shell: State<'_, Shell>) -> Done<HubAccessView> {
    Ok(shell.rooms().await?.shelf.access().await?)
}

#[tauri::command]
pub(crate) async fn set_hub_token(
    shell: State<'_, Shell>,
    token: Option<String>,
) -> Done<HubAccessView> {
    let rooms = shell.rooms().await?;
    rooms.shelf.set_token(token).await?;
    Ok(rooms.shelf.access().await?)
}

#[tauri::command]
pub(crate) async fn set_hub_endpoint(
    shell: State<'_, Shell>,
    endpoint: Option<String>,
) -> Done<HubAccessView> {
    let rooms = shell.rooms().await?;
    rooms.shelf.set_endpoint(endpoint).await?;
    Ok(rooms.shelf.access().await?)
}

/// The downloads as they are now. Files are read only where one is done, for the model it became.
pub(crate) async fn download_views(rooms: &Arc<Rooms>) -> Done<Vec<DownloadView>> {
    let list = rooms.shelf.downloads().borrow().clone();
    let is_done = |one: &transom_hub::Download| one.state == transom_hub::State::Done;
    if !list.iter().any(is_done) {
        return Ok(shelf::download_views(&list, None));
    }
    let rooms = rooms.clone();
    blocking(move || Ok(shelf::download_views(&list, Some(&rooms.library())))).await
}
