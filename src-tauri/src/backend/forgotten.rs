//! The conversations that were deleted while a supervisor was connected.
//!
//! A supervisor that ends drops the messages that it has not read. So the next one gets them again: it
//! takes over the saved KV caches. Ids are never reused, so repeating one deletes nothing else.

use std::sync::Mutex;

use transom_engine::ConversationId;
use transom_supervisor::Handle;

use crate::lock;

#[derive(Debug, Default)]
pub(super) struct Forgotten(Mutex<Vec<Option<ConversationId>>>);

impl Forgotten {
    /// Deletes what models keep of a conversation, or of all of them. `handle` returns the handle of the
    /// current supervisor.
    pub(super) fn forget(&self, id: Option<ConversationId>, handle: impl FnOnce() -> Handle) {
        // First, so that a reconnect in between repeats it.
        lock(&self.0).push(id);
        handle().forget_conversations(id);
    }

    /// Repeats the deletions for the supervisor that follows. Call this when its handle is in use.
    pub(super) fn repeat(&self, handle: &Handle) {
        for id in std::mem::take(&mut *lock(&self.0)) {
            handle.forget_conversations(id);
        }
    }
}
