//! Which sessions share the steps of a joint context, and the moving of their caches.
//!
//! Rule: the joint context, its contents a second time and one of them a third time take at most a full
//! context for each response that shares it, which is what the memory estimate counts.

use std::iter;

use transom_engine::EngineError;

use super::config::CacheConfig;
use super::joint::Joint;
use super::{Session, failed, warn};
use crate::native::{Context, MAX_SEQUENCES};

/// Tokens that a new joint context has space for beyond the longest sequence.
const ROOM: usize = 64;

/// The sequences that a joint context is created for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    /// How many of the sequences, from the shortest on, share steps.
    pub(super) n_sharing: usize,
    pub(super) n_seats: usize,
    /// Capacity of a seat in tokens.
    pub(super) capacity: usize,
}

impl CacheConfig {
    /// Returns for how many sequences it pays to share steps, and that the memory is enough for.
    /// `lengths` are their tokens, in ascending order, and `weight_bytes` what a step reads once.
    pub(super) fn plan(&self, lengths: &[usize], weight_bytes: u64) -> Option<Plan> {
        let n_most = lengths.len().min(MAX_SEQUENCES);
        let mut counts = (self.min_sharing.max(2)..=n_most).rev();
        counts.find_map(|n| self.plan_for(&lengths[..n], weight_bytes))
    }

    fn plan_for(&self, lengths: &[usize], weight_bytes: u64) -> Option<Plan> {
        let n = lengths.len();
        let longest = *lengths.last()?;
        let n_used: usize = lengths.iter().sum();
        // A step reads the weights once, and of each sequence as many keys and values as the longest one
        // has. It must read at most three quarters of what single steps read.
        let kv_bytes = |n_tokens: usize| n_tokens as u64 * self.bytes_per_token;
        let shared = weight_bytes.saturating_add(kv_bytes(n * longest));
        let apart = weight_bytes
            .saturating_mul(n as u64)
            .saturating_add(kv_bytes(n_used));
        if shared.saturating_mul(4) > apart.saturating_mul(3) {
            return None;
        }
        let capacity = self.capacity(longest + ROOM);
        let mut seats = [n.next_power_of_two().min(MAX_SEQUENCES), n].into_iter();
        let n_seats = seats.find(|&n_seats| self.fits(n_seats, n, capacity))?;
        (longest < capacity).then_some(Plan {
            n_sharing: n,
            n_seats,
            capacity,
        })
    }

    /// Returns true if a joint context may stay in memory for `n` responses. While their caches move, the
    /// contents are in memory a second time, and one of them a third time.
    fn fits(&self, n_seats: usize, n: usize, capacity: usize) -> bool {
        (n_seats + n + 1).saturating_mul(capacity) <= n.saturating_mul(self.context_length)
    }
}

impl Session {
    /// Lets the sessions of responses, whose caches [can move](Session::can_move), share steps where that
    /// pays, also while they read their prompts, so that few caches have to be moved. `n_queued` more
    /// responses are about to begin. `is_only` is true if there is one response, and no other will begin.
    ///
    /// # Errors
    /// [`EngineError::Backend`] if a cache was lost because there is not enough memory.
    pub(crate) fn arrange_seats(
        &mut self,
        sessions: &mut [&mut Self],
        n_queued: usize,
        is_only: bool,
    ) -> Result<(), EngineError> {
        let n_seated = sessions
            .iter()
            .filter(|session| session.seat.is_some())
            .count();
        if n_seated == 0 {
            self.shared.joint = None;
        }
        let joint = self.shared.joint.as_ref();
        let capacity = joint.map_or(0, |joint| joint.context().capacity());
        let n_free = joint.map_or(0, Joint::n_free_seats);
        let is_full = |session: &Self| session.seat.is_some() && session.tokens().len() >= capacity;
        // Those that wait for a seat have no other memory.
        let using = sessions.iter();
        let using = using.filter(|session| session.seat.is_some() || session.context.is_none());
        let n_using = using.count() + n_queued;
        // The context is too large for those that are left.
        let must_move = joint
            .is_some_and(|joint| is_only || !self.config.fits(joint.n_seats(), n_using, capacity))
            || sessions.iter().any(|session| is_full(session));
        if !must_move && (n_seated == sessions.len() || self.shared.sharing_failed) {
            return self.close_gaps(sessions);
        }
        sessions.sort_by_key(|session| session.n_expected());
        let lengths = sessions.iter().map(|session| session.n_expected());
        let plan = self.plan(lengths.collect(), n_queued);
        let n_sharing = plan.map_or(0, |plan| plan.n_sharing);
        let joining = sessions[..n_sharing].iter();
        let joining = joining.filter(|session| session.seat.is_none());
        let (n_joining, longest) = joining.fold((0, 0), |(n, longest), session| {
            (n + 1, longest.max(session.n_expected()))
        });
        if must_move || (n_joining > 0 && (n_joining > n_free || longest >= capacity)) {
            return self.move_caches(sessions, plan);
        }
        for session in &mut sessions[..n_sharing] {
            self.seat(session)?;
        }
        self.close_gaps(sessions)
    }

