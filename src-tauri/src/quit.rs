//! The end of the program: saves responses and unloads models, within a time limit.

use std::time::Duration;

use tauri::{AppHandle, Manager};
use tokio::sync::OnceCell;

use crate::deletion;
use crate::shell::Shell;

/// Longer than all waits of an orderly quit together.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Time limit at exit for deleting the conversation that the user deleted last.
const DELETE_TIMEOUT: Duration = Duration::from_secs(3);

/// Set when the backend is closed.
static CLOSED: OnceCell<()> = OnceCell::const_new();

/// Quits: saves responses and unloads models, within a time limit.
pub(crate) fn quit(app: &AppHandle) {
    let app = app.clone();
    exit_in_time();
    tauri::async_runtime::spawn(async move {
        close(&app).await;
        app.exit(0);
    });
}

/// Quits like [`quit`], and starts the app again.
pub(crate) fn restart(app: &AppHandle) {
    let app = app.clone();
    exit_in_time();
    tauri::async_runtime::spawn(async move {
        close(&app).await;
        app.request_restart();
    });
}

/// Saves responses and unloads models before it returns, because the system ends the app.
pub(crate) fn before_exit(app: &AppHandle) {
    exit_in_time();
    tauri::async_runtime::block_on(close(app));
}

/// Quits when the system or a terminal asks for it.
pub(crate) async fn on_signals(app: AppHandle) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut end), Ok(mut interrupt), Ok(mut hangup)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
        signal(SignalKind::hangup()),
    ) else {
        return;
    };
    tokio::select! {
        _ = end.recv() => {}
        _ = interrupt.recv() => {}
        _ = hangup.recv() => {}
    }
    quit(&app);
}

/// Ends the process after [`TIMEOUT`], even if something hangs. Logs nothing, because the disk of the
/// log may hang too.
fn exit_in_time() {
    std::thread::spawn(|| {
        let (_sender, receiver) = std::sync::mpsc::channel::<()>();
        let _ = receiver.recv_timeout(TIMEOUT);
        std::process::exit(0);
    });
}

/// Closes the backend once. Later callers wait for the first call, so a second request to quit does
/// not cut it short.
async fn close(app: &AppHandle) {
    let shell = app.state::<Shell>();
    let closing = || async {
        tracing::info!("quitting");
        shell.frames.save();
        shell.updates.until_replaced().await;
        let deleted = tokio::time::timeout(DELETE_TIMEOUT, deletion::finish(app));
        if deleted.await.is_err() {
            tracing::warn!("a conversation was not deleted in time");
        }
        shell.local_api.end().await;
        if let Some(backend) = shell.backend_if_open() {
            backend.close().await;
        }
    };
    CLOSED.get_or_init(closing).await;
}
