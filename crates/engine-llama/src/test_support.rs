//! Sessions of small models, and what their answers must be: what a fresh reading gives.

use std::path::Path;
use std::rc::Rc;

use tempfile::TempDir;
use transom_catalog::KvType;
use transom_catalog::test_support::{Packing, TinyModel};
use transom_engine::generation::{Decode, Next};
use transom_engine::{ConversationId, JobControl, ModelInfo, Sampler, SamplingParams};

use crate::decoder::{Decoder, Overflow};
use crate::device::Device;
use crate::native::{self, Model, Threads};
use crate::session::{Plan, Reading, Session};
use crate::state;

/// A small model with random weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tiny {
    pub(crate) name: &'static str,
    load: fn() -> Option<Model>,
}

/// By how much logits may differ, as a share of the largest: steps of other lengths round
/// differently.
pub(crate) const TOLERANCE: f32 = 0.01;

/// All layers attend to all tokens.
pub(crate) const DENSE: Tiny = Tiny {
    name: "dense",
    load: || load("models/llama-f16.gguf"),
};

/// Every second layer sees a window of 64 tokens.
pub(crate) const WINDOWED: Tiny = Tiny {
    name: "windowed",
    load: || {
        let model = TinyModel {
            architecture: "gemma3",
            width: 128,
            ff_width: 128,
            context_length: 512,
            packing: Packing::F16,
            ..TinyModel::default()
        };
        assert_eq!(model.sliding_window(), 64);
        Model::load(&model.write_temporary().path, true, &mut |_| true)
    },
};

/// Every second layer has a recurrent state.
pub(crate) const HYBRID: Tiny = Tiny {
    name: "hybrid",
    load: || load("qwen3next-f16.gguf"),
};

fn load(fixture: &str) -> Option<Model> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    Model::load(&fixtures.join(fixture), true, &mut |_| true)
}

pub(crate) const ALL: [Tiny; 3] = [DENSE, WINDOWED, HYBRID];

/// An empty session of a model.
pub(crate) fn session(tiny: Tiny, context_length: usize) -> Session {
    native::begin();
    session_of(Rc::new((tiny.load)().expect("it loads")), context_length)
}

fn session_of(model: Rc<Model>, context_length: usize) -> Session {
    let threads = Threads::new(1).expect("a thread");
    let plan = Plan {
        device: Device::Cpu,
        cache_type: KvType::F16,
        prefill_chunk: 512,
        context_length,
        token_bytes: 0,
        fixed_bytes: 0,
    };
    Session::new(model, Rc::new(threads), plan)
}

/// `n` ordinary tokens that follow no pattern, from a seed.
pub(crate) fn text(seed: u32, n: usize) -> Vec<u32> {
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
pub(crate) fn alone(prompt: &[u32]) -> Reading<'_> {
    Reading {
        prompt,
        conversation: None,
        dropped_messages: 0,
        may_shift: false,
    }
}

/// A prompt of conversation number `id`, as the app asks for its answer.
pub(crate) fn part_of(id: u64, prompt: &[u32], dropped_messages: usize) -> Reading<'_> {
    Reading {
        prompt,
        conversation: Some(ConversationId(id)),
        dropped_messages,
        may_shift: true,
    }
}

/// A session under test, and another that reads everything from the start.
pub(crate) struct Talk {
    pub(crate) session: Session,
    fresh: Session,
    tiny: Tiny,
    folder: TempDir,
}

