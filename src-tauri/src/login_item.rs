//! Opens the app at login. On a Mac the login item is the app itself, so System Settings shows its
//! name and icon, and it stays valid when the app is moved. Elsewhere it is an XDG autostart entry.

use auto_launch::{AutoLaunch, AutoLaunchBuilder, MacOSLaunchMode, Result};
use tauri::AppHandle;

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
    let program = tauri::Manager::env(app)
        .appimage
        .map_or(program, Into::into);
    let mut item = AutoLaunchBuilder::new();
    item.set_app_name(&app.package_info().name)
        .set_app_path(&program.to_string_lossy())
        .set_args(&[HIDDEN]);
    if cfg!(target_os = "macos") {
        item.set_macos_launch_mode(MacOSLaunchMode::SMAppService);
    }
    item.build()
}

/// The event that opens an app, and the value in it for a login item.
#[cfg(any(test, target_os = "macos"))]
const LOGIN_START: (u32, u32) = (u32::from_be_bytes(*b"oapp"), u32::from_be_bytes(*b"lgit"));

/// Returns true if this event started the app as a login item: its id and its value.
#[cfg(any(test, target_os = "macos"))]
fn is_login_start(event: Option<(u32, u32)>) -> bool {
    event == Some(LOGIN_START)
}

/// Returns true if the system opened the app at login. A Mac passes no arguments to a login item. Call
/// this while the app is starting.
#[cfg(target_os = "macos")]
pub(crate) fn started_the_app() -> bool {
    is_login_start(mac::launch_event())
}

#[cfg(target_os = "macos")]
#[allow(unsafe_code)]
mod mac {
    use tauri_nspanel::objc2::rc::Retained;
    use tauri_nspanel::objc2::runtime::AnyObject;
    use tauri_nspanel::objc2::{class, msg_send};

    /// Returns the id of the event that opens the app, and the value of its property data.
    pub(super) fn launch_event() -> Option<(u32, u32)> {
        let property_data = u32::from_be_bytes(*b"prdt");
        // SAFETY: these methods of NSAppleEventManager and NSAppleEventDescriptor take and return
        // these types, and may be called on the main thread.
        unsafe {
            let manager: Option<Retained<AnyObject>> =
                msg_send![class!(NSAppleEventManager), sharedAppleEventManager];
            let event: Option<Retained<AnyObject>> = msg_send![&*manager?, currentAppleEvent];
            let event = event?;
            let id: u32 = msg_send![&*event, eventID];
            let data: Option<Retained<AnyObject>> =
                msg_send![&*event, paramDescriptorForKeyword: property_data];
            let value: u32 = msg_send![&*data?, enumCodeValue];
            Some((id, value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_systems_own_start_at_login_counts() {
        let (open, login) = LOGIN_START;
        assert!(is_login_start(Some((open, login))));
        assert!(!is_login_start(Some((open, 0))), "opened by the user");
        assert!(
            !is_login_start(Some((u32::from_be_bytes(*b"GURL"), login))),
            "a link"
        );
        assert!(!is_login_start(None));
    }
}
