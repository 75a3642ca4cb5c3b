//! Compiles constraints beside the prefill of a prompt, and keeps the newest ones.
//!
//! The vocabulary is prepared when a model gets its first constraint, and dropped with the model or
//! when its memory is needed.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use llguidance::Matcher;

use super::guide::Guide;
use super::vocabulary::{TokenTable, Vocabulary};
use super::{Constraint, ConstraintStart, Grammar, TokenMask, grammar};
use crate::error::EngineError;
use crate::job_control::JobControl;
use crate::text::OpenReasoning;

/// How long compiling may take.
const MAX_TIME: Duration = Duration::from_secs(10);

/// How long the caller waits for a compilation before it begins with the prefill. Usual schemas need a
/// few milliseconds, so their errors come before any work.
const HEAD_START: Duration = Duration::from_millis(20);

/// How long a caller waits before it checks whether its job was stopped.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// How many compiled grammars stay in memory. Each has at most some tens of megabytes of states, and
/// usually less than one.
const MAX_COMPILED: usize = 4;

/// Nested schemas are compiled recursively.
const STACK_BYTES: usize = 32 << 20;

/// Compiles the constraints of the responses of one loaded model.
#[derive(Debug, Default)]
pub struct Constraints {
    vocabulary: Option<Arc<OnceLock<PreparedVocabulary>>>,
    /// The newest grammars, newest last.
    compiled: VecDeque<(Grammar, Arc<Compilation>)>,
}

/// A grammar that a thread compiles.
#[derive(Debug)]
struct Compilation {
    began: Instant,
    result: Mutex<Option<Compiled>>,
    changed: Condvar,
}

type PreparedVocabulary = Result<Arc<Vocabulary>, EngineError>;

/// A matcher before its first token.
#[derive(Clone)]
struct Fresh {
    vocabulary: Arc<Vocabulary>,
    matcher: Matcher,
}

type Compiled = Result<Fresh, EngineError>;

impl std::fmt::Debug for Fresh {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fresh").finish_non_exhaustive()
    }
}

impl Constraints {
    /// Begins to compile the constraint of a response, unless that was done before. `open` is the
    /// reasoning section that the prompt has opened; `is_text_start` is false if the response continues
    /// the text of a message. `table` returns the tokens of the model; it is called for the first constraint only.
    ///
    /// # Errors
    /// [`EngineError::InvalidConstraint`] if the constraint is refused at once; errors of `table`.
    pub fn compile(
        &mut self,
        constraint: Option<&Constraint>,
        open: Option<OpenReasoning>,
        is_text_start: bool,
        table: impl FnOnce() -> Result<TokenTable, EngineError>,
    ) -> Result<ResponseConstraint, EngineError> {
        let Some(constraint) = constraint else {
            return Ok(ResponseConstraint::default());
        };
        let compilation = match self.take_compiled(&constraint.grammar) {
            Some(compilation) => compilation,
            None => self.start(&constraint.grammar, table)?,
        };
        let entry = (constraint.grammar.clone(), compilation.clone());
        self.compiled.push_back(entry);
        if self.compiled.len() > MAX_COMPILED {
            self.compiled.pop_front();
        }
        compilation.wait_until(Instant::now() + HEAD_START);
        compilation.check()?;
        Ok(ResponseConstraint {
            pending: Some(Pending {
                compilation,
                start: constraint.start,
                open,
                is_text_start,
            }),
            ..ResponseConstraint::default()
        })
    }

    /// Releases the vocabulary and all compiled grammars. The next constraint prepares them again.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Removes and returns the compilation of an equal grammar that did not fail.
    fn take_compiled(&mut self, grammar: &Grammar) -> Option<Arc<Compilation>> {
        let mut entries = self.compiled.iter();
        let index = entries.position(|(other, _)| other == grammar)?;
        let (_, compilation) = self.compiled.remove(index)?;
        compilation.check().is_ok().then_some(compilation)
    }

