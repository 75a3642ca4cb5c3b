//! How much of the context a request may use for earlier messages and attached text on its route.

use serde::Serialize;
use transom_engine::route::BYTES_PER_TOKEN;
use transom_store::{AttachedText, Message, MessageRole, attached_text};

use super::{Route, Routes, classify, command, estimated_tokens};
use crate::ending::to_u32;
use crate::failure::Failure;

/// What the request for a message may contain on its route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct RouteLimits {
    /// How many of the newest earlier messages it contains; `None` for as many as fit.
    pub earlier_messages: Option<u32>,
    /// The tokens that attached text may have; `None` for as many as fit.
    pub attached_tokens: Option<u32>,
    /// The tokens that are kept free for the response; `None` for as many as usual.
    pub response_tokens: Option<u32>,
}

/// A message of the user as it is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentMessage<'a> {
    /// Its own text.
    pub text: &'a str,
    /// A text is attached.
    pub has_attachment: bool,
    /// Bytes of its text and of all attached texts.
    pub n_bytes: usize,
}

impl<'a> From<&'a Message> for SentMessage<'a> {
    fn from(message: &'a Message) -> Self {
        Self {
            text: &message.text,
            has_attachment: !message.attachment.trim().is_empty(),
            n_bytes: n_bytes(message),
        }
    }
}

impl RouteLimits {
    /// Returns the limits of the request for `message` on a route, after the messages `earlier`, newest first,
    /// of which no more are read than the request contains. `context_length` is that of the model, in tokens.
    pub(crate) fn new<E>(
        (route, routes): (Route, &Routes),
        message: SentMessage<'_>,
        earlier: impl IntoIterator<Item = Result<Size, E>>,
        context_length: usize,
    ) -> Result<Self, E> {
        let earlier_messages = match history_share(routes, route, message) {
            None => None,
            Some(share) => {
                let max_tokens = tokens_of(share, context_length);
                Some(to_u32(n_within(earlier, max_tokens * BYTES_PER_TOKEN)?))
            }
        };
        // The length of a message that is about earlier ones says nothing of its response.
        let n_bytes = Some(message.n_bytes).filter(|_| has_own_text(route, message));
        let changes = routes.settings(route);
        let reserved = changes.reserved_tokens(context_length, n_bytes.unwrap_or(0));
        Ok(Self {
            earlier_messages,
            attached_tokens: max_attached(routes, route, context_length).map(to_u32),
            response_tokens: reserved.filter(|n| *n > 0).map(to_u32),
        })
    }
}

/// The speaker of a message, and its bytes.
pub(crate) type Size = (MessageRole, usize);

/// Returns the size of a stored message.
pub(crate) fn size_of(message: &Message) -> Size {
    (message.role, n_bytes(message))
}

fn n_bytes(message: &Message) -> usize {
    message.attachment.len() + message.text.len()
}

/// Returns how many of these messages, which end with the question of an exchange, have at most `max_bytes`.
fn n_within<E>(
    newest_first: impl IntoIterator<Item = Result<Size, E>>,
    max_bytes: usize,
) -> Result<usize, E> {
    let (mut n_messages, mut left) = (0, max_bytes);
    for (at, size) in newest_first.into_iter().enumerate() {
        let (role, n_bytes) = size?;
        let Some(rest) = left.checked_sub(n_bytes) else {
            break;
        };
        left = rest;
        if role == MessageRole::User {
            n_messages = at + 1;
        }
    }
    Ok(n_messages)
}

/// Returns the share of the context that earlier messages may take in the request for a message; `None` for
/// all of them, like for every message that has no text of its own or speaks of earlier ones:
/// "/translate into German" is about the response before it, and so is "shorten your last answer".
pub(crate) fn history_share(
    routes: &Routes,
    route: Route,
    message: SentMessage<'_>,
) -> Option<f32> {
    let share = routes.settings(route).history?;
    has_own_text(route, message).then_some(share)
}

/// Returns true if a message comes with the text that it is about.
fn has_own_text(route: Route, message: SentMessage<'_>) -> bool {
    let text = message.text.trim();
    let words = match command(text) {
        Some(_) => text
            .split_once(char::is_whitespace)
            .map_or("", |(_, rest)| rest),
        None => text,
    };
    let has_text = message.has_attachment || classify::is_worked_on(words, route);
    has_text && !classify::names_earlier_messages(words)
}

/// Returns the tokens of a share of the context.
fn tokens_of(share: f32, context_length: usize) -> usize {
    (f64::from(share) * context_length as f64) as usize
}

fn max_attached(routes: &Routes, route: Route, context_length: usize) -> Option<usize> {
    let share = routes.settings(route).attached?;
    Some(tokens_of(share, context_length))
}

/// Checks the text that is attached to the last message of `path`, which is never cut, and the
/// `contained_tokens` of such a text within the message itself. A continued response has its attached text
/// already.
///
/// # Errors
/// [`Failure::AttachedTooLong`] if the route allows less.
pub fn check_attached(
    path: &[Message],
    contained_tokens: usize,
    (route, routes): (Route, &Routes),
    context_length: usize,
) -> Result<(), Failure> {
    let question = path
        .last()
        .filter(|message| message.role == MessageRole::User);
    let max_tokens = max_attached(routes, route, context_length).map(to_u32);
    let (Some(question), Some(max_tokens)) = (question, max_tokens) else {
        return Ok(());
    };
    let attached_tokens = attached_tokens(&attached_text::split(&question.attachment));
    let attached_tokens = to_u32(attached_tokens.saturating_add(contained_tokens));
    match is_too_long(attached_tokens, Some(max_tokens)) {
        false => Ok(()),
        true => Err(Failure::AttachedTooLong {
            route,
            attached_tokens,
            max_tokens,
        }),
    }
}

/// Returns true if attached text has more tokens than [`RouteLimits::attached_tokens`].
pub(super) fn is_too_long(attached_tokens: u32, max_tokens: Option<u32>) -> bool {
    max_tokens.is_some_and(|max| attached_tokens > max)
}

fn attached_tokens(attachments: &[AttachedText]) -> usize {
    let texts = attachments.iter().map(|one| estimated_tokens(&one.text));
    texts.sum()
}
