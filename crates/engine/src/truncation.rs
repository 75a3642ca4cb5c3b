//! Shortens a conversation that does not fit the context: drops the oldest exchanges and keeps the
//! system prompt and the newest exchange.
//!
//! This runs in the child process, where tokens can be counted, so a request is a single message.
//!
//! Rule: a conversation that fits is never shortened, and one that does not fit is shortened far. A
//! cut costs prefill of everything after the system prompt. So the caller leaves the dropped messages
//! out of its next requests, which then process only new tokens until the context is full again.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::chat::{ChatPrompt, Message, Role};
use crate::contract::LoadedModel;
use crate::error::EngineError;
use crate::request::{PreparedPrompt, Prompt};

/// What to do with a conversation that does not fit the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Truncation {
    /// Fails if the prompt does not fit: [`EngineError::PromptTooLong`], which has both numbers.
    #[default]
    Disabled,
    /// Drops the oldest exchanges, to about 60 % of what fits.
    DropOldest {
        /// Tokens to reserve for the response; a quarter of the context if that is less.
        response_tokens: usize,
        /// A lower context length, for a machine that is short of memory. Exchanges are dropped to
        /// stay within it, but a prompt that cannot be shortened may exceed it.
        context_limit: Option<usize>,
    },
}

/// What remains of a conversation after a cut, in percent of the tokens that fit before the response.
/// A cut to 60 % lasts for several turns: at 500 tokens a turn and a context of 8,192, for about six.
const KEPT_PERCENT: usize = 60;

/// Like [`LoadedModel::prepare`], after dropping messages as `truncation` allows.
///
/// # Errors
/// Those of [`LoadedModel::prepare`]; [`EngineError::PromptTooLong`] if no more messages can be
/// dropped.
pub fn prepare(
    model: &dyn LoadedModel,
    prompt: &Prompt,
    truncation: Truncation,
) -> Result<PreparedPrompt, EngineError> {
    let (
        Prompt::Chat(chat),
        Truncation::DropOldest {
            response_tokens,
            context_limit,
        },
    ) = (prompt, truncation)
    else {
        return model.prepare(prompt);
    };
    let context_length = model.info().context_length;
    let context_length = context_limit.map_or(context_length, |n| n.min(context_length));
    let max_prompt_tokens = context_length - response_tokens.min(context_length / 4);
    let prepared = |n_dropped: usize| {
        let prepared = model.prepare(&Prompt::Chat(drop_oldest(chat, n_dropped)))?;
        Ok(PreparedPrompt {
            dropped_messages: n_dropped,
            ..prepared
        })
    };
    let exceeds = |max_tokens: usize, result: &Result<PreparedPrompt, EngineError>| match result {
        Ok(prepared) => prepared.tokens.len() > max_tokens,
        Err(error) => matches!(error, EngineError::PromptTooLong { .. }),
    };
    let unshortened = prepared(0);
    let steps = drop_counts(chat);
    if steps.is_empty() || !exceeds(max_prompt_tokens, &unshortened) {
        return unshortened;
    }
    // Tokenizing a long conversation takes a while, and a shorter one takes less, so a binary
    // search finds the fewest exchanges to drop. The result of the last step is used even if it is
    // too long.
    let max_kept_tokens = max_prompt_tokens.saturating_mul(KEPT_PERCENT) / 100;
    let (mut low, mut high) = (0, steps.len() - 1);
    let mut of_high = None;
    while low < high {
        let middle = (low + high) / 2;
        let result = prepared(steps[middle]);
        if exceeds(max_kept_tokens, &result) {
            low = middle + 1;
        } else {
            (high, of_high) = (middle, Some(result));
        }
    }
    of_high.unwrap_or_else(|| prepared(steps[high]))
}

fn n_system_messages(chat: &ChatPrompt) -> usize {
    let is_system = |message: &&Message| message.role == Role::System;
    chat.messages.iter().take_while(is_system).count()
}

/// Returns how many messages after the system prompt can be dropped: those of the oldest exchange,
/// of the two oldest, and so on. An exchange ends at the next user message, but not before the
/// results of its tool calls. The newest exchange is kept.
fn drop_counts(chat: &ChatPrompt) -> Vec<usize> {
    let rest = &chat.messages[n_system_messages(chat)..];
    let mut next_results: HashMap<&str, usize> = HashMap::new();
    // For each message, where the results of its calls end.
    let mut ends = vec![0; rest.len()];
    for (index, message) in rest.iter().enumerate().rev() {
        let calls = message.tool_calls.iter();
        let results = calls.filter_map(|call| next_results.get(call.id.as_str()));
        ends[index] = results.copied().max().unwrap_or(0);
        if let Some(id) = &message.tool_call_id {
            next_results.insert(id, index);
        }
    }
    let mut end = 0;
    let mut counts = Vec::new();
    for (n_before, message) in rest.iter().enumerate() {
        if message.role == Role::User && n_before > end {
            counts.push(n_before);
        }
        end = end.max(ends[n_before]);
    }
    counts
}

fn drop_oldest(chat: &ChatPrompt, n_dropped: usize) -> ChatPrompt {
    let mut chat = chat.clone();
    let n_system_messages = n_system_messages(&chat);
    chat.messages
        .drain(n_system_messages..n_system_messages + n_dropped);
    chat
}

#[cfg(all(test, feature = "test-support"))]
mod tests;