    fn start(
        &mut self,
        grammar: &Grammar,
        table: impl FnOnce() -> Result<TokenTable, EngineError>,
    ) -> Result<Arc<Compilation>, EngineError> {
        let mut tokens = None;
        let vocabulary = match &self.vocabulary {
            Some(vocabulary) => vocabulary.clone(),
            None => {
                tokens = Some(table()?);
                self.vocabulary.insert(Arc::default()).clone()
            }
        };
        let compilation = Arc::new(Compilation::new());
        let (grammar, target) = (grammar.clone(), compilation.clone());
        let run = move || {
            let compile = AssertUnwindSafe(|| {
                // First, because later compilations have no table, whatever becomes of this one.
                let vocabulary = vocabulary.get_or_init(|| {
                    let table = tokens.unwrap_or_default();
                    Vocabulary::new(table, grammar::limits()).map(Arc::new)
                });
                Fresh::compile(&grammar, vocabulary.clone()?)
            });
            // Unwind safe: nothing of the unfinished grammar is used.
            let result = catch_unwind(compile).unwrap_or_else(|_| {
                let message = "compiling it failed; simplify it";
                Err(grammar::invalid("", "", message))
            });
            *target.lock() = Some(result);
            target.changed.notify_all();
        };
        let builder = thread::Builder::new().name("constraint".to_owned());
        let spawned = builder.stack_size(STACK_BYTES).spawn(run);
        spawned.map_err(|error| EngineError::backend("starting a thread", error))?;
        Ok(compilation)
    }
}

impl Fresh {
    fn compile(grammar: &Grammar, vocabulary: Arc<Vocabulary>) -> Compiled {
        let top_level = grammar::top_level(grammar)?;
        let parser = vocabulary.factory().create_parser(top_level);
        let parser = parser.map_err(|error| grammar::refusal(grammar, error.to_string()))?;
        let mut matcher = Matcher::new(Ok(parser));
        // The first mask takes longer than the others, and shows grammars without any text.
        let mask = matcher.compute_mask_or_eos();
        let mask = mask.map_err(|error| grammar::refusal(grammar, error.to_string()))?;
        if mask.is_zero() {
            return Err(grammar::invalid("", "", "no text matches it"));
        }
        Ok(Self {
            vocabulary,
            matcher,
        })
    }
}

impl Compilation {
    fn new() -> Self {
        Self {
            began: Instant::now(),
            result: Mutex::new(None),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Compiled>> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the compilation has ended, at most until `deadline`. Returns true if it has.
    fn wait_until(&self, deadline: Instant) -> bool {
        let mut result = self.lock();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if result.is_some() || left.is_zero() {
                return result.is_some();
            }
            let waited = self.changed.wait_timeout(result, left);
            result = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns the error of the compilation, if it has ended with one or takes too long. True if it has
    /// ended.
    fn check(&self) -> Result<bool, EngineError> {
        match &*self.lock() {
            Some(Ok(_)) => Ok(true),
            Some(Err(error)) => Err(error.clone()),
            None if self.began.elapsed() > MAX_TIME => {
                let message = "compiling it takes longer than 10 seconds; simplify it";
                Err(grammar::invalid("", "", message))
            }
            None => Ok(false),
        }
    }

    fn fresh(&self) -> Option<Fresh> {
        let result = self.lock();
        result
            .as_ref()
            .and_then(|result| result.as_ref().ok())
            .cloned()
    }
}

/// The constraint of one response, as its decoder uses it. The default is none.
///
/// Before the first token is sampled, call [`ResponseConstraint::resolve`]. For each token, sample
/// within [`ResponseConstraint::mask`] and call [`ResponseConstraint::accept`], until
/// [`ResponseConstraint::is_complete`].
#[derive(Debug, Default)]
pub struct ResponseConstraint {
    pending: Option<Pending>,
    guide: Option<Guide>,
    mask_time: Duration,
    tokenize: Option<Tokenize>,
}

/// Returns the tokens of a text as the model's own tokenizer writes them; `None` if it can't.
type TokenizeText = dyn Fn(&str) -> Option<Vec<u32>>;

struct Tokenize(Box<TokenizeText>);

impl std::fmt::Debug for Tokenize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenize").finish_non_exhaustive()
    }
}

#[derive(Debug, Clone)]
struct Pending {
    compilation: Arc<Compilation>,
    start: ConstraintStart,
    open: Option<OpenReasoning>,
    is_text_start: bool,
}

/// Tells whether the constraint of a response is valid.
#[derive(Debug, Clone)]
pub struct ConstraintCheck(Arc<Compilation>);

impl ConstraintCheck {
    /// Returns true if the constraint is valid, false if that is not known yet.
    ///
    /// # Errors
    /// [`EngineError::InvalidConstraint`].
    pub fn poll(&self) -> Result<bool, EngineError> {
        self.0.check()
    }

