//! One context for the caches of several sessions, so that a step computes a token of each.
//!
//! A decode step mostly reads the weights, and reads them once for all of its tokens. A session with a
//! seat announces the token that it will append next. The session that first needs a step computes the
//! announced tokens of all, and the others find their logits here when it is their turn.
//!
//! Rule: the cache of a seat has the tokens of its session, and after them at most the announced one.

use transom_engine::JobControl;

use crate::native::{Batch, Context, StepError};

#[derive(Debug)]
pub(super) struct Joint {
    context: Context,
    /// One for each sequence of the context; `None` if nobody has it.
    seats: Vec<Option<Seat>>,
    batch: Batch,
    /// The first token in the last batch of the session that computed it.
    first: usize,
}

#[derive(Debug, Default)]
struct Seat {
    /// The token that its session appends next, and its position.
    announced: Option<(u32, usize)>,
    /// The logits of the last token, if a step of another session computed them: of the announced
    /// token, or of the last appended one if none is announced.
    logits: Option<Vec<f32>>,
}

impl Joint {
    /// Takes a context with a sequence for each seat.
    pub(super) fn new(context: Context, n_seats: usize) -> Self {
        Self {
            context,
            seats: (0..n_seats).map(|_| None).collect(),
            batch: Batch::default(),
            first: 0,
        }
    }

    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    pub(super) fn context_mut(&mut self) -> &mut Context {
        &mut self.context
    }

    pub(super) fn n_seats(&self) -> usize {
        self.seats.len()
    }

    /// Returns the number of tokens that all sequences together have space for.
    pub(super) fn n_tokens(&self) -> usize {
        self.seats.len() * self.context.capacity()
    }

    pub(super) fn n_free_seats(&self) -> usize {
        self.seats.iter().filter(|seat| seat.is_none()).count()
    }

    /// Gives the first free seat to a session whose cache has the contents `state`, or nothing. Returns
    /// `None` if there is no free seat, or if llama.cpp does not take the state.
    pub(super) fn take_seat(&mut self, state: &[u8]) -> Option<usize> {
        let seat = self.seats.iter().position(Option::is_none)?;
        if !state.is_empty() && !self.context.set_state(seat, state) {
            return None;
        }
        self.seats[seat] = Some(Seat::default());
        Some(seat)
    }

    /// Returns the last seat that is taken, if a free one comes before it. llama.cpp computes sequences
    /// together only if their ids follow each other.
    pub(super) fn seat_after_gap(&self) -> Option<usize> {
        let last = self.seats.iter().rposition(Option::is_some)?;
        self.seats[..last]
            .iter()
            .any(Option::is_none)
            .then_some(last)
    }

    /// Returns a copy of the cache of a seat, or nothing if it is empty, and frees the seat. Returns `None`
    /// if there is not enough memory; the seat is freed then too.
    pub(super) fn leave(&mut self, seat: usize, is_empty: bool) -> Option<Vec<u8>> {
        self.withdraw(seat);
        let state = match is_empty {
            true => Some(Vec::new()),
            false => self.context.state(seat),
        };
        self.free(seat);
        state
    }

    pub(super) fn free(&mut self, seat: usize) {
        self.remove(seat, 0);
        self.seats[seat] = None;
    }

    /// See [`super::Session::announce`]; `n_tokens` are in the cache of the seat.
    pub(super) fn announce(&mut self, seat: usize, token: u32, n_tokens: usize) {
        self.withdraw(seat);
        let has_space = n_tokens < self.context.capacity();
        if let Some(seat) = self.seats[seat].as_mut().filter(|_| has_space) {
            seat.announced = Some((token, n_tokens));
        }
    }

    /// Forgets the announced token of a seat, and removes it from the cache if it was computed.
    pub(super) fn withdraw(&mut self, seat: usize) {
        let Some(at_seat) = &mut self.seats[seat] else {
            return;
        };
        let is_computed = at_seat.logits.take().is_some();
        if let Some((_, n_tokens)) = at_seat.announced.take()
            && is_computed
        {
            self.remove(seat, n_tokens);
        }
    }

    /// Returns true if a step of another session has computed the announced token of a seat.
    pub(super) fn has_computed(&self, seat: usize) -> bool {
        let seat = self.seats[seat].as_ref();
        seat.is_some_and(|seat| seat.announced.is_some() && seat.logits.is_some())
    }

    /// Processes `tokens`, which follow `n_before` others; the last `n_logits` return logits. If it is
    /// the announced token alone, it takes what was computed, or computes the announced tokens of all.
    /// Returns how many tokens were computed.
    ///
    /// # Errors
    /// After an error nothing was announced or appended of this seat, and nothing else was computed.
    pub(super) fn append(
        &mut self,
        seat: usize,
        tokens: &[u32],
        n_before: usize,
        n_logits: usize,
        job: &JobControl,
    ) -> Result<usize, StepError> {
        let is_announced = |found: &Seat| {
            let announced = found.announced.map(|(token, at)| ([token], at));
            announced.is_some_and(|(token, at)| token == tokens && at == n_before)
        };
        if let Some(found) = self.seats[seat]
            .as_mut()
            .filter(|found| is_announced(found))
            && found.logits.is_some()
        {
            found.announced = None;
            return Ok(0);
        }
        self.withdraw(seat);
        self.batch.clear();
        let mut others = Vec::new();
        for (index, other) in self.seats.iter().enumerate() {
            let announced = other.as_ref().filter(|other| other.logits.is_none());
            if index == seat {
                self.first = self.batch.len();
                self.batch.add(seat, tokens, n_before, n_logits);
            } else if tokens.len() == 1
                && let Some((token, at)) = announced.and_then(|other| other.announced)
            {
                others.push((index, self.batch.len(), at));
                self.batch.add(index, &[token], at, 1);
            }
        }
        let result = self.context.step(&mut self.batch, job);
        for (index, row, at) in others {
            let logits = result.is_ok().then(|| self.context.logits(row)).flatten();
            let logits = logits.map(<[f32]>::to_vec);
            if logits.is_none() {
                self.remove(index, at);
            }
            if let Some(other) = &mut self.seats[index] {
                other.logits = logits;
            }
        }
        result.map(|()| self.batch.len())
    }

    /// Returns the logits of the `index`-th token that was appended last.
    pub(super) fn logits(&self, seat: usize, index: usize) -> Option<&[f32]> {
        let at_seat = self.seats[seat].as_ref()?;
        match &at_seat.logits {
            Some(logits) => (index == 0).then_some(logits),
            None => self.context.logits(self.first + index),
        }
    }

    /// Removes the tokens of a seat from position `start` on.
    fn remove(&mut self, seat: usize, start: usize) {
        // Layers that attend to all tokens can remove any of them.
        let _ = self.context.remove(seat, start..usize::MAX);
    }
}
