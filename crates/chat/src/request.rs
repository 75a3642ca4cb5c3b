//! Builds a request from a conversation: history, attachments and settings.
//!
//! Pure functions. The child process drops messages that do not fit the context, because it can
//! count tokens ([`transom_engine::truncation`]). The supervisor sets the limits of the machine.
//!
//! Rule: the model gets the messages that the user sees, in the alternating turns that chat
//! templates require. Reasoning of earlier responses is left out, as model authors recommend, and
//! empty responses are skipped.

use transom_engine::{
    Attachment, ChatPrompt, ConversationId, GenerationParams, Message as Turn, ModelInfo, Prompt,
    Role, SamplingParams, Truncation, with_attachments,
};
use transom_engine_host::wire::Request;
use transom_store::{ConversationSettings, Message, MessageRole, ModelSettings, attached_text};

/// Tokens reserved for a response if the user set no limit; at most a quarter of the context.
const RESERVED_FOR_RESPONSE: usize = 1024;

/// Returns the settings of a model, with those of a conversation in place of them.
pub fn settings_in(conversation: &ConversationSettings, model: &ModelSettings) -> ModelSettings {
    let own = conversation.clone();
    let model = model.clone();
    ModelSettings {
        context_length: own.context_length.or(model.context_length),
        temperature: own.temperature.or(model.temperature),
        system_prompt: own.instructions.or(model.system_prompt),
        thinking: own.thinking.or(model.thinking),
        ..model
    }
}

/// Builds a request for the model described by `info`. `path` starts at the conversation's root. It
/// ends with a user message, or with an unfinished response, whose text the model continues.
pub fn request(path: &[Message], settings: &ModelSettings, info: &ModelInfo) -> Request {
    let turns = turns(path, settings.system_prompt.as_deref());
    let prompt = if info.has_chat_template {
        Prompt::Chat(ChatPrompt {
            messages: turns,
            enable_thinking: settings.thinking,
            tools: Vec::new(),
            continue_final_message: path.last().is_some_and(is_from_model),
        })
    } else {
        // A base model continues text and has no roles.
        let text = turns.into_iter().map(|turn| turn.content);
        Prompt::Text(text.collect::<Vec<_>>().join("\n\n"))
    };
    let max_tokens = settings.max_tokens.map(|n| n as usize);
    Request {
        prompt,
        truncation: Truncation::DropOldest {
            response_tokens: max_tokens.unwrap_or(RESERVED_FOR_RESPONSE),
            context_limit: None,
        },
        params: GenerationParams {
            sampling: sampling(settings, &info.recommended_sampling),
            // A response may outgrow the context to reach its end, but one as long as the whole
            // context is stuck in a loop.
            shift_context: true,
            max_tokens: max_tokens.or(Some(info.context_length)),
            conversation: path.last().map(conversation),
            ..GenerationParams::default()
        },
    }
}

fn is_from_model(message: &Message) -> bool {
    message.role == MessageRole::Assistant
}

/// Returns the stored id of the message's conversation. The store never reuses ids.
fn conversation(message: &Message) -> ConversationId {
    ConversationId(message.conversation.0.cast_unsigned())
}

/// Combines the user's settings with the recommendations of the model's authors.
fn sampling(settings: &ModelSettings, recommended: &SamplingParams) -> SamplingParams {
    let recommended = recommended.clone();
    SamplingParams {
        temperature: settings.temperature.unwrap_or(recommended.temperature),
        top_k: settings.top_k.map_or(recommended.top_k, |n| n as usize),
        top_p: settings.top_p.unwrap_or(recommended.top_p),
        min_p: settings.min_p.unwrap_or(recommended.min_p),
        repetition_penalty: settings
            .repetition_penalty
            .unwrap_or(recommended.repetition_penalty),
        seed: settings.seed.map(u64::from).or(recommended.seed),
        ..recommended
    }
}

/// Returns the system prompt and the path as turns. Consecutive messages of one speaker, which
/// occur where a response is missing, are merged.
fn turns(path: &[Message], system_prompt: Option<&str>) -> Vec<Turn> {
    let system = system_prompt.filter(|text| !text.trim().is_empty());
    let mut turns: Vec<Turn> = Vec::with_capacity(path.len() + 1);
    turns.extend(system.map(|text| Turn::new(Role::System, text)));
    for message in path {
        let (role, text) = match message.role {
            MessageRole::User => (Role::User, with_attached_texts(message)),
            MessageRole::Assistant => (Role::Assistant, message.text.clone()),
        };
        if text.trim().is_empty() {
            continue;
        }
        match turns.last_mut() {
            Some(last) if last.role == role => {
                last.content.push_str("\n\n");
                last.content.push_str(&text);
            }
            Some(_) | None => turns.push(Turn::new(role, text)),
        }
    }
    turns
}

/// Returns a user message with its attached texts before it.
fn with_attached_texts(message: &Message) -> String {
    let texts = attached_text::split(&message.attachment);
    let attachments = texts.iter().map(|attached| Attachment {
        name: attached.name.as_deref(),
        text: &attached.text,
    });
    with_attachments(attachments, &message.text)
}

#[cfg(test)]
mod tests;
