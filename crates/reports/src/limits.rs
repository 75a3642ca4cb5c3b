//! The limits of a response, and why it ended before the model wanted.
//!
//! Rule: a limit that changed nothing for this response is not mentioned.

use std::sync::Arc;

use transom_engine::{FinishReason, Stats};
use transom_supervisor::{ActiveLimit, Limit, Status};

/// Why a response ended before the model wanted, as a part of a sentence.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EarlyEnd {
    /// The limit of the person who asked.
    #[error("--max-tokens is reached")]
    MaxTokens,
    /// Another reason.
    #[error("{0}")]
    Other(String),
}

/// The machine's limits of one response, as they were when it began.
#[derive(Debug, Clone, Default)]
pub struct ResponseLimits {
    max_tokens: Option<usize>,
    context_length: Option<usize>,
    limits: Vec<ActiveLimit>,
}

impl ResponseLimits {
    /// Returns the limits that are in force according to `status`.
    pub fn of(status: &Status) -> Self {
        Self {
            max_tokens: status.restrictions.max_tokens,
            context_length: status.restrictions.context_length,
            limits: status.restrictions.limits.clone(),
        }
    }

    /// Returns why the response ended before the model wanted; `None` if the model ended it.
    /// `has_max_tokens` tells whether the user limited its length; `status` asks for the present status.
    pub fn early_end(
        &self,
        reason: FinishReason,
        stats: &Stats,
        has_max_tokens: bool,
        status: impl FnOnce() -> Option<Arc<Status>>,
    ) -> Option<EarlyEnd> {
        let cause = match reason {
            FinishReason::Stop => return None,
            FinishReason::Shed => stop_reason(status().as_deref()),
            // Ctrl-C and a reader that left are handled before.
            FinishReason::Canceled => "the model was unloaded".to_owned(),
            FinishReason::Length => match self.on_length(stats.generated_tokens) {
                Some(limit) => limit,
                None if has_max_tokens => return Some(EarlyEnd::MaxTokens),
                None if stats.shifted_tokens > 0 => "it is as long as the whole context".to_owned(),
                None => "the context is full (--context-length)".to_owned(),
            },
        };
        Some(EarlyEnd::Other(cause))
    }

    /// Returns the limit that ended a response of `n_generated` tokens, if it was the machine's.
    fn on_length(&self, n_generated: usize) -> Option<String> {
        let max_tokens = self.max_tokens.filter(|max| n_generated >= *max)?;
        let reason = self.text_of(|limit| matches!(limit, Limit::AnswerLength { .. }));
        Some(
            reason.unwrap_or_else(|| format!("responses have at most {max_tokens} tokens for now")),
        )
    }

    /// Returns the limit of the context, if it is less than the model's own context length.
    pub fn on_context(&self, of_model: usize) -> Option<String> {
        let context_length = self.context_length.filter(|n| *n < of_model)?;
        let reason = self.text_of(|limit| matches!(limit, Limit::Context { .. }));
        Some(
            reason.unwrap_or_else(|| {
                format!("the context has at most {context_length} tokens for now")
            }),
        )
    }

    /// Returns the first matching limit and its reason.
    fn text_of(&self, matches: impl Fn(&Limit) -> bool) -> Option<String> {
        let limit = self.limits.iter().find(|limit| matches(&limit.limit));
        limit.map(ToString::to_string)
    }
}

/// Returns why the machine stopped a response, according to the `status` then, if it is known.
pub fn stop_reason(status: Option<&Status>) -> String {
    match status.and_then(|status| status.restrictions.blocked_by) {
        Some(because) => because.to_string(),
        None => "this computer is short of memory".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_supervisor::LimitReason;

    fn limits() -> ResponseLimits {
        let limit = |limit| ActiveLimit {
            limit,
            reason: LimitReason::LowPower,
        };
        ResponseLimits {
            max_tokens: Some(1024),
            context_length: Some(4096),
            limits: vec![
                limit(Limit::RunningAnswers),
                limit(Limit::Context { tokens: 4096 }),
                limit(Limit::AnswerLength { tokens: 1024 }),
            ],
        }
    }

    #[test]
    fn only_a_response_that_reached_the_limit_was_ended_by_it() {
        assert_eq!(limits().on_length(1023), None);
        let text = limits().on_length(1024).unwrap();
        assert!(
            text.starts_with("shorter responses (1024 tokens): "),
            "{text}"
        );
        assert_eq!(ResponseLimits::default().on_length(5000), None);
    }

    #[test]
    fn only_a_context_below_the_models_own_is_limited() {
        assert_eq!(limits().on_context(4096), None);
        let text = limits().on_context(8192).unwrap();
        assert!(
            text.starts_with("shorter context (4096 tokens): "),
            "{text}"
        );
    }

    #[test]
    fn a_limit_without_its_reason_has_a_text() {
        let limits = ResponseLimits {
            limits: Vec::new(),
            ..limits()
        };
        assert!(limits.on_length(1024).unwrap().contains("1024"));
        assert!(limits.on_context(8192).unwrap().contains("4096"));
    }
}
