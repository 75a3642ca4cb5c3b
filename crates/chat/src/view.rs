//! Converts stored messages for display, and caches rendered blocks.
//!
//! Rule: only blocks are cached, under the texts from which they were rendered. Data that may
//! change, such as the siblings of a message, is read each time.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use transom_store::{Ending, Message, attached_text};

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

pub(crate) fn view(message: Message, rendered: &Rendered) -> MessageView {
    let stats = ending::stats_of(&message);
    MessageView {
        id: message.id,
        conversation: message.conversation,
        speaker: message.role,
        reasoning: rendered.reasoning.clone(),
        blocks: rendered.answer.clone(),
        text: message.text,
        attachments: attached_text::split(&message.attachment),
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
    /// The least recently used one first, with the hash of its message.
    entries: VecDeque<(u64, Arc<Rendered>)>,
    n_bytes: usize,
}

impl RenderCache {
    pub(crate) fn get(&mut self, message: &Message) -> Option<Arc<Rendered>> {
        let at = self.position(hash(message))?;
        let entry = self.entries.remove(at)?;
        let rendered = entry.1.clone();
        self.entries.push_back(entry);
        Some(rendered)
    }

    /// Caches the blocks of `message` if it has ended, and evicts the least recently used ones.
    pub(crate) fn put(&mut self, message: &Message, rendered: &Arc<Rendered>) {
        let hash = hash(message);
        if message.ending == Ending::Writing || self.position(hash).is_some() {
            return;
        }
        self.n_bytes += rendered.n_bytes();
        self.entries.push_back((hash, rendered.clone()));
        while self.n_bytes > MAX_CACHE_BYTES
            && let Some((_, gone)) = self.entries.pop_front()
        {
            self.n_bytes -= gone.n_bytes();
        }
    }

    fn position(&self, hash: u64) -> Option<usize> {
        self.entries.iter().position(|(known, _)| *known == hash)
    }
}

/// Returns a hash of the id and the texts.
fn hash(message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    (message.id, &message.reasoning, &message.text).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_store::{MessageId, MessageRole};

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
        let first = message(0, &long);
        for id in 0..20 {
            let message = message(id, &long);
            let rendered = Arc::new(Rendered::new(&message));
            cache.put(&message, &rendered);
            assert!(cache.get(&first).is_some(), "{id}: used every time");
        }
        assert!(cache.get(&message(1, &long)).is_none());
        assert!(cache.get(&message(19, &long)).is_some());
        assert!(cache.n_bytes <= MAX_CACHE_BYTES, "{}", cache.n_bytes);
        let n_bytes = cache.entries.iter().map(|(_, entry)| entry.n_bytes());
        assert_eq!(n_bytes.sum::<usize>(), cache.n_bytes);
    }

    #[test]
    fn blocks_of_an_earlier_text_are_not_used() {
        let mut cache = RenderCache::default();
        let early = message(1, "half");
        cache.put(&early, &Arc::new(Rendered::new(&early)));
        assert!(cache.get(&early).is_some());
        assert!(cache.get(&message(1, "half and half")).is_none());
    }

    #[test]
    fn growing_messages_are_not_cached() {
        let mut cache = RenderCache::default();
        let growing = Message {
            ending: Ending::Writing,
            ..message(1, "half")
        };
        cache.put(&growing, &Arc::new(Rendered::new(&growing)));
        assert!(cache.get(&growing).is_none());
    }
}
