//! Sessions of small models, whose responses must equal those of a fresh prefill.

use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use transom_catalog::KvType;
use transom_catalog::test_support::{Quantization, TinyModel};
use transom_engine::generation::{Decode, NextToken, Prefill};
use transom_engine::saved::new_blocks;
use transom_engine::speculation::Speculation;
use transom_engine::test_support::SavedCopy;
use transom_engine::{
    ConversationId, EngineError, JobControl, ModelInfo, ResponseConstraint, Sampler,
    SamplingParams, SavedConversation,
};

use crate::decoder::{DecodeOptions, Decoder};
use crate::native::{self, Model, ThreadPool};
use crate::session::{CacheConfig, Session, SessionPrompt};
use crate::state;

/// A small model with random weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TestModel {
    pub(crate) name: &'static str,
    load: fn() -> Option<Model>,
}

/// Maximum difference of logits, relative to the largest: steps of other lengths round differently.
pub(crate) const TOLERANCE: f32 = 0.01;

/// All layers attend to all tokens.
pub(crate) const DENSE: TestModel = TestModel {
    name: "dense",
    load: || load("models/llama-f16.gguf"),
};

/// The same with heads of 64 values, which llama.cpp rotates before it stores them with fewer bits.
pub(crate) const WIDE: TestModel = TestModel {
    name: "wide",
    load: || {
        let file = TinyModel::default().write_temporary();
        Model::load(&file.path, true, None, &mut |_| true)
    },
};

/// Every second layer has a sliding window of 64 tokens.
pub(crate) const WINDOWED: TestModel = TestModel {
    name: "windowed",
    load: || {
        let model = TinyModel {
            architecture: "gemma3",
            width: 128,
            ff_width: 128,
            context_length: 512,
            quantization: Quantization::F16,
            ..TinyModel::default()
        };
        assert_eq!(model.sliding_window(), 64);
        Model::load(&model.write_temporary().path, true, None, &mut |_| true)
    },
};

/// Every second layer has a recurrent state.
pub(crate) const HYBRID: TestModel = TestModel {
    name: "hybrid",
    load: || load("qwen3next-f16.gguf"),
};

fn load(fixture: &str) -> Option<Model> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    Model::load(&fixtures.join(fixture), true, None, &mut |_| true)
}

pub(crate) const ALL: [TestModel; 3] = [DENSE, WINDOWED, HYBRID];

/// Creates an empty session of a model.
pub(crate) fn session(test_model: TestModel, context_length: usize) -> Session {
    native::init();
    let model = Rc::new((test_model.load)().expect("it loads"));
    session_of(model, context_length, 0, TestCache::default())
}

/// The type of keys and values, and whether attention is computed without the matrix of scores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TestCache {
    pub(crate) kind: KvType,
    pub(crate) is_flash: bool,
}

impl Default for TestCache {
    fn default() -> Self {
        Self {
            kind: KvType::F16,
            is_flash: false,
        }
    }
}

fn session_of(
    model: Rc<Model>,
    context_length: usize,
    parked_bytes: u64,
    cache: TestCache,
) -> Session {
    let threads = ThreadPool::new(1).expect("a thread");
    let config = CacheConfig {
        cache_type: cache.kind,
        flash_attention: cache.is_flash,
        prefill_chunk: 512,
        context_length,
        bytes_per_token: 0,
        state_bytes: 0,
        can_shift: true,
        is_for_long_text: false,
        parked_bytes,
        min_sharing: usize::MAX,
    };
    Session::new(model, Rc::new(threads), config)
}

/// Returns `n` ordinary pseudorandom tokens from a seed.
pub(crate) fn random_tokens(seed: u32, n: usize) -> Vec<u32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let next = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        20 + state % 230
    });
    next.take(n).collect()
}

/// A prompt that belongs to no conversation.
pub(crate) fn without_conversation(prompt: &[u32]) -> SessionPrompt<'_> {
    SessionPrompt {
        tokens: prompt,
        conversation: None,
        dropped_messages: 0,
        may_shift: false,
        is_private: false,
    }
}

