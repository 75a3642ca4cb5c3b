//! What a scripted worker knows of a request: its context, which counts messages instead of tokens,
//! the log probabilities of its response, and its tool calls.

use transom_engine::{
    EngineError, FinishReason, GenerationParams, Limits, Logprob, ModelInfo, ModelSource, Prompt,
    Role, SamplingParams, Stats, TokenEvent, TokenInput, TokenLogprobs, TokenPiece, ToolCallDelta,
    Truncation,
};
use transom_engine_host::wire::{JobId, JobSummary, Report, Request};

use super::{WorkerScript, WorkerTask};

impl WorkerTask {
    /// Reports the length of a prompt: one token for each byte of a text.
    pub(super) async fn count(&self, job: JobId, prompt: &Prompt) {
        let prompt_tokens = match prompt {
            Prompt::Chat(chat) => chat.messages.iter().map(|m| m.content.len()).sum(),
            Prompt::Text(text) => text.len(),
            Prompt::Tokens(tokens) => tokens.len(),
            Prompt::FillIn(text) => text.prefix.len() + text.suffix.len(),
        };
        self.counted(job, prompt_tokens).await;
    }

    /// Converts tokens: each byte of a text is the token of this number.
    pub(super) async fn tokenize(&self, job: JobId, input: &TokenInput) {
        let ids: Vec<u32> = match input {
            TokenInput::Text { text, .. } => text.bytes().map(u32::from).collect(),
            TokenInput::Tokens(ids) => ids.clone(),
        };
        if let Some(id) = ids.iter().find(|id| **id > u32::from(u8::MAX)) {
            let error = EngineError::invalid_parameter("token", id, "below 256");
            let result = Err(error);
            return self.report(Report::JobEnded { job, result }).await;
        }
        let piece = |id: &u32| TokenPiece {
            id: *id,
            bytes: u8::try_from(*id).into_iter().collect(),
        };
        let event = TokenEvent::Pieces {
            pieces: ids.iter().map(piece).collect(),
        };
        self.report(Report::Event { job, event }).await;
        self.counted(job, ids.len()).await;
    }

    async fn counted(&self, job: JobId, prompt_tokens: usize) {
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

/// Returns the log probabilities of a token with this text, if the request asks for them. All of
/// them are -0.5.
pub(super) fn logprobs(params: &GenerationParams, text: &str) -> Vec<TokenLogprobs> {
    let chosen = Logprob {
        token: 0,
        bytes: text.as_bytes().to_vec(),
        logprob: -0.5,
    };
    let of_token = params.logprobs.map(|n_top| TokenLogprobs {
        top: vec![chosen.clone(); n_top.into()],
        chosen,
    });
    of_token.into_iter().collect()
}

/// Returns the events of these calls, each with its arguments in two parts, if the prompt has tools.
pub(super) fn tool_calls(request: &Request, calls: &[(String, String)]) -> Vec<TokenEvent> {
    let has_tools = matches!(&request.prompt, Prompt::Chat(chat) if !chat.tools.is_empty());
    let calls = calls.iter().enumerate().filter(|_| has_tools);
    let events = calls.flat_map(|(index, (name, arguments))| {
        let (first, second) = arguments.split_at(arguments.len() / 2);
        let (id, name) = (format!("call_{index}"), name.clone());
        let deltas = [
            ToolCallDelta::Begin { id, name },
            ToolCallDelta::Arguments(first.to_owned()),
            ToolCallDelta::Arguments(second.to_owned()),
            ToolCallDelta::End,
        ];
        deltas.map(|delta| TokenEvent::ToolCall {
            index,
            delta,
            generated_tokens: 1,
        })
    });
    events.collect()
}

/// Returns the tools whose schemas cannot be held: those with `not`.
pub(super) fn unconstrained_tools(request: &Request) -> Vec<String> {
    let Prompt::Chat(chat) = &request.prompt else {
        return Vec::new();
    };
    let functions = chat.tools.iter().map(|tool| &tool["function"]);
    let loose = functions.filter(|function| !function["parameters"]["not"].is_null());
    let names = loose.filter_map(|function| function["name"].as_str());
    names.map(str::to_owned).collect()
}

pub(super) fn info(source: &ModelSource, limits: &Limits, script: &WorkerScript) -> ModelInfo {
    ModelInfo {
        name: source.path.display().to_string(),
        architecture: "scripted".to_owned(),
        engine: "scripted".to_owned(),
        n_parameters: script.n_parameters,
        stored_as: "a script".to_owned(),
        computed_as: "not at all".to_owned(),
        context_length: limits.context_length,
        vocab_size: 1,
        has_chat_template: true,
        draft: None,
        recommended_sampling: SamplingParams::default(),
    }
}
