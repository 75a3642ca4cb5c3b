//! Builds a request from a conversation: history, attachments and settings.
//!
//! Pure functions. The child process drops messages that do not fit the context, because it can
//! count tokens ([`transom_engine::truncation`]). The supervisor sets the limits of the machine.
//!
//! Rule: the model gets the messages that the user sees, in the alternating turns that chat
//! templates require. Reasoning of earlier responses is left out, as model authors recommend, and
//! empty responses are skipped.
//!
//! Rule: messages that were dropped stay dropped, so the prompts of the next turns begin with the
//! same tokens. The statistics of a response contain how many messages of its path it was written
//! without. That number is right for every branch, because the messages above a response stay the
//! same; deleting an exchange removes the statistics below it.
//!
//! Rule: a summary counts only for messages that were dropped, and follows the system prompt. It is
//! stored with the last message that it covers, so it is right for every branch below that message.

use std::convert::Infallible;

use transom_engine::{
    Attachment, ChatPrompt, ConversationId, GenerationParams, Message as Turn, ModelInfo, Prompt,
    Role, SamplingParams, Truncation, summary, title, with_attachments,
};
use transom_engine_host::wire::Request;
use transom_store::{
    ConversationSettings, Message, MessageRole, ModelSettings, Overflow, attached_text,
};

use crate::ending::stats_of;
use crate::routing::{
    Route, RouteLimits, Routes, history_share, previous_route, settings_under, size_of,
};

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

/// Returns how many messages at the start of `path` stay dropped: those that its last response was
/// written without. With another model or context length than that response had, none.
pub fn dropped_before(path: &[Message], model: &str, context_length: Option<u32>) -> usize {
    let mut responses = path.iter().rev();
    let last = responses.find_map(|message| Some((message, stats_of(message)?)));
    let same = last.filter(|(message, stats)| {
        message.model.as_deref() == Some(model) && stats.context_length == context_length
    });
    let n_dropped = same.map_or(0, |(_, stats)| stats.dropped_messages as usize);
    // The statistics of an imported conversation may contain any number.
    let begins_exchange = path
        .get(n_dropped)
        .is_some_and(|first| first.role == MessageRole::User);
    if begins_exchange { n_dropped } else { 0 }
}

/// Returns how many messages of `path` are in the first `n_turns` turns of its prompt, not counting
/// the system prompt.
pub fn messages_in_turns(path: &[Message], n_turns: usize) -> usize {
    match n_turns {
        0 => 0,
        n => turns(path).get(n).map_or(0, |(first, _)| *first),
    }
}

/// Returns the latest summary of messages among the first `n_dropped` of `path`, and how many it
/// covers. A summary that the user removed counts as none.
pub fn summary_of(path: &[Message], n_dropped: usize) -> Option<(usize, &str)> {
    let mut dropped = path.iter().take(n_dropped).enumerate().rev();
    let (last, text) = dropped.find_map(|(at, message)| Some((at, message.summary.as_deref()?)))?;
    (!text.is_empty()).then_some((last + 1, text))
}

/// Builds a request for a summary of all messages of `path`, with at most about `max_bytes` of their
/// text. An earlier summary stands for the messages that it covers.
pub fn summary_request(path: &[Message], info: &ModelInfo, max_bytes: usize) -> Request {
    let earlier = summary_of(path, path.len().saturating_sub(1));
    let n_covered = earlier.map_or(0, |(n_covered, _)| n_covered);
    let turns = turns(&path[n_covered..]).into_iter().map(|(_, turn)| turn);
    let turns: Vec<Turn> = turns.collect();
    Request {
        prompt: summary::prompt(earlier.map(|(_, text)| text), &turns, max_bytes),
        truncation: Truncation::Disabled,
        params: GenerationParams {
            conversation: path
                .last()
                .map(|message| request_ids(message.conversation)[1]),
            ..summary::params(&info.recommended_sampling)
        },
    }
}

/// Builds a request for the title of a conversation that begins with `question`, by a model with this
/// recommended sampling.
pub fn title_request(question: &Message, recommended: &SamplingParams) -> Request {
    let turns = turns(std::slice::from_ref(question));
    let message = turns.first().map_or("", |(_, turn)| turn.content.as_str());
    Request {
        prompt: title::prompt(message),
        truncation: Truncation::Disabled,
        params: GenerationParams {
            conversation: Some(request_ids(question.conversation)[1]),
            ..title::params(recommended)
        },
    }
}

/// Builds a request for the model described by `info`. `path` starts at the conversation's root, or
/// at the first message that was not dropped. It ends with a user message, or with an unfinished
/// response, whose text the model continues.
pub fn request(
    path: &[Message],
    settings: &ModelSettings,
    overflow: Overflow,
    info: &ModelInfo,
) -> Request {
    let system = settings.system_prompt.iter();
    let system = system.filter(|text| !text.trim().is_empty());
    let system = system.map(|text| Turn::new(Role::System, text));
    let turns = turns(path).into_iter().map(|(_, turn)| turn);
    let turns: Vec<Turn> = system.chain(turns).collect();
    let prompt = if info.has_chat_template {
        Prompt::Chat(ChatPrompt {
            messages: turns,
            enable_thinking: settings.thinking,
            continue_final_message: path.last().is_some_and(is_from_model),
            ..ChatPrompt::default()
        })
    } else {
        // A base model continues text and has no roles.
        let text = turns.into_iter().map(|turn| turn.content);
        Prompt::Text(text.collect::<Vec<_>>().join("\n\n"))
    };
    let max_tokens = settings.max_tokens.map(|n| n as usize);
    Request {
        prompt,
        truncation: match overflow {
            Overflow::DropOldest | Overflow::Summarize => Truncation::DropOldest {
                response_tokens: max_tokens.unwrap_or(RESERVED_FOR_RESPONSE),
                context_limit: None,
            },
            Overflow::Stop => Truncation::Disabled,
        },
        params: GenerationParams {
            sampling: sampling(settings, &info.recommended_sampling),
            // A response may outgrow the context to reach its end, but one as long as the whole
            // context is stuck in a loop.
            shift_context: overflow != Overflow::Stop,
            max_tokens: max_tokens.or(Some(info.context_length)),
            read_ahead: true,
            conversation: path
                .last()
                .map(|message| request_ids(message.conversation)[0]),
            ..GenerationParams::default()
        },
    }
}

