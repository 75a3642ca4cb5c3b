//! The starter model with its draft model: responses are the same as without.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use transom_catalog::test_support::convert::{Quantization, convert};
use transom_engine::test_support::Recorder;
use transom_engine::{
    ChatPrompt, Engine, FinishReason, GenerationParams, JobControl, Limits, LoadedModel, Message,
    ModelSource, Prompt, Role, SamplingParams, Stats, TokenEvent, Trim,
};
use transom_engine_llama::LlamaEngine;

type Model = Box<dyn LoadedModel>;

fn greedy() -> GenerationParams {
    GenerationParams {
        sampling: SamplingParams {
            temperature: 0.0,
            ..SamplingParams::default()
        },
        max_tokens: Some(100),
        ..GenerationParams::default()
    }
}

/// Both models as GGUF, in a temporary folder.
struct Pair {
    folder: TempDir,
}

impl Pair {
    fn new() -> Self {
        let pair = Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let starter = root.join("assets/starter");
        let with_tokenizer = pair.folder.path().join("draft");
        std::fs::create_dir(&with_tokenizer).expect("a folder");
        let of_draft = root.join("tests/starter-draft");
        for (from, name) in [
            (&of_draft, "config.json"),
            (&of_draft, "model.safetensors"),
            (&starter, "tokenizer.json"),
            (&starter, "tokenizer_config.json"),
            (&starter, "special_tokens_map.json"),
            (&starter, "generation_config.json"),
        ] {
            std::fs::copy(from.join(name), with_tokenizer.join(name)).expect("the file exists");
        }
        for (source, path) in [(&starter, pair.main()), (&with_tokenizer, pair.draft())] {
            convert(source, &path, Quantization::F16).expect("the model is converted");
        }
        pair
    }

    fn main(&self) -> PathBuf {
        self.folder.path().join("starter.gguf")
    }

    fn draft(&self) -> PathBuf {
        self.folder.path().join("draft.gguf")
    }
}

fn limits(draft: Option<PathBuf>) -> Limits {
    Limits {
        draft: draft.map(|path| ModelSource { path }),
        ..Limits::default()
    }
}

fn load(path: PathBuf, draft: Option<PathBuf>) -> Model {
    let control = JobControl::new();
    let engine = LlamaEngine::new().with_threads(1);
    let loaded = engine.load(&ModelSource { path }, &limits(draft), &control, &mut |_| {});
    loaded.unwrap_or_else(|error| panic!("{error}"))
}

/// Returns a question, whose answer the starter is so sure of that rounding does not change it.
fn chat(question: &str) -> Prompt {
    Prompt::Chat(ChatPrompt {
        messages: vec![Message::new(Role::User, question)],
        ..ChatPrompt::default()
    })
}

const QUESTION: &str = "What is the capital of France?";

/// Returns a text that is so short that the draft model needs no separate read. So a draft is tried,
/// whatever the speed of this machine is.
fn short() -> Prompt {
    Prompt::Text("The sun".to_owned())
}

/// Returns the counts of a response to [`short`].
fn respond_to_short(model: &mut Model, params: GenerationParams) -> Stats {
    let params = GenerationParams {
        ignore_end_of_text: true,
        ..params
    };
    let (_, reason, stats) = respond(model, &short(), &params, &JobControl::new());
    assert_eq!(
        (reason, stats.generated_tokens),
        (FinishReason::Length, 100)
    );
    assert!(stats.accepted_tokens <= stats.drafted_tokens, "{stats:?}");
    stats
}

fn respond(
    model: &mut Model,
    prompt: &Prompt,
    params: &GenerationParams,
    control: &JobControl,
) -> (Recorder, FinishReason, Stats) {
    let prompt = model.prepare(prompt);
    let mut recorder = Recorder::default();
    let ended = model.generate(
        &prompt.expect("the prompt fits"),
        params,
        control,
        &mut recorder,
    );
    let (reason, stats) = ended.expect("the response succeeds");
    (recorder, reason, stats)
}

