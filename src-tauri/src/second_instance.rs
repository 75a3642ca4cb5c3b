//! On Linux, a second start passes its arguments to the running app through the single-instance
//! plugin.
//!
//! Rule: this happens before any window is created. The plugin would do it too, but only with the
//! toolkit's threads running, and a program that exits then sometimes crashes.

use std::io::ErrorKind;
use std::time::Duration;

use anyhow::bail;
use zbus::blocking::connection::Builder;

/// An app that does not reply within this time hangs.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// Passes this start's arguments to the running app. Returns false if none is running, if it is
/// just quitting, or if there is no session bus.
///
/// # Errors
/// If the app is running and does not reply.
pub(crate) fn forward_to_running_app(identifier: &str) -> anyhow::Result<bool> {
    match call_plugin(identifier) {
        Ok(()) => Ok(true),
        Err(zbus::Error::InputOutput(error)) if error.kind() == ErrorKind::TimedOut => {
            bail!("Transom is running but does not respond; quit it and start it again")
        }
        Err(error) => {
            tracing::debug!(%error, "no other app was found");
            Ok(false)
        }
    }
}

/// Calls the plugin's D-Bus method. Names and arguments are defined by the plugin.
fn call_plugin(identifier: &str) -> zbus::Result<()> {
    let bus = Builder::session()?.method_timeout(REPLY_TIMEOUT).build()?;
    let name = format!("{identifier}.SingleInstance");
    let path = format!("/{}", name.replace('.', "/").replace('-', "_"));
    let arguments: Vec<String> = std::env::args_os()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let folder = std::env::current_dir().unwrap_or_default();
    let body = (arguments, folder.to_string_lossy());
    let interface = Some("org.SingleInstance.DBus");
    bus.call_method(Some(&*name), &*path, interface, "ExecuteCallback", &body)?;
    Ok(())
}
