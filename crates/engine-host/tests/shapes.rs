//! The JSON of the messages between parent and child does not change without a new protocol number.
//!
//! Rule: every kind of message is here. The matches have no wildcard, so a new kind does not
//! compile until it is added.

use std::time::Duration;

use serde_json::Value;
use transom_engine::test_support::shapes::{check, shape};
use transom_engine::{
    ChatPrompt, Constraint, ConversationId, EmbedInput, EngineError, FillIn, FinishReason,
    GenerationParams, Grammar, Limits, LoadProgress, Logprob, MemoryNeed, MemoryUse, Message,
    ModelInfo, ModelSource, Prompt, SamplingParams, ScorePrompt, Section, Stats, TokenEvent,
    TokenInput, TokenLogprobs, TokenPiece, ToolCall, ToolCallDelta, ToolChoice, Trim, Truncation,
    UnsupportedFeature,
};
use transom_engine_host::wire::{
    Command, JobId, JobSummary, LoadFootprint, PROTOCOL, Report, Request, UnloadFootprint,
};

use transom_engine_host::{SavedConversation, SavedFolder, StateKey};

const JOB: JobId = JobId(1);

fn text() -> String {
    "text".to_owned()
}

fn logprob() -> Logprob {
    Logprob {
        token: 1,
        bytes: vec![1],
        logprob: 1.0,
    }
}

fn requests() -> Vec<Request> {
    let call = ToolCall::new("id", "name", Value::Null);
    let called = Message {
        tool_calls: vec![call.clone()],
        ..Message::assistant("text")
    };
    let prompts = [
        Prompt::Chat(ChatPrompt {
            messages: vec![
                Message::user("text"),
                called,
                Message::tool_result(&call, "text"),
            ],
            enable_thinking: Some(true),
            tools: vec![Value::Null],
            tool_choice: ToolChoice::Named(text()),
            single_tool_call: true,
            continue_final_message: false,
        }),
        Prompt::Text(text()),
        Prompt::Tokens(vec![1]),
        Prompt::FillIn(FillIn {
            prefix: text(),
            suffix: text(),
        }),
    ];
    let truncations = [
        Truncation::Disabled,
        Truncation::DropOldest {
            response_tokens: 1,
            context_limit: Some(1),
        },
    ];
    let request = |(prompt, truncation): (&Prompt, &Truncation)| Request {
        prompt: prompt.clone(),
        truncation: *truncation,
        params: GenerationParams {
            constraint: Some(Constraint::on_answer(Grammar::JsonSchema(Value::Null))),
            score: Some(ScorePrompt {
                tokens: vec![vec![1]],
            }),
            ..GenerationParams::default()
        },
    };
    let pairs = prompts.iter().zip(truncations.iter().cycle());
    pairs.map(request).collect()
}

fn saved_conversation() -> SavedConversation {
    SavedConversation {
        id: Some(ConversationId(1)),
        key: StateKey::random().expect("random numbers"),
        files: vec![text()],
        n_tokens: 1,
    }
}

fn commands() -> Vec<Command> {
    let source = ModelSource {
        path: "path".into(),
    };
    let limits = Limits {
        draft: Some(source.clone()),
        ..Limits::default()
    };
    let saved = SavedFolder {
        path: "path".into(),
        prefix: text(),
        conversations: vec![saved_conversation()],
    };
    let mut all = vec![
        Command::Hello { protocol: PROTOCOL },
        Command::Measure {
            source: source.clone(),
            limits: limits.clone(),
        },
        Command::Load {
            source,
            limits,
            saved: Some(saved),
        },
        Command::Stop {
            job: Some(JOB),
            reason: FinishReason::Shed,
        },
        Command::Trim {
            trim: Trim::KeepConversation,
        },
        Command::Trim {
            trim: Trim::Everything,
        },
        Command::Forget {
            conversation: Some(ConversationId(1)),
        },
        Command::Save { max_bytes: 1 },
        Command::Unload { save: Some(1) },
        Command::Ping { nonce: 1 },
        Command::Embed {
            job: JOB,
            inputs: vec![EmbedInput::Text(text()), EmbedInput::Tokens(vec![1])],
        },
        Command::Count {
            job: JOB,
            prompt: Box::new(Prompt::Text(text())),
        },
        Command::Tokenize {
            job: JOB,
            input: Box::new(TokenInput::Text {
                text: text(),
                add_special: true,
                parse_special: false,
            }),
        },
        Command::Tokenize {
            job: JOB,
            input: Box::new(TokenInput::Tokens(vec![1])),
        },
    ];
    let generate = |request| Command::Generate {
        job: JOB,
        request: Box::new(request),
    };
    all.extend(requests().into_iter().map(generate));
    for command in &all {
        match command {
            Command::Hello { .. }
            | Command::Measure { .. }
            | Command::Load { .. }
            | Command::Generate { .. }
            | Command::Embed { .. }
            | Command::Count { .. }
            | Command::Tokenize { .. }
            | Command::Stop { .. }
            | Command::Trim { .. }
            | Command::Forget { .. }
            | Command::Save { .. }
            | Command::Unload { .. }
            | Command::Ping { .. } => {}
        }
    }
    all
}

fn features() -> Vec<UnsupportedFeature> {
    let all = vec![
        UnsupportedFeature::Architecture { name: text() },
        UnsupportedFeature::Quantization { name: text() },
        UnsupportedFeature::Format,
        UnsupportedFeature::Tokenizer,
        UnsupportedFeature::SpecialTokens,
        UnsupportedFeature::Purpose,
        UnsupportedFeature::Other,
    ];
    for feature in &all {
        match feature {
            UnsupportedFeature::Architecture { .. }
            | UnsupportedFeature::Quantization { .. }
            | UnsupportedFeature::Format
            | UnsupportedFeature::Tokenizer
            | UnsupportedFeature::SpecialTokens
            | UnsupportedFeature::Purpose
            | UnsupportedFeature::Other => {}
        }
    }
    all
}