/// A prompt of conversation number `id`, with the parameters that the app uses.
pub(crate) fn in_conversation(
    id: u64,
    prompt: &[u32],
    dropped_messages: usize,
) -> SessionPrompt<'_> {
    SessionPrompt {
        tokens: prompt,
        conversation: Some(ConversationId(id)),
        dropped_messages,
        may_shift: true,
        is_private: false,
    }
}

/// A session under test, and another one that computes everything from the start.
pub(crate) struct TestSession {
    pub(crate) session: Session,
    fresh: Session,
    test_model: TestModel,
}

impl TestSession {
    /// Creates one that parks no conversation.
    pub(crate) fn new(test_model: TestModel, context_length: usize) -> Self {
        Self::with_parked(test_model, context_length, 0)
    }

    /// Creates one that parks up to `parked_bytes` bytes of other conversations.
    pub(crate) fn with_parked(
        test_model: TestModel,
        context_length: usize,
        parked_bytes: u64,
    ) -> Self {
        Self::with_cache(
            test_model,
            context_length,
            parked_bytes,
            TestCache::default(),
        )
    }

    /// The same with another KV cache.
    pub(crate) fn with_cache(
        test_model: TestModel,
        context_length: usize,
        parked_bytes: u64,
        cache: TestCache,
    ) -> Self {
        native::init();
        let model = Rc::new((test_model.load)().expect("it loads"));
        Self {
            session: session_of(model.clone(), context_length, parked_bytes, cache),
            fresh: session_of(model, context_length, 0, cache),
            test_model,
        }
    }

    /// Generates `n_tokens` tokens greedily, at least two. Returns them, and the number of cached
    /// prompt tokens.
    pub(crate) fn answer(
        &mut self,
        prompt: SessionPrompt<'_>,
        n_tokens: usize,
    ) -> (Vec<u32>, usize) {
        answer(&mut self.session, prompt, n_tokens)
    }

    /// The same, and compares the logits of the last token with a fresh prefill.
    pub(crate) fn answer_and_check(
        &mut self,
        prompt: SessionPrompt<'_>,
        n_tokens: usize,
    ) -> (Vec<u32>, usize) {
        let (tokens, n_cached) = self.answer(prompt, n_tokens);
        let all = [prompt.tokens, &tokens[..n_tokens - 1]].concat();
        assert_eq!(self.session.tokens(), all, "{}", self.test_model.name);
        self.check(&all);
        (tokens, n_cached)
    }

    /// Compares the logits of the last step, of one token, with a fresh prefill of `tokens`.
    fn check(&mut self, tokens: &[u32]) {
        let expected = logits_from_scratch(&mut self.fresh, tokens);
        let logits = self.session.logits(0).expect("the last step gave some");
        let difference = difference(logits, &expected);
        assert!(
            difference <= TOLERANCE,
            "{}, after {} tokens: the logits differ by {difference} of the largest",
            self.test_model.name,
            tokens.len()
        );
    }

    /// Saves the session, and restores it after releasing its cache.
    pub(crate) fn save_and_restore(&mut self) {
        let copy = self.save(0);
        self.session.release();
        assert_eq!(self.restore(&copy), Ok(()));
    }

    /// Saves the `index`-th conversation.
    pub(crate) fn save(&self, index: usize) -> SavedCopy {
        let n_tokens = self.session.conversations()[index].tokens.len();
        let blocks = match self.session.has_blocks() {
            true => new_blocks(0..n_tokens),
            false => Vec::new(),
        };
        self.save_in(index, blocks)
    }

