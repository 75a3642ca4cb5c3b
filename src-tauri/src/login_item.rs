//! Opens the app at login. On a Mac the login item is the app itself, so System Settings shows its
//! name and icon, and it stays valid when the app is moved. Elsewhere it is an XDG autostart entry.

use auto_launch::{AutoLaunch, AutoLaunchBuilder, MacOSLaunchMode, Result};
use tauri::{AppHandle, Manager};

use crate::arguments::HIDDEN;

/// Adds or removes the login item, unless the system already has or lacks it.
///
/// # Errors
/// If the system refuses, such as on a Mac for a program that is not in an app bundle.
pub(crate) fn set(app: &AppHandle, is_enabled: bool) -> Result<()> {
    let item = item(app)?;
    match (item.is_enabled()?, is_enabled) {
        (false, true) => item.enable(),
        (true, false) => item.disable(),
        _ => Ok(()),
    }
}

/// Returns true if the system opens the app at login. The user may have changed it there.
///
/// # Errors
/// If the system does not say.
pub(crate) fn is_enabled(app: &AppHandle) -> Result<bool> {
    item(app)?.is_enabled()
}

fn item(app: &AppHandle) -> Result<AutoLaunch> {
    let program = std::env::current_exe()?;
    #[cfg(target_os = "linux")]
    let program = app.env().appimage.map_or(program, Into::into);
    let mut item = AutoLaunchBuilder::new();
    item.set_app_name(&app.package_info().name)
        .set_app_path(&program.to_string_lossy())
        .set_args(&[HIDDEN]);
    if cfg!(target_os = "macos") {
        item.set_macos_launch_mode(MacOSLaunchMode::SMAppService);
    }
    item.build()
}
