//! Runs the work of commands outside the main thread.

use crate::wire::{CommandError, CommandResult};

/// Runs `work` on a blocking thread. A panic becomes an error of the command.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> CommandResult<T> + Send + 'static,
) -> CommandResult<T> {
    let done = tauri::async_runtime::spawn_blocking(work).await;
    done.map_err(|_| unexpected()).flatten()
}

/// Runs `work` as a separate task, so a panic becomes an error of the command.
pub(crate) async fn guarded<T: Send + 'static>(
    work: impl Future<Output = CommandResult<T>> + Send + 'static,
) -> CommandResult<T> {
    let done = tauri::async_runtime::spawn(work).await;
    done.map_err(|_| unexpected()).flatten()
}

/// Returns the error for a panic, without its text, which may contain a prompt. The panic hook has logged
/// where it was.
fn unexpected() -> CommandError {
    CommandError::other("this failed unexpectedly; try again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_error_for_a_panic_does_not_contain_its_text() {
        let (blocked, prompt) = (blocking(|| panic!("a prompt")), "a prompt");
        let awaited = guarded(async { panic!("a prompt") });
        let (blocked, awaited): (CommandResult<()>, CommandResult<()>) =
            (blocked.await, awaited.await);
        for error in [blocked.unwrap_err(), awaited.unwrap_err()] {
            assert!(!format!("{error:?}").contains(prompt), "{error:?}");
        }
    }
}
