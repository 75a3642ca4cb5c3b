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
/// At the start of an answer: [`Speculation::begin`], and [`Speculation::accept`] for the token that
/// prefill gave. For each step: [`Speculation::draft`]; compute the step over the last token and the
/// draft; draw with [`verify`] and [`Speculation::accept`] each token; [`Speculation::stepped`].
#[derive(Debug, Clone, Default)]
pub struct Speculation {
    lookup: PromptLookup,
    pace: Pace,
    /// Where the tokens so far match earlier ones.
    found: Option<Match>,
    drafted: Vec<u32>,
    /// Tokens accepted since the last step.
    n_accepted: usize,
}

impl Speculation {
    /// Knows no tokens and nothing of the machine.
    pub fn new() -> Self {
        Self::default()
    }

    /// A new answer begins after `prompt`. What `prompt` shares with the conversation so far costs
    /// next to nothing.
    pub fn begin(&mut self, prompt: &[u32]) {
        self.lookup.set(prompt);
        self.found = self.lookup.find();
        self.pace.begin();
        self.drafted.clear();
        self.n_accepted = 0;
    }

    /// The tokens to check in the next step together with the last token of the answer: at most
    /// `room`, and none where a plain step is the better choice.
    pub fn draft(&mut self, room: usize) -> &[u32] {
        self.drafted.clear();
        self.n_accepted = 0;
        if let Some(found) = self.found {
            let n = self.pace.n_draft(found.length, room);
            self.lookup.draft(found, n, &mut self.drafted);
        }
        &self.drafted
    }

    /// One more token of the answer was drawn: a guess that was right, or what came instead.
    pub fn accept(&mut self, token: u32) {
        let mut goes_on = None;
        if let Some(found) = self.found {
            let is_right = self.lookup.tokens().get(found.next) == Some(&token);
            self.pace.compared(found.length, is_right);
            goes_on = is_right.then_some(Match {
                length: found.length + 1,
                next: found.next + 1,
            });
        }
        self.lookup.push(token);
        self.n_accepted += 1;
        // A match that proved right is left only for a longer one.
        let found = self.lookup.find();
        self.found = match (goes_on, found) {
            (Some(old), Some(new)) if new.length <= old.length => Some(old),
            (old, new) => new.or(old),
        };
    }

    /// The step is over. `took` is all of its time: computing it, drawing its tokens, and undoing
    /// what was computed behind a wrong guess.
    pub fn stepped(&mut self, took: Duration) {
        self.pace.stepped(self.drafted.len(), self.n_accepted, took);
    }

    /// Forgets tokens by their places in prompt and answer, as a context shift does.
    pub fn forget(&mut self, range: Range<usize>) {
        self.lookup.remove(range);
        self.found = self.lookup.find();
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

#[cfg(test)]
mod tests;
