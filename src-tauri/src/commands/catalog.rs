//! Commands for models to download: the catalog, the hub, downloads and access to the hub.
//!
//! Rule: a command uses the network only if the user asked for something from it.

use std::sync::Arc;

use tauri::{AppHandle, Manager, State};
use transom_hub::HubError;

use crate::backend::Backend;
use crate::catalog as views;
use crate::model_source;
use crate::shell::{Shell, blocking};
use crate::wire::{
    CatalogView, CommandError, DownloadChange, DownloadView, EntryView, HubAccessView, TierView,
};

type CommandResult<T> = Result<T, CommandError>;

impl From<HubError> for CommandError {
    fn from(error: HubError) -> Self {
        Self::Hub {
            error: model_source::hub_error_view(&error),
        }
    }
}

#[tauri::command]
pub(crate) async fn catalog(shell: State<'_, Shell>) -> CommandResult<CatalogView> {
    let backend = shell.backend().await?;
    blocking(move || {
        let error = backend.model_source.error();
        let disk = backend.model_source.disk();
        Ok(CatalogView {
            user_file: backend
                .model_source
                .user_file()
                .to_string_lossy()
                .into_owned(),
            ..views::view(&backend.timed_library(), error.as_ref(), &disk)
        })
    })
    .await
}

/// Returns the recommended models by memory size.
#[tauri::command]
pub(crate) async fn tiers(shell: State<'_, Shell>) -> CommandResult<Vec<TierView>> {
    let backend = shell.backend().await?;
    blocking(move || Ok(views::tiers::views(&backend.timed_library()))).await
}

#[tauri::command]
pub(crate) async fn search_hub(
    shell: State<'_, Shell>,
    words: String,
) -> CommandResult<Vec<EntryView>> {
    Ok(shell.backend().await?.model_source.search(&words).await?)
}

#[tauri::command]
pub(crate) async fn hub_entry(
    shell: State<'_, Shell>,
    repository: String,
) -> CommandResult<EntryView> {
    let backend = shell.backend().await?;
    let listing = backend.model_source.files(&repository).await?;
    blocking(move || {
        let disk = backend.model_source.disk();
        Ok(views::listing_view(
            &listing,
            &backend.timed_library(),
            &disk,
        ))
    })
    .await
}

#[tauri::command]
pub(crate) async fn install(shell: State<'_, Shell>, variant: String) -> CommandResult<()> {
    let backend = shell.backend().await?;
    let shared = backend.clone();
    let library = blocking(move || Ok(shared.library())).await?;
    backend.model_source.install(&variant, &library).await
}

#[tauri::command]
pub(crate) async fn downloads(app: AppHandle) -> CommandResult<Vec<DownloadView>> {
    let backend = app.state::<Shell>().backend().await?;
    download_views(&backend).await
}

#[tauri::command]
pub(crate) async fn change_download(
    shell: State<'_, Shell>,
    id: u64,
    change: DownloadChange,
) -> CommandResult<()> {
    Ok(shell
        .backend()
        .await?
        .model_source
        .change(id, change)
        .await?)
}

#[tauri::command]
pub(crate) async fn hub_access(shell: State<'_, Shell>) -> CommandResult<HubAccessView> {
    Ok(shell.backend().await?.model_source.access().await?)
}

#[tauri::command]
pub(crate) async fn set_hub_token(
    shell: State<'_, Shell>,
    token: Option<String>,
) -> CommandResult<HubAccessView> {
    let backend = shell.backend().await?;
    backend.model_source.set_token(token).await?;
    Ok(backend.model_source.access().await?)
}

#[tauri::command]
pub(crate) async fn set_hub_endpoint(
    shell: State<'_, Shell>,
    endpoint: Option<String>,
) -> CommandResult<HubAccessView> {
    let backend = shell.backend().await?;
    backend.model_source.set_endpoint(endpoint).await?;
    Ok(backend.model_source.access().await?)
}

/// Returns the current downloads. Reads files only if one is done, to identify its model.
pub(crate) async fn download_views(backend: &Arc<Backend>) -> CommandResult<Vec<DownloadView>> {
    let list = backend.model_source.downloads().borrow().clone();
    let is_done = |one: &transom_hub::Download| one.state == transom_hub::State::Done;
    if !list.iter().any(is_done) {
        return Ok(model_source::download_views(&list, None));
    }
    let backend = backend.clone();
    blocking(move || {
        Ok(model_source::download_views(
            &list,
            Some(&backend.library()),
        ))
    })
    .await
}
