//! Where the running copy of the app is, and whether it may be replaced.

use std::path::Path;

use tauri::AppHandle;

use super::Updates;
use super::client::Client;
use super::place::{self, RunningCopy};
use super::source::Source;
use crate::wire::UpdateRefusal;

impl Updates {
    /// Returns the updates of the running copy of the app.
    pub(crate) fn of_this_copy(app: &AppHandle) -> Self {
        let client = client_of_this_copy(app);
        if let Err(refusal) = &client {
            tracing::info!(?refusal, "this copy does not update itself");
        }
        Self::new(client)
    }
}

fn client_of_this_copy(app: &AppHandle) -> Result<Client, UpdateRefusal> {
    let source = Source::of_this_build().ok_or(UpdateRefusal::NoServer)?;
    let executable = std::env::current_exe().and_then(|path| path.canonicalize());
    #[cfg(target_os = "linux")]
    let appimage = tauri::Manager::env(app).appimage.map(Into::into);
    #[cfg(not(target_os = "linux"))]
    let appimage = {
        let _ = app;
        None
    };
    let copy = RunningCopy {
        is_mac: cfg!(target_os = "macos"),
        executable: executable.map_err(|_| UpdateRefusal::NotInstalled)?,
        appimage,
        home: std::env::home_dir(),
    };
    let is_writable =
        |folder: &Path| rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok();
    let place = place::place(&copy, is_writable)?;
    Ok(Client { source, place })
}
