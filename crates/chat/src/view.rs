//! Converts stored messages for display, and caches rendered blocks.
//!
//! Rule: an ended message never changes, so its blocks can be cached. Data that may change, such as
//! its siblings, is read each time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use transom_store::{Ending, Message, MessageId};

use crate::block::Block;
use crate::ending;
use crate::markdown;
use crate::update::MessageView;

/// Bytes of HTML in the cache: some hundred long messages, more than a window shows at once.
const MAX_CACHE_BYTES: usize = 4 << 20;

/// The blocks of one message.
#[derive(Debug, Default)]
pub(crate) struct Rendered {
    reasoning: Vec<Block>,
    answer: Vec<Block>,
}

impl Rendered {
    /// Renders `message`. Slow for a long message.
    pub(crate) fn new(message: &Message) -> Self {
        Self {
            reasoning: markdown::render(&message.reasoning),
            answer: markdown::render(&message.text),
        }
    }

    fn n_bytes(&self) -> usize {
        let blocks = self.reasoning.iter().chain(&self.answer);
        blocks.map(|block| block.html.len()).sum()
    }
}

/// Combines `message` and its blocks for display.
pub(crate) fn view(message: Message, rendered: &Rendered) -> MessageView {
    let stats = ending::stats_of(&message);
    MessageView {
        id: message.id,
        conversation: message.conversation,
        speaker: message.role,
        reasoning: rendered.reasoning.clone(),
        blocks: rendered.answer.clone(),
        text: message.text,
        attachment: message.attachment,
        ending: ending::from_store(&message.ending),
        model: message.model,
        stats,
        created_at: message.created_at,
        siblings: message.siblings,
    }
}

/// An LRU cache of rendered messages, up to [`MAX_CACHE_BYTES`].
#[derive(Debug, Default)]
pub(crate) struct RenderCache {
    by_id: HashMap<MessageId, (Arc<Rendered>, u64)>,
    by_use: BTreeMap<u64, MessageId>,
    n_uses: u64,
    n_bytes: usize,
}

impl RenderCache {
    /// Returns the blocks of the message `id` if they are cached.
    pub(crate) fn get(&mut self, id: MessageId) -> Option<Arc<Rendered>> {
        let (rendered, used) = self.by_id.get_mut(&id)?;
        self.by_use.remove(used);
        self.n_uses += 1;
        *used = self.n_uses;
        self.by_use.insert(self.n_uses, id);
        Some(rendered.clone())
    }

    /// Caches the blocks of `message` if it has ended, and evicts the least recently used ones.
    pub(crate) fn put(&mut self, message: &Message, rendered: &Arc<Rendered>) {
        if message.ending == Ending::Writing || self.by_id.contains_key(&message.id) {
            return;
        }
        self.n_uses += 1;
        self.n_bytes += rendered.n_bytes();
        self.by_use.insert(self.n_uses, message.id);
        self.by_id
            .insert(message.id, (rendered.clone(), self.n_uses));
        while self.n_bytes > MAX_CACHE_BYTES
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            let gone = self.by_id.remove(&oldest);
            self.n_bytes -= gone.map_or(0, |(rendered, _)| rendered.n_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_store::{ConversationId, MessageRole, Timestamp};

    fn message(id: i64, text: String) -> Message {
        Message {
            id: MessageId(id),
            conversation: ConversationId(1),
            parent: None,
            role: MessageRole::Assistant,
            reasoning: String::new(),
            text,
            attachment: String::new(),
            ending: Ending::Stop,
            model: None,
            stats: None,
            created_at: Timestamp(0),
            siblings: Vec::new(),
        }
    }

    #[test]
    fn the_least_recently_used_entry_is_evicted() {
        let mut cache = RenderCache::default();
        let long = "word ".repeat(100_000);
        for id in 0..20 {
            let message = message(id, long.clone());
            let rendered = Arc::new(Rendered::new(&message));
            cache.put(&message, &rendered);
            assert!(cache.get(MessageId(0)).is_some(), "{id}: used every time");
        }
        assert!(cache.get(MessageId(1)).is_none());
        assert!(cache.get(MessageId(19)).is_some());
        assert!(cache.n_bytes <= MAX_CACHE_BYTES, "{}", cache.n_bytes);
        assert_eq!(cache.by_id.len(), cache.by_use.len());
    }

    #[test]
    fn growing_messages_are_not_cached() {
        let mut cache = RenderCache::default();
        let growing = Message {
            ending: Ending::Writing,
            ..message(1, "half".to_owned())
        };
        cache.put(&growing, &Arc::new(Rendered::new(&growing)));
        assert!(cache.get(MessageId(1)).is_none());
    }
}