    /// Returns true if this session, which needs a cache, would get a seat beside those of `others` and of
    /// `n_queued` responses that are about to begin, as far as there is memory.
    pub(crate) fn expects_seat<'a>(
        &self,
        others: impl Iterator<Item = &'a Self>,
        n_queued: usize,
    ) -> bool {
        let own = self.n_expected();
        let lengths: Vec<usize> = others.map(Self::n_expected).chain([own]).collect();
        let n_shorter = lengths.iter().filter(|&&length| length < own).count();
        let plan = self.plan(lengths, n_queued);
        plan.is_some_and(|plan| n_shorter < plan.n_sharing)
    }

    /// Returns how many sequences with these tokens share steps, in a context that also has space for
    /// `n_queued` others, of which each is expected to have as many as the longest one.
    fn plan(&self, mut lengths: Vec<usize>, n_queued: usize) -> Option<Plan> {
        lengths.sort_unstable();
        let n_known = lengths.len();
        let longest = lengths.last().copied()?;
        lengths.extend(iter::repeat_n(longest, n_queued));
        let plan = self.config.plan(&lengths, self.model.n_bytes());
        let plan = plan.filter(|_| !self.shared.sharing_failed)?;
        Some(Plan {
            n_sharing: plan.n_sharing.min(n_known),
            ..plan
        })
    }

    /// Returns true if its cache can be copied: keys whose rotation is pending would be copied unchanged.
    pub(crate) fn can_move(&self) -> bool {
        !self.shift_is_pending
    }

    /// Moves sessions from the last seats into free ones before them.
    fn close_gaps(&mut self, sessions: &mut [&mut Self]) -> Result<(), EngineError> {
        while let Some(last) = self.shared.joint.as_ref().and_then(Joint::seat_after_gap) {
            let mut all = sessions.iter_mut();
            let Some(session) = all.find(|session| session.seat == Some(last)) else {
                break;
            };
            let state = self.leave_seat(session)?;
            self.enter(session, &state)?;
        }
        Ok(())
    }

    /// Gives a session its own context, if it has a seat. It is the only one.
    ///
    /// # Errors
    /// [`EngineError::Backend`] if there is not enough memory; the session is empty then.
    pub(super) fn move_to_own_context(&mut self, session: &mut Self) -> Result<(), EngineError> {
        let moved = match session.seat {
            Some(_) => self.move_caches(&mut [session], None),
            None => Ok(()),
        };
        self.shared.joint = None;
        moved
    }

    /// Moves the cache of a session into a free seat of the joint context.
    fn seat(&mut self, session: &mut Self) -> Result<(), EngineError> {
        if session.seat.is_some() || self.shared.joint.is_none() {
            return Ok(());
        }
        let Some(state) = session.own_state() else {
            self.stay_apart();
            return Ok(());
        };
        session.context = None;
        self.enter(session, &state)
    }

    /// Creates another joint context as in `plan`, or none, for the first of `sessions`, and gives the
    /// others with a seat their own contexts.
    fn move_caches(
        &mut self,
        sessions: &mut [&mut Self],
        plan: Option<Plan>,
    ) -> Result<(), EngineError> {
        let n_sharing = plan.map_or(0, |plan| plan.n_sharing);
        let (mut joining, mut leaving) = (Vec::new(), Vec::new());
        for (index, session) in sessions.iter_mut().enumerate() {
            let moved = match index < n_sharing {
                true => &mut joining,
                false => &mut leaving,
            };
            if session.seat.is_some() {
                moved.push((index, self.leave_seat(session)?));
            } else if index < n_sharing {
                match session.own_state() {
                    Some(state) => {
                        session.context = None;
                        moved.push((index, state));
                    }
                    None => self.stay_apart(),
                }
            }
        }
        self.shared.joint = None;
        if let Some(plan) = plan.filter(|_| !self.shared.sharing_failed) {
            self.shared.joint = self.new_joint(plan);
        }
        for (index, state) in joining {
            self.enter(sessions[index], &state)?;
        }
        for (index, state) in leaving {
            self.restore_own_of(sessions[index], &state)?;
        }
        Ok(())
    }

    /// Returns a copy of the contents of its own context, empty if it has no tokens; `None` if that failed.
    fn own_state(&self) -> Option<Vec<u8>> {
        debug_assert!(self.can_move(), "a step comes before the cache moves");
        match self.tokens().is_empty() {
            true => Some(Vec::new()),
            false => self.context.as_ref()?.state(0),
        }
    }

    /// Frees the seat of a session, and returns a copy of its contents, empty if it has no tokens.
    fn leave_seat(&mut self, session: &mut Self) -> Result<Vec<u8>, EngineError> {
        let (Some(seat), Some(joint)) = (session.seat.take(), &mut self.shared.joint) else {
            return Ok(Vec::new());
        };
        let state = joint.leave(seat, session.tokens().is_empty());
        state.ok_or_else(|| {
            // It has no other cache.
            session.release();
            failed(MOVING, "not enough memory")
        })
    }

    /// Gives a session with the contents `state` a seat, or its own context if there is none.
    fn enter(&mut self, session: &mut Self, state: &[u8]) -> Result<(), EngineError> {
        let joint = self.shared.joint.as_mut();
        session.seat = joint.and_then(|joint| joint.take_seat(state));
        if session.seat.is_some() {
            return Ok(());
        }
        if !self.shared.sharing_failed {
            self.stay_apart();
        }
        self.restore_own_of(session, state)
    }

    fn new_joint(&mut self, plan: Plan) -> Option<Joint> {
        let params = self.config.context(plan.n_seats, plan.capacity);
        let context = Context::new(self.model.clone(), self.threads.clone(), params);
        if context.is_none() {
            self.stay_apart();
        }
        Some(Joint::new(context?, plan.n_seats))
    }

    fn stay_apart(&mut self) {
        self.shared.sharing_failed = true;
        warn("responses do not share steps");
    }

    /// Gives a session its own context with the contents `state`. Parked conversations make room for it.
    fn restore_own_of(&mut self, session: &mut Self, state: &[u8]) -> Result<(), EngineError> {
        self.swap_shared(session);
        let restored = session.restore_own(state);
        self.swap_shared(session);
        restored
    }

    fn restore_own(&mut self, state: &[u8]) -> Result<(), EngineError> {
        if state.is_empty() {
            return Ok(());
        }
        self.make_context(self.n_expected.max(self.tokens().len() + 1))?;
        let is_whole = self
            .context
            .as_mut()
            .is_some_and(|context| context.set_state(0, state));
        if !is_whole {
            self.release();
            return Err(failed(MOVING, "its contents were lost"));
        }
        Ok(())
    }
}

/// What fails if a cache is lost.
const MOVING: &str = "moving a KV cache";
