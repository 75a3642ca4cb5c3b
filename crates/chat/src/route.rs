//! The names of routes, which requests, responses and updates carry.

use serde::{Deserialize, Serialize};

/// What kind of help a message asks for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// Anything. The request is sent as the settings say.
    #[default]
    Chat,
    /// Write, explain or repair a program.
    Code,
    /// Say briefly what a text says.
    Summarize,
    /// Correct a text, or change its tone or its length.
    Rewrite,
    /// Write a text in another language.
    Translate,
    /// Answer a question about attached text.
    Question,
    /// List what a text contains, such as names or dates.
    Extract,
}

impl Route {
    /// All routes.
    pub const ALL: [Self; 7] = [
        Self::Chat,
        Self::Code,
        Self::Summarize,
        Self::Rewrite,
        Self::Translate,
        Self::Question,
        Self::Extract,
    ];

    /// Returns the name, which is also the command: `translate` for `/translate`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Code => "code",
            Self::Summarize => "summarize",
            Self::Rewrite => "rewrite",
            Self::Translate => "translate",
            Self::Question => "question",
            Self::Extract => "extract",
        }
    }
}
