//! From what was said to what is asked: history, attachments and settings become one request.
//!
//! Pure. What does not fit the context is left out beside the model, where tokens can be counted
//! ([`transom_engine::truncation`]); what the machine can afford is the supervisor's to bound.
//!
//! Rule: the model is shown what the person sees, in turns as chat templates demand them. Reasoning
//! of earlier answers is left out, as their authors ask, and an answer with nothing in it is none.

use transom_engine::{
    ChatPrompt, ConversationId, GenerationParams, Message as Turn, ModelInfo, Prompt, Role,
    SamplingParams, Truncation,
};
use transom_engine_host::wire::Request;
use transom_store::{Message, MessageRole, ModelSettings};

/// Tokens kept free for an answer whose length the user did not set; a quarter of the context if
/// that is less.
const ROOM_FOR_AN_ANSWER: usize = 1024;

/// The request that continues `path`, which begins at the conversation's root and ends with a
/// message of the person, for the model that `info` describes.
pub fn request(path: &[Message], settings: &ModelSettings, info: &ModelInfo) -> Request {
    let turns = turns(path, settings.system_prompt.as_deref());
    let prompt = if info.has_chat_template {
        Prompt::Chat(ChatPrompt {
            messages: turns,
            enable_thinking: settings.thinking,
            tools: Vec::new(),
        })
    } else {
        // Such a model continues text, and takes who speaks from the text alone.
        let said = turns.into_iter().map(|turn| turn.content);
        Prompt::Text(said.collect::<Vec<_>>().join("\n\n"))
    };
    let max_tokens = settings.max_tokens.map(|n| n as usize);
    Request {
        prompt,
        fit: Truncation::DropOldest {
            response_tokens: max_tokens.unwrap_or(ROOM_FOR_AN_ANSWER),
            context_limit: None,
        },
        params: GenerationParams {
            sampling: sampling(settings, &info.recommended_sampling),
            // An answer that outgrows the context is still worth its end; one that is as long as
            // all of it goes round in circles.
            shift_context: true,
            max_tokens: max_tokens.or(Some(info.context_length)),
            conversation: path.last().map(conversation),
            ..GenerationParams::default()
        },
    }
}

/// The stored id of the message's conversation; the store never reuses one.
fn conversation(message: &Message) -> ConversationId {
    ConversationId(message.conversation.0.cast_unsigned())
}

/// What the user set, over what the model's authors recommend.
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

/// The system prompt and the path as turns. Two messages of one speaker in a row, as they are left
/// where an answer never came, become one.
fn turns(path: &[Message], system_prompt: Option<&str>) -> Vec<Turn> {
    let system = system_prompt.filter(|text| !text.trim().is_empty());
    let mut turns: Vec<Turn> = Vec::with_capacity(path.len() + 1);
    turns.extend(system.map(|text| Turn::new(Role::System, text)));
    for message in path {
        let (role, said) = match message.role {
            MessageRole::User => (Role::User, with_attachment(message)),
            MessageRole::Assistant => (Role::Assistant, message.text.clone()),
        };
        if said.trim().is_empty() {
            continue;
        }
        match turns.last_mut() {
            Some(last) if last.role == role => {
                last.content.push_str("\n\n");
                last.content.push_str(&said);
            }
            Some(_) | None => turns.push(Turn::new(role, said)),
        }
    }
    turns
}

/// A person's message with what was taken along before it, between tags that do not occur in it.
fn with_attachment(message: &Message) -> String {
    let attachment = message.attachment.trim_end();
    if attachment.trim().is_empty() {
        return message.text.clone();
    }
    let tag = tag_for(attachment);
    let question = &message.text;
    let attached = format!("<{tag}>\n{attachment}\n</{tag}>");
    if question.trim().is_empty() {
        attached
    } else {
        format!("{attached}\n\n{question}")
    }
}

/// `text`, or a numbered one where the attachment itself has that tag.
fn tag_for(attachment: &str) -> String {
    let is_free = |tag: &String| {
        !attachment.contains(&format!("</{tag}>")) && !attachment.contains(&format!("<{tag}>"))
    };
    let numbered = (2..).map(|n: usize| format!("text-{n}"));
    let mut tags = std::iter::once("text".to_owned()).chain(numbered);
    tags.find(is_free)
        .expect("a text of finite length leaves a number free")
}

#[cfg(test)]
mod tests;
