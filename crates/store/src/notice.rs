//! What happened when the store was opened that a person should know of.
//!
//! Rule: each case names the files that were kept. Windows put it into the user's language by its
//! code; `Display` says it in English.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::backup;
use crate::conversation::Timestamp;
use crate::settings::SettingIssue;
use crate::store::Store;

/// A store, and what was done to open it.
#[derive(Debug)]
#[must_use]
pub struct Opened {
    /// The store.
    pub store: Store,
    /// What happened, in the order in which it did; mostly nothing.
    pub notices: Vec<Notice>,
}

/// Something that happened when the store was opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(tag = "notice", rename_all = "snake_case")]
pub enum Notice {
    /// The file was damaged. It was set aside as it was, and its conversations were saved from it
    /// or from the newest backup.
    Recovered {
        /// The damaged file, under its new name.
        damaged: PathBuf,
        /// What was wrong with it.
        reason: String,
        /// Conversations that were saved.
        conversations: u32,
        /// Messages that were saved.
        messages: u32,
        /// When the backup was made that they are all from; `None` if the damaged file could still be
        /// read, or nothing was saved.
        backed_up_at: Option<Timestamp>,
    },
    /// The file came from an older version, and was copied before it was brought up to date.
    BackedUp {
        /// The copy.
        backup: PathBuf,
    },
    /// The program ended while answers were written. What they had is kept.
    Interrupted {
        /// How many.
        answers: u32,
    },
    /// A setting could not be read, so that its default holds. The others stand.
    SettingIgnored {
        /// Which, and why.
        issue: SettingIssue,
    },
}

impl Notice {
    /// A short name for it, as in its JSON.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Recovered { .. } => "recovered",
            Self::BackedUp { .. } => "backed_up",
            Self::Interrupted { .. } => "interrupted",
            Self::SettingIgnored { .. } => "setting_ignored",
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recovered {
                damaged,
                reason,
                conversations,
                messages,
                backed_up_at,
            } => {
                write!(f, "Your chat history was damaged ({reason}). ")?;
                match backed_up_at {
                    Some(at) => write!(
                        f,
                        "It was restored from the backup of {} UTC, with {conversations} chats and \
                         {messages} messages; newer messages are in the damaged file only.",
                        backup::date(*at)
                    )?,
                    None => write!(
                        f,
                        "{conversations} chats with {messages} messages were recovered."
                    )?,
                }
                write!(f, " The damaged file was kept as {}.", damaged.display())
            }
            Self::BackedUp { backup } => write!(
                f,
                "Your conversations were brought up to date. A copy of the file as it was is in {}.",
                backup.display()
            ),
            Self::Interrupted { answers: 1 } => {
                write!(f, "One answer was cut short when the app last ended.")
            }
            Self::Interrupted { answers } => {
                write!(
                    f,
                    "{answers} answers were cut short when the app last ended."
                )
            }
            Self::SettingIgnored { issue } => {
                write!(f, "A setting was set back to its default: {issue}")
            }
        }
    }
}