fn errors() -> Vec<EngineError> {
    let mut all = vec![
        EngineError::NotFound {
            path: "path".into(),
            what: text(),
            hint: text(),
        },
        EngineError::BadFile {
            path: "path".into(),
            reason: text(),
        },
    ];
    let unsupported = |feature| EngineError::unsupported("path", feature, text());
    all.extend(features().into_iter().map(unsupported));
    all.extend([
        EngineError::Template { reason: text() },
        EngineError::InvalidConstraint {
            path: text(),
            keyword: text(),
            message: text(),
        },
        EngineError::ConstraintFailed { message: text() },
        EngineError::EmptyPrompt,
        EngineError::PromptTooLong {
            prompt_tokens: 1,
            context_length: 1,
        },
        EngineError::InvalidParameter {
            name: text().into(),
            value: text(),
            expected: text().into(),
        },
        EngineError::OutOfMemory {
            path: "path".into(),
            needed_bytes: 1,
            available_bytes: 1,
        },
        EngineError::Canceled,
        EngineError::Backend {
            during: text(),
            message: text(),
        },
    ]);
    all
}

fn reports() -> Vec<Report> {
    let memory = MemoryUse::default();
    let info = ModelInfo {
        name: text(),
        architecture: text(),
        engine: text(),
        n_parameters: 1,
        stored_as: text(),
        computed_as: text(),
        context_length: 1,
        vocab_size: 1,
        has_chat_template: true,
        draft: Some(text()),
        recommended_sampling: SamplingParams::default(),
    };
    let progress = LoadProgress {
        done_bytes: 1,
        total_bytes: 1,
    };
    let events = [
        TokenEvent::Started {
            prompt_tokens: 1,
            cached_tokens: 1,
            dropped_messages: 1,
            unconstrained_tools: vec![text()],
        },
        TokenEvent::Prefill { done: 1, total: 1 },
        TokenEvent::Text {
            section: Section::Answer,
            text: text(),
            generated_tokens: 1,
            logprobs: Vec::new(),
        },
        TokenEvent::Text {
            section: Section::Answer,
            text: text(),
            generated_tokens: 1,
            logprobs: vec![TokenLogprobs {
                chosen: logprob(),
                top: vec![logprob()],
            }],
        },
        TokenEvent::ToolCall {
            index: 1,
            delta: ToolCallDelta::Begin {
                id: text(),
                name: text(),
            },
            generated_tokens: 1,
        },
        TokenEvent::ToolCall {
            index: 1,
            delta: ToolCallDelta::Arguments(text()),
            generated_tokens: 1,
        },
        TokenEvent::ToolCall {
            index: 1,
            delta: ToolCallDelta::End,
            generated_tokens: 1,
        },
        TokenEvent::Pieces {
            pieces: vec![TokenPiece {
                id: 1,
                bytes: vec![1],
            }],
        },
    ];
    let summary = JobSummary {
        reason: FinishReason::Stop,
        stats: Stats {
            matched_stop: Some(1),
            mask_time: Duration::from_secs(1),
            ..Stats::default()
        },
        memory,
    };
    let mut all = vec![
        Report::Hello { protocol: PROTOCOL },
        Report::Measured {
            result: Ok(MemoryNeed::default()),
        },
        Report::LoadProgress { progress },
        Report::Loaded {
            info: Box::new(info),
            memory,
            footprint: Some(LoadFootprint {
                before_bytes: 1,
                loaded_bytes: 1,
            }),
            saved_tokens: 1,
        },
        Report::JobEnded {
            job: JOB,
            result: Ok(summary),
        },
        Report::Embedded {
            job: JOB,
            n_tokens: 1,
            vector: vec![1.0],
        },
        Report::Trimmed { bytes: 1, memory },
        Report::Saved {
            conversation: saved_conversation(),
        },
        Report::SaveEnded,
        Report::Unloaded {
            footprint: Some(UnloadFootprint {
                loaded_bytes: 1,
                after_bytes: 1,
            }),
        },
        Report::Pong {
            nonce: 1,
            silent_seconds: 1.0,
        },
    ];
    all.extend(events.map(|event| Report::Event { job: JOB, event }));
    all.extend([
        Report::Footprint {
            bytes: 1,
            memory: MemoryUse::default(),
        },
        Report::MemoryNotice,
    ]);
    let failed = |error| Report::LoadFailed { error };
    all.extend(errors().into_iter().map(failed));
    let broken = |error| Report::Broken { error };
    all.extend(errors().into_iter().take(1).map(broken));
    for report in &all {
        match report {
            Report::Hello { .. }
            | Report::Measured { .. }
            | Report::LoadProgress { .. }
            | Report::Loaded { .. }
            | Report::LoadFailed { .. }
            | Report::Event { .. }
            | Report::Embedded { .. }
            | Report::JobEnded { .. }
            | Report::Trimmed { .. }
            | Report::Saved { .. }
            | Report::SaveEnded
            | Report::Broken { .. }
            | Report::Footprint { .. }
            | Report::MemoryNotice
            | Report::Unloaded { .. }
            | Report::Pong { .. } => {}
        }
    }
    all
}

#[test]
fn messages_between_processes_change_only_with_the_protocol_number() {
    let (commands, reports) = (commands(), reports());
    let shapes: Vec<Value> = (commands.iter().map(shape))
        .chain(reports.iter().map(shape))
        .collect();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shapes.json");
    check(file.as_ref(), PROTOCOL, &shapes);
}
