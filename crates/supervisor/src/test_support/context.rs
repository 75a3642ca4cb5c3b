//! The context of a scripted worker, which counts messages instead of tokens.

use transom_engine::{EngineError, Prompt, Role, Truncation};
use transom_engine_host::wire::Request;

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