#[test]
fn a_draft_model_drafts_and_changes_no_response() {
    let pair = Pair::new();
    let mut model = load(pair.main(), Some(pair.draft()));
    assert_eq!(model.info().draft.as_deref(), Some("draft"));
    assert!(respond_to_short(&mut model, greedy()).drafted_tokens > 0);
    for question in [QUESTION, "Hello!", "What can you do?"] {
        let refused = GenerationParams {
            speculate: false,
            ..greedy()
        };
        let control = JobControl::new();
        let (plain, expected, stats) = respond(&mut model, &chat(question), &refused, &control);
        assert_eq!(stats.drafted_tokens, 0);
        // The second response continues the caches of the first.
        for _ in 0..2 {
            let (drafted, reason, _) = respond(&mut model, &chat(question), &greedy(), &control);
            assert_eq!(drafted.tokens, plain.tokens, "{question}");
            assert_eq!(reason, expected);
        }
    }
}

#[test]
fn a_seed_turns_the_draft_model_off() {
    let pair = Pair::new();
    let mut model = load(pair.main(), Some(pair.draft()));
    let mut params = greedy();
    params.sampling.seed = Some(1);
    assert_eq!(respond_to_short(&mut model, params).drafted_tokens, 0);
}

#[test]
fn a_trim_releases_the_cache_of_the_draft_model() {
    let pair = Pair::new();
    let mut model = load(pair.main(), Some(pair.draft()));
    let control = JobControl::new();
    let (first, ..) = respond(&mut model, &chat(QUESTION), &greedy(), &control);
    for trim in [Trim::KeepConversation, Trim::Everything] {
        respond_to_short(&mut model, greedy());
        let before = model.memory();
        let n_freed = model.trim(trim);
        let after = model.memory();
        assert!(n_freed > 0, "{trim:?}");
        assert_eq!(before.total_bytes() - after.total_bytes(), n_freed);
        assert_eq!(before.weight_bytes, after.weight_bytes);
        let (again, ..) = respond(&mut model, &chat(QUESTION), &greedy(), &control);
        assert_eq!(again.tokens, first.tokens);
    }
}

#[test]
fn a_canceled_response_leaves_both_caches_consistent() {
    let pair = Pair::new();
    let mut model = load(pair.main(), Some(pair.draft()));
    let (expected, ..) = respond(&mut model, &chat(QUESTION), &greedy(), &JobControl::new());
    let canceled = JobControl::new();
    let mut n_events = 0;
    let mut sink = |_: TokenEvent| {
        n_events += 1;
        if n_events == 20 {
            canceled.cancel();
        }
    };
    let params = GenerationParams {
        ignore_end_of_text: true,
        ..greedy()
    };
    let prompt = model.prepare(&short()).expect("the prompt fits");
    let ended = model.generate(&prompt, &params, &canceled, &mut sink);
    let (reason, _) = ended.expect("a canceled response is no error");
    assert_eq!(reason, FinishReason::Canceled);
    let (again, ..) = respond(&mut model, &chat(QUESTION), &greedy(), &JobControl::new());
    assert_eq!(again.tokens, expected.tokens);
}

#[test]
fn the_memory_need_is_the_sum_of_both() {
    let pair = Pair::new();
    let engine = LlamaEngine::new();
    let need = |path: PathBuf, draft: Option<PathBuf>| {
        let need = engine.memory_need(&ModelSource { path }, &limits(draft));
        need.expect("both can be read")
    };
    let alone = need(pair.main(), None);
    let both = need(pair.main(), Some(pair.draft()));
    let of_draft = need(pair.draft(), None);
    assert_eq!(
        both.total_bytes(),
        alone.total_bytes() + of_draft.total_bytes()
    );
    assert_eq!(both.context_length, alone.context_length);
}

#[test]
fn a_draft_model_that_cannot_draft_is_left_out() {
    let pair = Pair::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for unusable in [
        fixtures.join("models/llama-f16.gguf"),
        fixtures.join("qwen3next-f16.gguf"),
        pair.folder.path().join("missing.gguf"),
        pair.folder.path().join("draft"),
    ] {
        let model = load(pair.main(), Some(unusable));
        assert_eq!(model.info().draft, None);
    }
}