    /// Saves the `index`-th conversation in these blocks.
    pub(crate) fn save_in(&self, index: usize, blocks: Vec<Range<usize>>) -> SavedCopy {
        let info = info(self.session.config().context_length);
        let save_block = |tokens: Range<usize>| {
            let block = state::save_block(&self.session, &info, index, tokens.clone());
            (tokens, block.expect("there is memory"))
        };
        let conversation = self.session.conversations()[index];
        SavedCopy {
            id: conversation.id,
            tokens: conversation.tokens.clone(),
            head: state::save_head(&self.session, &info, index).expect("there is memory"),
            blocks: blocks.into_iter().map(save_block).collect(),
        }
    }

    pub(crate) fn restore(&mut self, copy: &SavedCopy) -> Result<(), EngineError> {
        let info = info(self.session.config().context_length);
        let blocks: Vec<_> = copy
            .blocks
            .iter()
            .map(|(tokens, _)| tokens.clone())
            .collect();
        let saved = SavedConversation {
            id: copy.id,
            tokens: &copy.tokens,
            head: &copy.head,
            blocks: &blocks,
            read_block: &mut |index| Ok(copy.blocks[index].1.clone()),
        };
        state::restore(&mut self.session, &info, saved)
    }
}

/// Generates `n_tokens` tokens greedily.
pub(crate) fn answer(
    session: &mut Session,
    prompt: SessionPrompt<'_>,
    n_tokens: usize,
) -> (Vec<u32>, usize) {
    let mut decoder = decoder(session, prompt);
    let control = JobControl::new();
    let n_cached = decoder.n_cached();
    let mut prefill = Prefill::new(&mut decoder, prompt.tokens);
    while !prefill.is_done() {
        let is_read = prefill.step(&mut decoder, prompt.tokens, 100, &control);
        assert_eq!(is_read, Ok(true));
    }
    let tokens = (0..n_tokens).map(|at| match decoder.next(n_tokens - at, &control) {
        Ok(NextToken::Token(token)) => token,
        other => panic!("{other:?} instead of token {at}"),
    });
    let tokens = tokens.collect();
    decoder.finish();
    (tokens, n_cached)
}

/// Creates a greedy decoder that shifts a full context.
pub(crate) fn decoder<'a>(
    session: &'a mut Session,
    prompt: SessionPrompt<'_>,
) -> Decoder<&'a mut Session, &'a mut Speculation> {
    let params = SamplingParams {
        temperature: 0.0,
        ..SamplingParams::default()
    };
    let sampler = Sampler::new(params, prompt.tokens).expect("the parameters are valid");
    let options = DecodeOptions {
        n_kept: prompt.may_shift.then_some(20),
        ..DecodeOptions::default()
    };
    let constraint = ResponseConstraint::default();
    session.reuse(prompt).expect("there is memory");
    Decoder::new(session, None, sampler, constraint, prompt.tokens, options)
}

/// Returns the logits after `tokens`, computed from the start.
pub(crate) fn logits_from_scratch(session: &mut Session, tokens: &[u32]) -> Vec<f32> {
    session.truncate(0);
    let mut last = 0;
    for part in tokens.chunks(512) {
        let is_read = session.append(part, 1, &JobControl::new());
        assert_eq!(is_read, Ok(true));
        last = part.len() - 1;
    }
    session.logits(last).expect("it was asked for").to_vec()
}

/// Returns the largest difference of two rows, relative to the largest logit.
pub(crate) fn difference(a: &[f32], b: &[f32]) -> f32 {
    let largest = b.iter().fold(0.0_f32, |most, logit| most.max(logit.abs()));
    let pairs = a.iter().zip(b);
    let differences = pairs.map(|(a, b)| (a - b).abs() / largest);
    differences.fold(0.0, f32::max)
}

fn info(context_length: usize) -> ModelInfo {
    ModelInfo {
        name: "test_model".to_owned(),
        architecture: "test_model".to_owned(),
        engine: "llama.cpp".to_owned(),
        n_parameters: 1,
        stored_as: String::new(),
        computed_as: String::new(),
        context_length,
        vocab_size: 1 << 20,
        has_chat_template: false,
        draft: None,
        recommended_sampling: SamplingParams::default(),
    }
}
