//! How KV caches are saved on the disk.

use std::sync::Arc;
use std::time::Duration;

use transom_engine::ConversationId;
use transom_keychain::Secrets;

use crate::request::ModelSelector;

/// How KV caches are saved. By default they are removed when the supervisor ends.
#[derive(Debug, Clone, Default)]
pub struct Saving {
    /// What they may take of the disk.
    pub limits: SavingLimits,
    /// The place for the key that opens saved KV caches after a restart; `None` if there is none.
    pub secrets: Option<Arc<dyn Secrets>>,
}

/// What saved KV caches may take of the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavingLimits {
    /// Largest number of bytes of all saved KV caches together; never more than a quarter of the
    /// free space.
    pub max_bytes: u64,
    /// A disk with less free space than this number of bytes gets none.
    pub min_free_bytes: u64,
    /// Largest number of bytes that are written in a day.
    pub max_daily_bytes: u64,
    /// How long a saved KV cache is kept after its last use.
    pub max_age: Duration,
    /// The free bytes of the disk; `None` asks the system.
    pub free_bytes: Option<u64>,
}

impl Default for SavingLimits {
    fn default() -> Self {
        Self {
            max_bytes: 4 << 30,
            min_free_bytes: 10 << 30,
            max_daily_bytes: 8_000_000_000,
            max_age: Duration::from_secs(7 * 24 * 3600),
            free_bytes: None,
        }
    }
}

impl SavingLimits {
    /// Returns the default limits on a disk with much free space, so that tests do not depend on
    /// the disk of this machine.
    pub fn on_a_large_disk() -> Self {
        Self {
            free_bytes: Some(1 << 40),
            ..Self::default()
        }
    }
}

impl From<SavingLimits> for Saving {
    fn from(limits: SavingLimits) -> Self {
        Self {
            limits,
            secrets: None,
        }
    }
}

/// The conversations whose KV caches are deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forgotten {
    /// Those of models.
    Of(ModelSelector),
    /// This one, with all models.
    Conversation(ConversationId),
}

impl Forgotten {
    /// Every conversation.
    pub(crate) const ALL: Self = Self::Of(ModelSelector::All);
}
