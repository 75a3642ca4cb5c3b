//! Commands for models to download: the catalog, the hub, downloads and access to the hub.
//!
//! Rule: a command uses the network only if the user asked for something from it.

use tauri::State;
use transom_hub::{Download, HubError};

use crate::backend::Backend;
use crate::catalog as views;
use crate::model_source;
use crate::shell::Shell;
use crate::wire::{
    CatalogView, CommandError, CommandResult, DownloadChange, DownloadView, EntryView,
    HubAccessView, TierView,
};

impl From<HubError> for CommandError {
    fn from(error: HubError) -> Self {
        Self::Hub {
            error: model_source::hub_error_view(&error),
        }
    }
}

#[tauri::command]
pub(crate) async fn catalog(shell: State<'_, Shell>) -> CommandResult<CatalogView> {
    let view = |backend: &Backend| {
        let source = &backend.model_source;
        let (file, error, disk) = (source.user_file(), source.error(), source.disk());
        Ok(views::view(&backend.timed_library(), &file, error, &disk))
    };
    shell.blocking(view).await
}

/// Returns the recommended models by memory size.
#[tauri::command]
pub(crate) async fn tiers(shell: State<'_, Shell>) -> CommandResult<Vec<TierView>> {
    let tiers = |backend: &Backend| Ok(views::tiers(&backend.timed_library()));
    shell.blocking(tiers).await
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
    let view = move |backend: &Backend| {
        let disk = backend.model_source.disk();
        Ok(views::listing_view(
            &listing,
            &backend.timed_library(),
            &disk,
        ))
    };
    shell.blocking(view).await
}

#[tauri::command]
pub(crate) async fn install(shell: State<'_, Shell>, variant: String) -> CommandResult<()> {
    let library = shell.blocking(|backend| Ok(backend.library())).await?;
    let backend = shell.backend().await?;
    backend.model_source.install(&variant, &library).await
}

/// Returns the current downloads. Reads files only if one is done, to identify its model.
#[tauri::command]
pub(crate) async fn downloads(shell: State<'_, Shell>) -> CommandResult<Vec<DownloadView>> {
    let backend = shell.backend().await?;
    let list = backend.model_source.downloads().borrow().clone();
    let is_done = |one: &Download| one.state == transom_hub::State::Done;
    if !list.iter().any(is_done) {
        return Ok(model_source::download_views(&list, None));
    }
    let views = move |backend: &Backend| {
        let library = backend.library();
        Ok(model_source::download_views(&list, Some(&library)))
    };
    shell.blocking(views).await
}

#[tauri::command]
pub(crate) async fn change_download(
    shell: State<'_, Shell>,
    id: u64,
    change: DownloadChange,
) -> CommandResult<()> {
    let backend = shell.backend().await?;
    Ok(backend.model_source.change(id, change).await?)
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
    hub_access(shell).await
}

#[tauri::command]
pub(crate) async fn set_hub_endpoint(
    shell: State<'_, Shell>,
    endpoint: Option<String>,
) -> CommandResult<HubAccessView> {
    let backend = shell.backend().await?;
    backend.model_source.set_endpoint(endpoint).await?;
    hub_access(shell).await
}
