//! A second start on Linux: what it asks for is told to the app that runs, which listens through the
//! single-instance plugin.
//!
//! Rule: it is told before anything of a window is made. The plugin would tell it too, but only with
//! the toolkit's threads at work, and a program that is left then crashes now and again.

use std::io::ErrorKind;
use std::time::Duration;

use anyhow::bail;
use zbus::blocking::connection::Builder;

/// An app that does not answer for so long is stuck.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// Tells the app that runs what this start asks for. `false` if none runs, or it ended just then, or
/// there is no session bus to find it by.
///
/// # Errors
/// When it runs and does not answer.
pub(crate) fn told_the_app_that_runs(identifier: &str) -> anyhow::Result<bool> {
    match tell(identifier) {
        Ok(()) => Ok(true),
        Err(zbus::Error::InputOutput(error)) if error.kind() == ErrorKind::TimedOut => {
            bail!("Transom is running and does not answer; end it and start it again")
        }
        Err(error) => {
            tracing::debug!(%error, "no other app was found");
            Ok(false)
        }
    }
}

/// Names and arguments are the plugin's.
fn tell(identifier: &str) -> zbus::Result<()> {
    let bus = Builder::session()?.method_timeout(ANSWERS_WITHIN).build()?;
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