    /// Like [`Self::poll`], but waits for a moment if that is not known yet.
    ///
    /// # Errors
    /// [`EngineError::InvalidConstraint`].
    pub fn wait(&self) -> Result<bool, EngineError> {
        self.0.wait_until(Instant::now() + CHECK_INTERVAL);
        self.0.check()
    }

    /// Returns the check of a compilation that ends when the test calls the function, which compiles
    /// a grammar.
    #[cfg(test)]
    pub(crate) fn scripted() -> (Self, impl Fn(&Grammar)) {
        let compilation = Arc::new(Compilation::new());
        let target = compilation.clone();
        let end = move |grammar: &Grammar| {
            let table = crate::test_support::byte_table(&[]);
            let vocabulary = Vocabulary::new(table, grammar::limits());
            let fresh =
                vocabulary.and_then(|vocabulary| Fresh::compile(grammar, vocabulary.into()));
            *target.lock() = Some(fresh);
        };
        (Self(compilation), end)
    }
}

impl ResponseConstraint {
    /// Returns what tells whether the constraint is valid; `None` without a constraint.
    pub fn check(&self) -> Option<ConstraintCheck> {
        let pending = self.pending.as_ref()?;
        Some(ConstraintCheck(pending.compilation.clone()))
    }

    /// Returns true if the response is constrained.
    pub fn is_some(&self) -> bool {
        self.pending.is_some() || self.guide.is_some()
    }

    /// Waits until the constraint is compiled. Returns false if the job was stopped before.
    ///
    /// # Errors
    /// [`EngineError::InvalidConstraint`].
    pub fn resolve(&mut self, control: &JobControl) -> Result<bool, EngineError> {
        let Some(pending) = &self.pending else {
            return Ok(true);
        };
        while !pending.compilation.check()? {
            if control.is_stopped() {
                return Ok(false);
            }
            let deadline = Instant::now() + CHECK_INTERVAL;
            pending.compilation.wait_until(deadline);
        }
        let Pending {
            start,
            open,
            is_text_start,
            ..
        } = *pending;
        let fresh = pending.compilation.fresh();
        self.guide = fresh.map(
            |Fresh {
                 vocabulary,
                 matcher,
             }| { Guide::new(vocabulary, matcher, start, open, is_text_start) },
        );
        self.pending = None;
        Ok(true)
    }

    /// Returns the tokens that may come next; `None` if the response is not constrained.
    ///
    /// # Errors
    /// [`EngineError::ConstraintFailed`] if there are none.
    pub fn mask(&mut self) -> Result<Option<&TokenMask>, EngineError> {
        let Some(guide) = &mut self.guide else {
            return Ok(None);
        };
        let began = Instant::now();
        let mask = guide.mask();
        self.mask_time += began.elapsed();
        mask.map(Some)
    }

    /// Returns the time that [`Self::mask`] took, for all tokens so far.
    pub fn mask_time(&self) -> Duration {
        self.mask_time
    }

    /// Adds a token to the response.
    ///
    /// # Errors
    /// [`EngineError::ConstraintFailed`] if it is not one of those that may come next.
    pub fn accept(&mut self, token: u32) -> Result<(), EngineError> {
        match &mut self.guide {
            Some(guide) => guide.accept(token),
            None => Ok(()),
        }
    }

    /// Returns true if the response matches and nothing may follow.
    pub fn is_complete(&self) -> bool {
        self.guide.as_ref().is_some_and(Guide::is_complete)
    }

    /// Lets [`Self::forced`] spell text as the tokenizer of the model does, in whose tokens the model
    /// usually writes. Without it, each token is the longest one.
    #[must_use]
    pub fn spelled_by(mut self, tokenize: impl Fn(&str) -> Option<Vec<u32>> + 'static) -> Self {
        self.tokenize = Some(Tokenize(Box::new(tokenize)));
        self
    }

    /// Returns tokens that spell the text that must come next, at most `max`; none if there is a
    /// choice. The engine writes them without sampling: other tokens could only spell the same text, in
    /// a way that the model was not trained on.
    pub fn forced(&mut self, max: usize) -> Vec<u32> {
        let tokenize = self.tokenize.as_ref();
        let tokenize = |text: &str| tokenize.and_then(|Tokenize(tokenize)| tokenize(text));
        let guide = self.guide.as_mut();
        guide.map_or_else(Vec::new, |guide| guide.forced(max, tokenize))
    }
}
