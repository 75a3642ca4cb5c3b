//! Deletes a conversation some seconds after the user asked for it, so that it can be restored.
//!
//! Pages hide the conversation at once. Rule: at most one conversation waits. It is deleted at once
//! when another one follows, when the chat is hidden, and when the app quits. After a crash it is
//! still there.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tauri::{AppHandle, Manager};
use transom_store::{ConversationId, StoreError};

use crate::lock;
use crate::shell::Shell;
use crate::wire::AppEvent;

/// How long a deleted conversation can be restored.
const UNDO_TIME: Duration = Duration::from_secs(10);

/// The conversation that will be deleted.
#[derive(Debug, Default)]
pub(crate) struct Deletion {
    waiting: Mutex<Option<Waiting>>,
    /// Locked while one is deleted, so that quitting waits for it and none is forgotten.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    id: ConversationId,
    since: Instant,
}

impl Deletion {
    /// Keeps the conversation. Returns false if it is not waiting.
    pub(crate) fn cancel(&self, id: ConversationId) -> bool {
        self.take(|waiting| waiting.id == id).is_some()
    }

    /// Keeps any conversation that is waiting, because all are deleted anyway.
    pub(crate) fn forget(&self) {
        *lock(&self.waiting) = None;
    }

    fn take(&self, is_it: impl FnOnce(&Waiting) -> bool) -> Option<ConversationId> {
        let mut waiting = lock(&self.waiting);
        let id = waiting.as_ref().filter(|it| is_it(it)).map(|it| it.id);
        if id.is_some() {
            *waiting = None;
        }
        id
    }
}

/// Deletes the conversation that waits now, and `id` after [`UNDO_TIME`].
pub(crate) async fn schedule(app: &AppHandle, id: ConversationId) {
    let deletion = app.state::<Deletion>();
    let _turn = deletion.turn.lock().await;
    if let Some(other) = deletion.take(|_| true) {
        delete(app, other).await;
    }
    let since = Instant::now();
    *lock(&deletion.waiting) = Some(Waiting { id, since });
    let app = app.clone();
    tauri::async_runtime::spawn(async move {
        tokio::time::sleep(UNDO_TIME).await;
        finish_since(&app, Some(since)).await;
    });
}

/// Deletes the conversation that waits. Also waits for a deletion that is running.
pub(crate) async fn finish(app: &AppHandle) {
    finish_since(app, None).await;
}

/// Like [`finish`], but only the conversation that waits since this time, if one is given.
async fn finish_since(app: &AppHandle, since: Option<Instant>) {
    let deletion = app.state::<Deletion>();
    let _turn = deletion.turn.lock().await;
    let is_it = |waiting: &Waiting| since.is_none_or(|since| waiting.since == since);
    if let Some(id) = deletion.take(is_it) {
        delete(app, id).await;
    }
}

async fn delete(app: &AppHandle, id: ConversationId) {
    let shell = app.state::<Shell>();
    let Some(backend) = shell.backend_if_open() else {
        return;
    };
    // A response that ends may start a summary.
    backend.turns.end(Some(id)).await;
    // First, so that the end of the app in between leaves no KV cache of a chat that is gone.
    backend.forget(id);
    let store = backend.store.clone();
    let deleted = tauri::async_runtime::spawn_blocking(move || store.delete(id)).await;
    let error = match deleted {
        Ok(Ok(()) | Err(StoreError::NoConversation(_))) => None,
        Ok(Err(error)) => Some((error.kind(), error.to_string())),
        Err(_) => Some((None, "the store stopped unexpectedly; try again".to_owned())),
    };
    if let Some((kind, reason)) = error {
        tracing::error!(reason, "a conversation could not be deleted");
        shell.notice(AppEvent::store_notice("delete_failed", kind, reason));
    }
    shell.send(&AppEvent::Deleted { id });
    shell.send(&AppEvent::Conversations);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_waiting_conversation_can_be_kept() {
        let deletion = Deletion::default();
        let (id, other) = (ConversationId(1), ConversationId(2));
        assert!(!deletion.cancel(id));
        let since = Instant::now();
        *lock(&deletion.waiting) = Some(Waiting { id, since });
        assert!(!deletion.cancel(other));
        assert!(deletion.cancel(id));
        assert_eq!(deletion.take(|_| true), None);
    }
}
