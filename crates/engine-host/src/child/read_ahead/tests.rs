use std::ops::Range;

use transom_engine::test_support::ScriptedEngine;
use transom_engine::{
    CachedConversation, ConversationId, Engine, Limits, MemoryUse, ModelInfo, ModelSource,
    SamplingParams, SavableCache, SavedConversation, ToolCallDelta, Trim,
};

use super::*;

/// A model whose tokens are bytes, and whose KV cache has the last prompt.
struct Recorder {
    info: ModelInfo,
    cached: Vec<u32>,
    /// The KV cache can rewind to any position, or only to the start.
    rewinds: bool,
    /// Reading is stopped when the prompt was read.
    is_stopped_late: bool,
    /// The prompts that were read, and whether they keep checkpoints.
    read: Vec<(String, bool)>,
}

impl Recorder {
    fn new(cached: &str) -> Self {
        let source = ModelSource {
            path: "model".into(),
        };
        let engine = ScriptedEngine::default();
        let limits = Limits::default();
        let model = engine.load(&source, &limits, &JobControl::new(), &mut |_| ());
        Self {
            info: model.expect("it loads").info().clone(),
            cached: cached.bytes().map(u32::from).collect(),
            rewinds: true,
            is_stopped_late: false,
            read: Vec::new(),
        }
    }
}

impl LoadedModel for Recorder {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn prepare(&self, prompt: &Prompt) -> Result<PreparedPrompt, EngineError> {
        let Prompt::Chat(chat) = prompt else {
            return Err(EngineError::EmptyPrompt);
        };
        let messages = chat.messages.iter();
        let messages = messages.map(|it| format!("<{}>{}", it.role.as_str(), it.content));
        let text = messages.collect::<String>() + "<assistant>";
        Ok(PreparedPrompt::new(text.bytes().map(u32::from).collect()))
    }

    fn generate(
        &mut self,
        prompt: &PreparedPrompt,
        params: &GenerationParams,
        control: &JobControl,
        sink: &mut dyn transom_engine::TokenSink,
    ) -> Result<(FinishReason, Stats), EngineError> {
        assert_eq!(params.max_tokens, Some(1));
        assert_eq!(params.prefill_chunk, Some(STEP_TOKENS));
        assert_eq!(params.conversation, Some(ConversationId(7)));
        let bytes = prompt.tokens.iter().map(|token| *token as u8).collect();
        let text = String::from_utf8(bytes).expect("it was text");
        let cached_tokens = match self.rewinds {
            true => common_prefix_len(&self.cached, &prompt.tokens),
            false => 0,
        };
        sink.on_event(TokenEvent::Started {
            prompt_tokens: prompt.tokens.len(),
            cached_tokens,
            dropped_messages: 0,
            unconstrained_tools: Vec::new(),
        });
        if let Some(reason) = control.stop_reason() {
            return Ok((reason, Stats::default()));
        }
        sink.on_event(TokenEvent::Prefill {
            done: prompt.tokens.len(),
            total: prompt.tokens.len(),
        });
        self.cached = prompt.tokens.clone();
        self.read.push((text, prompt.keeps_checkpoints));
        if self.is_stopped_late {
            control.cancel();
        }
        let reason = control.stop_reason().unwrap_or(FinishReason::Length);
        Ok((reason, Stats::default()))
    }

    fn trim(&mut self, _: Trim) -> u64 {
        0
    }

    fn memory(&self) -> MemoryUse {
        MemoryUse::default()
    }

    fn savable_cache(&mut self) -> Option<&mut dyn SavableCache> {
        Some(self)
    }
}

impl SavableCache for Recorder {
    fn conversations(&self) -> Vec<CachedConversation<'_>> {
        vec![CachedConversation {
            id: Some(ConversationId(7)),
            tokens: &self.cached,
        }]
    }

    fn has_blocks(&self) -> bool {
        false
    }

    fn save_block(&self, _: usize, _: Range<usize>) -> Result<Vec<u8>, EngineError> {
        Ok(Vec::new())
    }

    fn save_head(&self, _: usize) -> Result<Vec<u8>, EngineError> {
        Ok(Vec::new())
    }

    fn restore(&mut self, _: SavedConversation<'_>) -> Result<(), EngineError> {
        Ok(())
    }
}

const JOB: JobId = JobId(3);
const CACHED: &str = "<user>Hello<assistant>I think.Hi.";

fn request() -> Request {
    Request {
        prompt: Prompt::Chat(ChatPrompt {
            messages: vec![Message::user("Hello")],
            ..ChatPrompt::default()
        }),
        truncation: Truncation::Disabled,
        params: GenerationParams {
            read_ahead: true,
            conversation: Some(ConversationId(7)),
            ..GenerationParams::default()
        },
    }
}

fn text(section: Section, text: &str) -> TokenEvent {
    TokenEvent::Text {
        section,
        text: text.to_owned(),
        generated_tokens: 1,
        logprobs: Vec::new(),
    }
}

/// Records a response of 12 tokens to `request`, with these events between its parts.
fn after(request: &Request, events: &[TokenEvent], reason: FinishReason) -> ReadAhead {
    let mut ahead = ReadAhead::default();
    ahead.begin(JOB, request);
    ahead.on_event(JOB, &text(Section::Reasoning, "I think."));
    ahead.on_event(JOB, &text(Section::Answer, "Hi"));
    ahead.on_event(JobId(4), &text(Section::Answer, "another response"));
    for event in events {
        ahead.on_event(JOB, event);
    }
    ahead.on_event(JOB, &text(Section::Answer, "."));
    ahead.end(JobId(4), None);
    assert!(!ahead.is_due(), "the response is not complete");
    let stats = Stats {
        generated_tokens: 12,
        ..Stats::default()
    };
    ahead.end(JOB, Some((reason, &stats)));
    ahead
}

