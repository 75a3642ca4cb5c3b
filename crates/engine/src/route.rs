//! Routes: kinds of help that a request may ask for, and what each changes in the request.
//!
//! Rule: a route never chooses the model, and whatever the request or the user sets wins over it. The
//! changes are data in `route/routes.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::chat::{ChatPrompt, Message, Role};

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

    /// Returns the routes that change a request: all but [`Route::Chat`].
    pub fn tasks() -> impl Iterator<Item = Self> {
        let all = Self::ALL.into_iter();
        all.filter(|route| *route != Self::Chat)
    }

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

/// What a route changes in a request, as in `routes.toml`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default, deny_unknown_fields)]
pub struct RouteSettings {
    /// Instructions for the model; empty for none.
    pub instructions: String,
    /// The temperature, if nobody set one.
    pub temperature: Option<f32>,
    /// Whether a model that can reason does so, if nobody said.
    pub thinking: Option<bool>,
    /// The share of the context that the newest earlier messages may take, if the message has a text of its
    /// own; all of them if there is none.
    pub history: Option<f32>,
    /// The share of the context that attached text may take at most; as much as the context holds if there is
    /// none.
    pub attached: Option<f32>,
    /// The conversation keeps this route while its messages ask for nothing else.
    pub is_sticky: bool,
    /// The share of the context that is kept free for the response.
    pub reserve_context: Option<f32>,
    /// The tokens that are kept free for the response, as a multiple of those of the message.
    pub reserve_text: Option<f32>,
}

static ROUTES: LazyLock<BTreeMap<Route, RouteSettings>> =
    LazyLock::new(|| toml::from_str(include_str!("route/routes.toml")).expect("a test parses it"));

/// Bytes of UTF-8 that one token stands for, at least: a Chinese character is 3 bytes and about one
/// token, an English word more bytes and one token.
pub const BYTES_PER_TOKEN: usize = 3;

impl Route {
    /// Returns the route with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|route| route.name() == name)
    }

    /// Returns what this route changes.
    pub fn settings(self) -> &'static RouteSettings {
        &ROUTES[&self]
    }
}

impl RouteSettings {
    /// Adds the instructions to the system prompt of a conversation, and turns reasoning on or off unless
    /// that was said.
    pub fn apply(&self, chat: &mut ChatPrompt) {
        chat.enable_thinking = chat.enable_thinking.or(self.thinking);
        if self.instructions.is_empty() {
            return;
        }
        match chat.messages.first_mut() {
            Some(first) if first.role == Role::System => {
                first.content = format!("{}\n\n{}", first.content, self.instructions);
            }
            Some(_) | None => {
                let system = Message::new(Role::System, &self.instructions);
                chat.messages.insert(0, system);
            }
        }
    }

    /// Returns the tokens to keep free for a response to a message of `message_bytes`, or `None` for
    /// as many as usual.
    pub fn reserved_tokens(&self, context_length: usize, message_bytes: usize) -> Option<usize> {
        let of_context = self.reserve_context.map(|share| (share, context_length));
        let of_text = self
            .reserve_text
            .map(|factor| (factor, message_bytes / BYTES_PER_TOKEN));
        let (factor, n_tokens) = of_context.or(of_text)?;
        Some((f64::from(factor) * n_tokens as f64).ceil() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_has_settings_and_its_name() {
        for route in Route::ALL {
            let settings = route.settings();
            assert_eq!(settings.instructions.is_empty(), route == Route::Chat);
            assert_eq!(Route::named(route.name()), Some(route));
            let name = serde_json::to_value(route).unwrap();
            assert_eq!(name, route.name());
            assert!(settings.reserve_context.is_none_or(|share| share <= 0.25));
            assert_eq!(settings.attached.is_none(), route == Route::Chat);
            // Authors recommend a temperature for reasoning.
            assert!(settings.temperature.is_none() || settings.thinking == Some(false));
        }
        assert_eq!(*Route::Chat.settings(), RouteSettings::default());
        assert_eq!(ROUTES.len(), Route::ALL.len());
        assert_eq!(Route::named("Chat"), None);
    }

    #[test]
    fn a_route_reserves_room_for_its_response() {
        let reserved = |route: Route| route.settings().reserved_tokens(8192, 3000);
        assert_eq!(reserved(Route::Translate), Some(1300));
        assert_eq!(reserved(Route::Summarize), Some(1024));
        assert_eq!(reserved(Route::Chat), None);
    }

    #[test]
    fn attached_text_leaves_room_for_the_earlier_messages_and_the_response() {
        for route in Route::tasks() {
            let settings = route.settings();
            let attached = settings.attached.unwrap_or(1.0);
            let history = settings.history.unwrap_or(0.0);
            let of_text = settings.reserve_text.map(|factor| factor * attached);
            let reserve = settings.reserve_context.or(of_text).unwrap_or(0.0);
            let used = attached + history + reserve;
            assert!((0.9..0.97).contains(&used), "{route:?}: {used}");
        }
    }

    #[test]
    fn instructions_follow_the_system_prompt_and_reasoning_is_as_the_request_says() {
        let settings = Route::Translate.settings();
        let mut chat = ChatPrompt {
            messages: vec![Message::user("Guten Tag")],
            ..ChatPrompt::default()
        };
        settings.apply(&mut chat);
        assert_eq!(chat.messages.len(), 2);
        assert_eq!(chat.messages[0].content, settings.instructions);
        assert_eq!(chat.enable_thinking, Some(false));
        let mut own = ChatPrompt {
            messages: vec![Message::new(Role::System, "Be brief.")],
            enable_thinking: Some(true),
            ..ChatPrompt::default()
        };
        settings.apply(&mut own);
        let expected = format!("Be brief.\n\n{}", settings.instructions);
        assert_eq!(own.messages[0].content, expected);
        assert_eq!(own.enable_thinking, Some(true));
        let before = own.clone();
        Route::Chat.settings().apply(&mut own);
        assert_eq!(own, before);
    }
}
