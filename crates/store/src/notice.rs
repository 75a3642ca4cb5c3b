//! Events at the opening of the store that users should know about.
//!
//! Rule: each notice names the files that were kept. Windows translate it by its code; `Display`
//! says it in English.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::backup;
use crate::conversation::Timestamp;
use crate::setting_issue::SettingIssue;
use crate::store::Store;

/// An opened store with its notices.
#[derive(Debug)]
#[must_use]
pub struct Opened {
    /// The store.
    pub store: Store,
    /// What happened during the opening, in order; usually nothing.
    pub notices: Vec<Notice>,
}

/// Something that happened when the store was opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, IntoStaticStr)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(tag = "notice", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Notice {
    /// The file was damaged. It was set aside unchanged, and its conversations were recovered from
    /// it or from the newest backup.
    Recovered {
        /// The damaged file, under its new name.
        damaged: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// The number of recovered conversations.
        conversations: u32,
        /// The number of recovered messages.
        messages: u32,
        /// The time of the backup that everything was restored from; `None` if the damaged file
        /// could still be read, or nothing was recovered.
        backed_up_at: Option<Timestamp>,
    },
    /// The file was from an older version, and was copied before the migration.
    BackedUp {
        /// The copy.
        backup: PathBuf,
    },
    /// The program ended while responses were being written. Their text so far was kept.
    Interrupted {
        /// The number of responses.
        #[serde(rename = "answers")]
        responses: u32,
    },
    /// A setting could not be read, so its default applies. The other settings stay.
    SettingIgnored {
        /// The setting, and what is wrong with it.
        issue: SettingIssue,
    },
}

impl Notice {
    /// Returns the code of the notice, as in its JSON.
    pub fn code(&self) -> &'static str {
        self.into()
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
                         {messages} messages; newer messages are only in the damaged file.",
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
                "Your chat history was upgraded. The old file was copied to {}.",
                backup.display()
            ),
            Self::Interrupted { responses: 1 } => {
                write!(f, "One response was interrupted when the app last ended.")
            }
            Self::Interrupted { responses } => {
                write!(
                    f,
                    "{responses} responses were interrupted when the app last ended."
                )
            }
            Self::SettingIgnored { issue } => {
                write!(f, "A setting was reset to its default: {issue}")
            }
        }
    }
}
