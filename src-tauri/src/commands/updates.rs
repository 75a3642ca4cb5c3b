//! Commands for updates of the app. Each step begins only here, when the user clicks, except checks,
//! which the user can turn on.

use tauri::{AppHandle, Manager, State};

use crate::shell::Shell;
use crate::task::guarded;
use crate::update_host;
use crate::wire::{CommandResult, UpdatesView};

#[tauri::command]
pub(crate) async fn updates(shell: State<'_, Shell>) -> CommandResult<UpdatesView> {
    Ok(shell.updates.view())
}

/// Asks the server for the newest version, also if regular checks are off.
#[tauri::command]
pub(crate) async fn check_for_update(app: AppHandle) -> CommandResult<()> {
    let check = async move {
        app.state::<Shell>().updates.check(&app).await;
        Ok(())
    };
    guarded(check).await
}

#[tauri::command]
pub(crate) async fn download_update(app: AppHandle) -> CommandResult<()> {
    let download = async move {
        app.state::<Shell>().updates.download(&app).await;
        Ok(())
    };
    guarded(download).await
}

/// Installs the downloaded version once no response is running, and starts the app again.
#[tauri::command]
pub(crate) async fn install_update(app: AppHandle) -> CommandResult<()> {
    let install = async move {
        update_host::install(&app).await;
        Ok(())
    };
    guarded(install).await
}

/// Ends a download, or an installation that still waits.
#[tauri::command]
pub(crate) async fn cancel_update(shell: State<'_, Shell>) -> CommandResult<()> {
    shell.updates.cancel();
    Ok(())
}
