//! Commands for the local API. It is switched on and off with the settings.

use tauri::ipc::Channel;
use tauri::{AppHandle, Manager, State, WebviewWindow};

use crate::shell::Shell;
use crate::wire::{ApiSetupView, CommandError, CommandResult, LocalApiView, Window};

/// Sends what the local API does now, and each change until `unfollow`.
#[tauri::command]
pub(crate) async fn follow_local_api(
    app: AppHandle,
    page: WebviewWindow,
    shell: State<'_, Shell>,
    updates: Channel<LocalApiView>,
) -> CommandResult<u32> {
    let window = Window::from_label(page.label()).ok_or(CommandError::NotFound)?;
    let backend = shell.backend().await?;
    Ok(shell.followers.start(window, async move {
        let local_api = &app.state::<Shell>().local_api;
        let send = |view| updates.send(view).is_ok();
        local_api.follow(backend, send).await;
    }))
}

/// Creates a key and returns it: one with this name, or the first one if there is none.
#[tauri::command]
pub(crate) async fn add_api_key(
    shell: State<'_, Shell>,
    name: Option<String>,
) -> CommandResult<Option<String>> {
    let backend = shell.backend().await?;
    shell.local_api.add_key(&backend, name).await
}

#[tauri::command]
pub(crate) async fn revoke_api_key(shell: State<'_, Shell>, name: String) -> CommandResult<()> {
    let backend = shell.backend().await?;
    shell.local_api.revoke_key(&backend, name).await
}

/// Returns the lines that set up other programs.
#[tauri::command]
pub(crate) async fn api_setups(shell: State<'_, Shell>) -> CommandResult<Vec<ApiSetupView>> {
    let backend = shell.backend().await?;
    shell.local_api.setups(backend).await
}
