//! The context of a scripted worker, which counts messages instead of tokens.

use transom_engine::{EngineError, FinishReason, Prompt, Role, Stats, Truncation};
use transom_engine_host::wire::{JobId, JobSummary, Report, Request};

use super::WorkerTask;

impl WorkerTask {
    /// Reports the length of a prompt: one token for each byte of a text.
    pub(super) async fn count(&self, job: JobId, prompt: &Prompt) {
        let prompt_tokens = match prompt {
            Prompt::Chat(chat) => chat.messages.iter().map(|m| m.content.len()).sum(),
            Prompt::Text(text) => text.len(),
            Prompt::Tokens(tokens) => tokens.len(),
        };
        let result = Ok(JobSummary {
            reason: FinishReason::Stop,
            stats: Stats {
                prompt_tokens,
                ..Stats::default()
            },
            memory: self.memory(),
        });
        self.report(Report::JobEnded { job, result }).await;
    }
}

/// Returns how many messages the worker drops: all but the newest one, if there are more than the
/// context holds: `max_messages`.
///
/// # Errors
/// [`EngineError::PromptTooLong`] if the request does not allow that.
pub(super) fn dropped_messages(
    request: &Request,
    max_messages: usize,
) -> Result<usize, EngineError> {
    let Prompt::Chat(chat) = &request.prompt else {
        return Ok(0);
    };
    let messages = chat.messages.iter();
    let n_messages = messages.filter(|one| one.role != Role::System).count();
    match request.truncation {
        _ if n_messages <= max_messages => Ok(0),
        Truncation::DropOldest { .. } => Ok(n_messages - 1),
        Truncation::Disabled => Err(EngineError::PromptTooLong {
            prompt_tokens: n_messages,
            context_length: max_messages,
        }),
    }
}
