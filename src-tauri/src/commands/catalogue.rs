//! Models that can be had: the list, the hub, downloads, and how the hub is reached.
//!
//! Rule: the network is asked only when a person asked for what it has.

use tauri::State;

use crate::shell::Shell;
use crate::wire::{CatalogueView, DownloadChange, DownloadView, EntryView, HubAccessView, Refusal};

type Done<T> = Result<T, Refusal>;

fn none<T>() -> Done<T> {
    Err(Refusal::NotFound)
}

#[tauri::command]
pub(crate) async fn catalogue(shell: State<'_, Shell>) -> Done<CatalogueView> {
    shell.rooms().await?;
    none()
}

#[tauri::command]
pub(crate) async fn search_hub(words: String) -> Done<Vec<EntryView>> {
    drop(words);
    none()
}

#[tauri::command]
pub(crate) async fn hub_entry(repository: String) -> Done<EntryView> {
    drop(repository);
    none()
}

#[tauri::command]
pub(crate) async fn install(variant: String) -> Done<()> {
    drop(variant);
    none()
}

#[tauri::command]
pub(crate) async fn downloads() -> Done<Vec<DownloadView>> {
    Ok(Vec::new())
}

#[tauri::command]
pub(crate) async fn change_download(id: u64, change: DownloadChange) -> Done<()> {
    let _ = (id, change);
    none()
}

#[tauri::command]
pub(crate) async fn hub_access() -> Done<HubAccessView> {
    none()
}

#[tauri::command]
pub(crate) async fn set_hub_token(token: Option<String>) -> Done<HubAccessView> {
    drop(token);
    none()
}

#[tauri::command]
pub(crate) async fn set_hub_endpoint(endpoint: Option<String>) -> Done<HubAccessView> {
    drop(endpoint);
    none()
}
