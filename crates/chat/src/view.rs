//! Converts stored messages for display, and caches rendered blocks.
//!
//! Rule: an ended message never changes, so its blocks can be cached. Data that may change, such as
//! its siblings, is read each time.

use std::collections::VecDeque;
use std::sync::Arc;

use transom_store::{Ending, Message, MessageId};

use crate::block::Block;
use crate::ending;
use crate::markdown;
use crate::update::MessageView;

/// Bytes of HTML in the cache: some hundred long messages, more than a window shows at once.
const MAX_CACHE_BYTES: usize = 4 << 20;

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
    /// The least recently used one first.
    entries: VecDeque<(MessageId, Arc<Rendered>)>,
    n_bytes: usize,
}

impl RenderCache {
    /// Returns the blocks of the message `id` if they are cached.
    pub(crate) fn get(&mut self, id: MessageId) -> Option<Arc<Rendered>> {
        let at = self.position(id)?;
        let entry = self.entries.remove(at)?;
        let rendered = entry.1.clone();
        self.entries.push_back(entry);
        Some(rendered)
    }

    /// Caches the blocks of `message` if it has ended, and evicts the least recently used ones.
    pub(crate) fn put(&mut self, message: &Message, rendered: &Arc<Rendered>) {
        if message.ending == Ending::Writing || self.position(message.id).is_some() {
            return;
        }
        self.n_bytes += rendered.n_bytes();
        self.entries.push_back((message.id, rendered.clone()));
        while self.n_bytes > MAX_CACHE_BYTES
            && let Some((_, gone)) = self.entries.pop_front()
        {
            self.n_bytes -= gone.n_bytes();
        }
    }

    fn position(&self, id: MessageId) -> Option<usize> {
        self.entries.iter().position(|(known, _)| *known == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_store::MessageRole;

    fn message(id: i64, text: &str) -> Message {
        Message {
            id: MessageId(id),
            ..crate::tests::message(MessageRole::Assistant, text)
        }
    }

    #[test]
    fn the_least_recently_used_entry_is_evicted() {
        let mut cache = RenderCache::default();
        let long = "word ".repeat(100_000);
        for id in 0..20 {
            let message = message(id, &long);
            let rendered = Arc::new(Rendered::new(&message));
            cache.put(&message, &rendered);
            assert!(cache.get(MessageId(0)).is_some(), "{id}: used every time");
        }
        assert!(cache.get(MessageId(1)).is_none());
        assert!(cache.get(MessageId(19)).is_some());
        assert!(cache.n_bytes <= MAX_CACHE_BYTES, "{}", cache.n_bytes);
        let n_bytes = cache.entries.iter().map(|(_, entry)| entry.n_bytes());
        assert_eq!(n_bytes.sum::<usize>(), cache.n_bytes);
    }

    #[test]
    fn growing_messages_are_not_cached() {
        let mut cache = RenderCache::default();
        let growing = Message {
            ending: Ending::Writing,
            ..message(1, "half")
        };
        cache.put(&growing, &Arc::new(Rendered::new(&growing)));
        assert!(cache.get(MessageId(1)).is_none());
    }
}