/// As [`request`], with what `route` of `routes` changes. A base model, which has no roles, gets the same
/// text as without a route.
///
/// Instructions of a route with the whole history are part of the message, and those of an earlier message
/// are sent again with it, so the prompt of the next turn begins with the same tokens. A request with less
/// has the other id of the conversation, so the conversation's KV cache stays for the next turn.
pub fn routed_request(
    path: &[Message],
    settings: &ModelSettings,
    overflow: Overflow,
    (route, routes): (Route, &Routes),
    info: &ModelInfo,
) -> Request {
    let question = question_in(path).filter(|_| info.has_chat_template);
    let Some(question) = question else {
        return request(path, settings, overflow, info);
    };
    let changes = routes.settings(route);
    let mut settings = settings_under(changes, settings);
    let all = with_instructions(path, question, (route, routes));
    let limits = limits((route, routes), path, question, info.context_length);
    let mut request = match limits.earlier_messages {
        None => request(&all, &settings, overflow, info),
        Some(n_earlier) => {
            let own = settings.system_prompt.take();
            let own = own.filter(|text| !text.trim().is_empty());
            let of_route = Some(changes.instructions.clone()).filter(|text| !text.is_empty());
            let parts: Vec<String> = own.into_iter().chain(of_route).collect();
            settings.system_prompt = Some(parts.join("\n\n"));
            let first = question.saturating_sub(n_earlier as usize);
            let mut request = request(&all[first..], &settings, overflow, info);
            request.params.conversation = Some(request_ids(path[question].conversation)[1]);
            // The next turn has all messages again.
            request.params.read_ahead = false;
            request
        }
    };
    if settings.max_tokens.is_none()
        && let Truncation::DropOldest {
            response_tokens, ..
        } = &mut request.truncation
        && let Some(reserved) = limits.response_tokens
    {
        *response_tokens = reserved as usize;
    }
    request
}

/// Returns true if the request for a response to the last question of `path` contains all earlier messages.
pub fn has_all_history(path: &[Message], route: Route, routes: &Routes) -> bool {
    let question = question_in(path).and_then(|at| path.get(at));
    question.is_none_or(|question| history_share(routes, route, question.into()).is_none())
}

/// Returns the limits of the request for the message at `question`.
fn limits(
    on_route: (Route, &Routes),
    path: &[Message],
    question: usize,
    context_length: usize,
) -> RouteLimits {
    let earlier = path[..question].iter().rev();
    let earlier = earlier.map(|message| Ok::<_, Infallible>(size_of(message)));
    let message = (&path[question]).into();
    let Ok(limits) = RouteLimits::new(on_route, message, earlier, context_length);
    limits
}

/// Returns the index of the last message of the user.
fn question_in(path: &[Message]) -> Option<usize> {
    path.iter().rposition(|message| !is_from_model(message))
}

/// Returns `path` with the instructions of each message's route before its text, if its request had all
/// earlier messages. `route` is that of the message at `question`; those of earlier messages are in the
/// statistics of their responses. A change of a route in the settings is for these too, so the next request
/// reads them once more.
fn with_instructions(
    path: &[Message],
    question: usize,
    (route, routes): (Route, &Routes),
) -> Vec<Message> {
    let mut path = path.to_vec();
    for at in 0..=question {
        let route = match path.get(at + 1) {
            _ if at == question => route,
            Some(response) => routes.or_chat(previous_route(response)),
            None => Route::Chat,
        };
        let instructions = &routes.settings(route).instructions;
        let message = &mut path[at];
        if !is_from_model(message)
            && !instructions.is_empty()
            && history_share(routes, route, (&*message).into()).is_none()
        {
            let text = format!("{instructions}\n\n{}", message.text);
            message.text = text.trim_end().to_owned();
        }
    }
    path
}

fn is_from_model(message: &Message) -> bool {
    message.role == MessageRole::Assistant
}

/// Returns the ids that a stored conversation has in requests: in those that contain its messages, and
/// in those for summaries, titles and responses with less history, which must not replace its KV cache.
/// The store never reuses ids.
///
/// Whoever deletes the conversation deletes the KV caches of both, because both have its text.
pub fn request_ids(conversation: transom_store::ConversationId) -> [ConversationId; 2] {
    let id = conversation.0.cast_unsigned();
    [id, id | 1 << 63].map(ConversationId)
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

/// Returns the path as turns, each with the index of its first message. Consecutive messages of one
/// speaker, which occur where a response is missing, are merged.
fn turns(path: &[Message]) -> Vec<(usize, Turn)> {
    let mut turns: Vec<(usize, Turn)> = Vec::with_capacity(path.len());
    for (index, message) in path.iter().enumerate() {
        let (role, text) = match message.role {
            MessageRole::User => (Role::User, with_attached_texts(message)),
            MessageRole::Assistant => (Role::Assistant, message.text.clone()),
        };
        if text.trim().is_empty() {
            continue;
        }
        match turns.last_mut() {
            Some((_, last)) if last.role == role => {
                last.content.push_str("\n\n");
                last.content.push_str(&text);
            }
            Some(_) | None => turns.push((index, Turn::new(role, text))),
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
pub(crate) mod tests;