#[test]
fn the_next_turn_is_read_up_to_what_the_user_writes() {
    let mut model = Recorder::new(CACHED);
    let mut ahead = after(&request(), &[], FinishReason::Stop);
    assert!(ahead.is_due());
    assert_eq!(ahead.read(&mut model, &JobControl::new()), Ok(()));
    let expected = "<user>Hello<assistant>Hi.<user>".to_owned();
    assert_eq!(model.read, [(expected, true)]);
    assert!(!ahead.is_due());
    assert_eq!(ahead.read(&mut model, &JobControl::new()), Ok(()));
    assert_eq!(model.read.len(), 1);
}

#[test]
fn nothing_is_read_if_the_next_turn_is_not_known() {
    let with = |change: &dyn Fn(&mut Request)| {
        let mut request = request();
        change(&mut request);
        after(&request, &[], FinishReason::Stop)
    };
    let of_seed = with(&|it| {
        it.params.sampling = SamplingParams {
            seed: Some(1),
            ..SamplingParams::default()
        };
    });
    let call = TokenEvent::ToolCall {
        index: 0,
        delta: ToolCallDelta::End,
        generated_tokens: 2,
    };
    let continues = |it: &mut Request| {
        if let Prompt::Chat(chat) = &mut it.prompt {
            chat.continue_final_message = true;
        }
    };
    for (case, ahead) in [
        ("a seed", of_seed),
        ("not asked for", with(&|it| it.params.read_ahead = false)),
        (
            "a text",
            with(&|it| it.prompt = Prompt::Text("x".to_owned())),
        ),
        ("an unfinished message", with(&continues)),
        ("a tool", after(&request(), &[call], FinishReason::Stop)),
        ("too long", after(&request(), &[], FinishReason::Length)),
        ("stopped", after(&request(), &[], FinishReason::Canceled)),
    ] {
        assert!(!ahead.is_due(), "{case}");
    }
    let shifted = Stats {
        shifted_tokens: 1,
        ..Stats::default()
    };
    let mut ahead = ReadAhead::default();
    ahead.begin(JOB, &request());
    ahead.end(JOB, Some((FinishReason::Stop, &shifted)));
    assert!(!ahead.is_due(), "a context shift");
    let mut continued = after(&request(), &[], FinishReason::Stop);
    let mut seeded = request();
    seeded.params.sampling.seed = Some(1);
    continued.begin(JobId(5), &seeded);
    assert!(!continued.is_due(), "a turn that is not read ahead");
    for (id, is_due) in [(Some(ConversationId(8)), true), (None, false)] {
        let mut beside = after(&request(), &[], FinishReason::Stop);
        seeded.params.conversation = id;
        beside.begin(JobId(5), &seeded);
        assert_eq!(beside.is_due(), is_due, "beside {id:?}");
    }
    let without_id = with(&|it| it.params.conversation = None);
    assert!(
        !without_id.is_due(),
        "an answer after reasoning, without an id"
    );
    let mut cleared = after(&request(), &[], FinishReason::Stop);
    cleared.clear();
    assert!(!cleared.is_due());
}

#[test]
fn what_a_task_has_stopped_is_read_later() {
    let mut model = Recorder::new(CACHED);
    let mut ahead = after(&request(), &[], FinishReason::Stop);
    let stopped = JobControl::new();
    stopped.cancel();
    assert_eq!(ahead.read(&mut model, &stopped), Ok(()));
    assert!(model.read.is_empty());
    assert!(ahead.is_due());
    assert_eq!(ahead.read(&mut model, &JobControl::new()), Ok(()));
    assert_eq!(model.read.len(), 1);
    assert!(!ahead.is_due());
}

#[test]
fn a_conversation_that_is_not_in_the_kv_cache_is_not_read_from_the_start() {
    let mut model = Recorder::new("<user>Another question");
    let mut long = request();
    if let Prompt::Chat(chat) = &mut long.prompt {
        chat.messages = vec![Message::user("Hello".repeat(100))];
    }
    let mut ahead = after(&long, &[], FinishReason::Stop);
    assert_eq!(ahead.read(&mut model, &JobControl::new()), Ok(()));
    assert!(model.read.is_empty());
    assert!(!ahead.is_due());
}

#[test]
fn a_next_turn_that_drops_other_messages_is_not_read() {
    let mut model = Recorder::new(CACHED);
    let started = TokenEvent::Started {
        prompt_tokens: 20,
        cached_tokens: 0,
        dropped_messages: 2,
        unconstrained_tools: Vec::new(),
    };
    let mut ahead = after(&request(), &[started], FinishReason::Stop);
    assert_eq!(ahead.read(&mut model, &JobControl::new()), Ok(()));
    assert!(model.read.is_empty());
    assert!(!ahead.is_due());
}

#[test]
fn a_conversation_that_the_kv_cache_cannot_rewind_to_is_not_read_from_the_start() {
    let mut model = Recorder::new(CACHED);
    model.rewinds = false;
    let mut ahead = after(&request(), &[], FinishReason::Stop);
    assert_eq!(ahead.read(&mut model, &JobControl::new()), Ok(()));
    assert!(model.read.is_empty());
    assert!(!ahead.is_due());
}

#[test]
fn what_was_read_when_a_task_came_is_not_read_again() {
    let mut model = Recorder::new(CACHED);
    model.is_stopped_late = true;
    let mut ahead = after(&request(), &[], FinishReason::Stop);
    assert_eq!(ahead.read(&mut model, &JobControl::new()), Ok(()));
    assert_eq!(model.read.len(), 1);
    assert!(!ahead.is_due());
}
