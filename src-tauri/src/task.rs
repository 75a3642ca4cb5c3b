//! Runs the work of commands outside the main thread.

use crate::wire::{CommandError, CommandResult};

/// Runs `work` on a blocking thread. A panic becomes an error of the command.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> CommandResult<T> + Send + 'static,
) -> CommandResult<T> {
    let done = tauri::async_runtime::spawn_blocking(work).await;
    done.map_err(unexpected).flatten()
}

/// Runs `work` as a separate task, so a panic becomes an error of the command.
pub(crate) async fn guarded<T: Send + 'static>(
    work: impl Future<Output = CommandResult<T>> + Send + 'static,
) -> CommandResult<T> {
    let done = tauri::async_runtime::spawn(work).await;
    done.map_err(unexpected).flatten()
}

fn unexpected(error: tauri::Error) -> CommandError {
    CommandError::other(format!("this failed unexpectedly: {error}"))
}