impl Talk {
    pub(crate) fn new(tiny: Tiny, context_length: usize) -> Self {
        native::begin();
        let model = Rc::new((tiny.load)().expect("it loads"));
        Self {
            session: session_of(model.clone(), context_length),
            fresh: session_of(model, context_length),
            tiny,
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    /// Answers greedily with `n_tokens`, at least two. Returns them, and the tokens of the prompt
    /// that were not read again.
    pub(crate) fn answer(&mut self, reading: Reading<'_>, n_tokens: usize) -> (Vec<u32>, usize) {
        answer(&mut self.session, reading, n_tokens)
    }

    /// The same, and holds the logits of the last token against a fresh reading.
    pub(crate) fn turn(&mut self, reading: Reading<'_>, n_tokens: usize) -> (Vec<u32>, usize) {
        let (tokens, n_cached) = self.answer(reading, n_tokens);
        let all = [reading.prompt, &tokens[..n_tokens - 1]].concat();
        assert_eq!(self.session.tokens(), all, "{}", self.tiny.name);
        self.check(&all);
        (tokens, n_cached)
    }

    /// Holds the logits of the last step, of one token, against a fresh reading of `tokens`.
    fn check(&mut self, tokens: &[u32]) {
        let expected = read_anew(&mut self.fresh, tokens);
        let logits = self.session.logits(0).expect("the last step gave some");
        let difference = difference(logits, &expected);
        assert!(
            difference <= TOLERANCE,
            "{}, after {} tokens: the logits differ by {difference} of the largest",
            self.tiny.name,
            tokens.len()
        );
    }

    /// Saves the session, and restores it in the place of an empty one.
    pub(crate) fn save_and_restore(&mut self) {
        let path = self.folder.path().join("conversation");
        let info = info(self.session.plan().context_length);
        let n_tokens = self.session.tokens().len();
        assert_eq!(state::save(&self.session, &info, &path), Ok(n_tokens));
        self.session.give_back();
        let restored = state::restore(&mut self.session, &info, &path);
        assert_eq!(restored, Ok(n_tokens));
        std::fs::remove_file(&path).expect("it is there");
    }
}

/// Answers greedily with `n_tokens`.
pub(crate) fn answer(
    session: &mut Session,
    reading: Reading<'_>,
    n_tokens: usize,
) -> (Vec<u32>, usize) {
    let mut decoder = decoder(session, reading);
    let control = JobControl::new();
    let n_cached = decoder.n_cached();
    let read = decoder.prefill(reading.prompt, 100, &control, |_| {});
    read.expect("the prompt is read");
    let tokens = (0..n_tokens).map(|at| match decoder.next(n_tokens - at, &control) {
        Ok(Next::Token(token)) => token,
        other => panic!("{other:?} instead of token {at}"),
    });
    (tokens.collect(), n_cached)
}

/// A greedy decoder that shifts a full context.
pub(crate) fn decoder<'a>(session: &'a mut Session, reading: Reading<'_>) -> Decoder<'a> {
    let params = SamplingParams {
        temperature: 0.0,
        ..SamplingParams::default()
    };
    let sampler = Sampler::new(params, reading.prompt).expect("the parameters are valid");
    let overflow = match reading.may_shift {
        true => Overflow::Shift { n_kept: 20 },
        false => Overflow::End,
    };
    Decoder::new(session, None, sampler, reading, overflow).expect("there is memory")
}

/// The logits after `tokens`, read from the start.
pub(crate) fn read_anew(session: &mut Session, tokens: &[u32]) -> Vec<f32> {
    session.truncate(0);
    let mut last = 0;
    for part in tokens.chunks(512) {
        let is_read = session.append(part, 1, &JobControl::new());
        assert_eq!(is_read, Ok(true));
        last = part.len() - 1;
    }
    session.logits(last).expect("it was asked for").to_vec()
}

/// The largest difference of two rows, as a share of the largest logit.
pub(crate) fn difference(a: &[f32], b: &[f32]) -> f32 {
    let largest = b.iter().fold(0.0_f32, |most, logit| most.max(logit.abs()));
    let pairs = a.iter().zip(b);
    let differences = pairs.map(|(a, b)| (a - b).abs() / largest);
    differences.fold(0.0, f32::max)
}

fn info(context_length: usize) -> ModelInfo {
    ModelInfo {
        name: "tiny".to_owned(),
        architecture: "tiny".to_owned(),
        engine: "llama.cpp".to_owned(),
        n_parameters: 1,
        stored_as: String::new(),
        computed_as: String::new(),
        context_length,
        vocab_size: 1 << 20,
        has_chat_template: false,
        recommended_sampling: SamplingParams::default(),
    }
}
