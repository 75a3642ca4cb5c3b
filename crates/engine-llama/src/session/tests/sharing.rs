//! Sessions that share steps: the logits of each are those of a fresh prefill.

use transom_engine::JobControl;

use super::super::seats::Plan;
use super::*;
use crate::test_support::{
    DENSE, HYBRID, TOLERANCE, TestModel, WINDOWED, difference, logits_from_scratch, random_tokens,
};

const CONTEXT: usize = 4096;

/// The sessions of responses that decode, and an idle one with what belongs to the model.
struct Running {
    idle: Session,
    sessions: Vec<Session>,
    fresh: Session,
    n_queued: usize,
}

impl Running {
    /// Prefills a prompt of each length.
    fn new(test_model: TestModel, lengths: &[usize]) -> Self {
        let mut idle = crate::test_support::session(test_model, CONTEXT);
        idle.config.min_sharing = 2;
        let fresh = idle.sibling();
        let mut running = Self {
            idle,
            sessions: Vec::new(),
            fresh,
            n_queued: 0,
        };
        for (seed, length) in (80..).zip(lengths) {
            running.begin(seed, *length);
        }
        running
    }

    fn begin(&mut self, seed: u32, length: usize) {
        let mut session = self.idle.sibling();
        session.n_expected = length;
        for part in random_tokens(seed, length).chunks(500) {
            assert_eq!(session.append(part, 1, &JobControl::new()), Ok(true));
        }
        self.sessions.push(session);
    }

    fn arrange(&mut self) {
        let is_only = self.sessions.len() + self.n_queued == 1;
        let sessions = self.sessions.iter_mut();
        let mut sessions: Vec<&mut Session> = sessions.filter(|it| it.can_move()).collect();
        let arranged = self
            .idle
            .arrange_seats(&mut sessions, self.n_queued, is_only);
        assert_eq!(arranged, Ok(()));
    }

    /// Arranges the sessions, and lets one of them append tokens.
    fn append(&mut self, index: usize, tokens: &[u32], job: &JobControl) -> bool {
        self.arrange();
        let appended = self.used(index, |session| session.append(tokens, 1, job));
        appended.expect("the step succeeds")
    }

    fn used<T>(&mut self, index: usize, work: impl FnOnce(&mut Session) -> T) -> T {
        let session = &mut self.sessions[index];
        self.idle.swap_shared(session);
        let result = work(session);
        self.idle.swap_shared(session);
        result
    }

    /// Begins a response whose prompt has `length` tokens, of which none is processed yet. Returns the
    /// prompt.
    fn begin_unread(&mut self, seed: u32, length: usize) -> Vec<u32> {
        let mut session = self.idle.sibling();
        let prompt = random_tokens(seed, length);
        assert_eq!(session.reuse(without_conversation(&prompt)), Ok(0));
        self.sessions.push(session);
        prompt
    }

    /// Returns the seat of each session.
    fn seats(&self) -> Vec<Option<usize>> {
        self.sessions.iter().map(|session| session.seat).collect()
    }

    /// Ends a response beside others.
    fn end(&mut self, index: usize) {
        self.used(index, Session::finish);
        let ended = self.sessions.remove(index);
        self.idle.park_ended(ended);
    }

    /// Compares the logits of the last appended token with those of a fresh prefill.
    fn check(&mut self, index: usize, n_appended: usize) {
        let tokens = self.sessions[index].tokens().to_vec();
        let found = self.used(index, |session| {
            session.logits(n_appended - 1).map(<[f32]>::to_vec)
        });
        let expected = logits_from_scratch(&mut self.fresh, &tokens);
        let difference = difference(&found.expect("it was asked for"), &expected);
        let n_tokens = tokens.len();
        assert!(
            difference <= TOLERANCE,
            "{difference} after {n_tokens} tokens of {index}"
        );
    }

    fn n_seated(&self) -> usize {
        let seated = |session: &&Session| session.shares_steps();
        self.sessions.iter().filter(seated).count()
    }
}

fn stopped() -> JobControl {
    let job = JobControl::new();
    job.cancel();
    job
}

#[test]
fn a_step_computes_the_announced_tokens_of_all() {
    let mut running = Running::new(DENSE, &[300, 40, 90, 170]);
    let new = JobControl::new();
    for step in 0..5_u32 {
        let tokens: Vec<u32> = (0..4).map(|index| 20 + 31 * step + index).collect();
        for (index, token) in tokens.iter().enumerate() {
            running.used(index, |session| session.announce(*token));
        }
        for (index, token) in tokens.iter().enumerate() {
            // A stopped job computes nothing, so another session must have done it.
            let is_ready = step > 0 && index > 0;
            let job = if is_ready { stopped() } else { new.clone() };
            assert!(running.append(index, &[*token], &job), "{step}, {index}");
            running.check(index, 1);
        }
    }
    assert_eq!(running.n_seated(), 4);
}

/// Sessions begin, end, are stopped, append other tokens than they announced, and remove some.
#[test]
fn whatever_the_others_do_the_logits_are_those_of_a_fresh_prefill() {
    let mut state = 9_u32;
    let mut below = |n: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % n
    };
    let mut running = Running::new(DENSE, &[200, 35, 120]);
    let mut most_seated = 0;
    for step in 0..260 {
        let n = running.sessions.len() as u32;
        let index = below(n) as usize;
        let token = 20 + below(230);
        match below(16) {
            0 if n < 6 => running.begin(200 + step, 20 + below(200) as usize),
            1 if n > 1 => running.end(index),
            2 => {
                let before = running.sessions[index].tokens().to_vec();
                running.arrange();
                if !running.append(index, &[token, token], &stopped()) {
                    assert_eq!(running.sessions[index].tokens(), before);
                }
            }
            3 => {
                assert!(running.append(index, &[token, 21, 22], &JobControl::new()));
                running.check(index, 3);
            }
            4 => {
                let n_left = running.sessions[index].tokens().len() - 3;
                running.used(index, |session| {
                    session.finish();
                    session.truncate(n_left);
                });
            }
            5..9 => running.used(index, |session| session.announce(token)),
            _ => {
                assert!(running.append(index, &[token], &JobControl::new()));
                running.check(index, 1);
                running.used(index, |session| session.announce(token ^ 1));
            }
        }
        most_seated = most_seated.max(running.n_seated());
        let joint = running.idle.shared.joint.as_ref();
        let n_joint = joint.map_or(0, Joint::n_tokens);
        // An end is followed by the next arrangement.
        assert!(
            n_joint <= CONTEXT * (running.n_seated() + 1),
            "{n_joint} after {step}"
        );
    }
    assert!(most_seated >= 5, "{most_seated}");
}

/// Nothing is allocated for the new session alone, and the others go on between the parts of its prompt.
#[test]
fn a_prompt_is_read_in_a_seat() {
    let mut running = Running::new(DENSE, &[80]);
    let prompts = [500, 30].map(|length| running.begin_unread(length as u32, length));
    for (part, token) in prompts[0].chunks(125).zip(40..) {
        assert!(running.append(1, part, &JobControl::new()));
        assert!(running.append(0, &[token], &JobControl::new()));
        running.check(0, 1);
    }
    assert!(running.append(2, &prompts[1], &JobControl::new()));
    running.check(2, 30);
    assert!(running.append(1, &[30], &JobControl::new()));
    running.check(1, 1);
    assert_eq!(running.seats(), [Some(1), Some(2), Some(0)]);
    assert!(running.sessions.iter().all(|it| it.context.is_none()));
}

#[test]
fn responses_that_are_about_to_begin_find_seats() {
    let mut running = Running::new(DENSE, &[]);
    for (index, n_queued) in [3, 2, 1, 0].into_iter().enumerate() {
        running.n_queued = n_queued;
        let others = running.sessions.iter();
        running.idle.n_expected = 40;
        assert!(running.idle.expects_seat(others, n_queued));
        let prompt = running.begin_unread(90 + index as u32, 40);
        assert!(running.append(index, &prompt, &JobControl::new()));
        running.check(index, 40);
        // No cache is moved into a larger context.
        assert_eq!(running.sessions[index].seat, Some(index));
        let joint = running.idle.shared.joint.as_ref();
        assert_eq!(joint.map(Joint::n_seats), Some(4));
    }
}

/// llama.cpp computes sequences together only if their ids follow each other.
#[test]
fn sessions_move_into_seats_that_others_leave() {
    let mut running = Running::new(DENSE, &[30, 60, 90, 120, 150]);
    running.arrange();
    let seats = |running: &Running| {
        let mut seats: Vec<_> = running.seats().into_iter().flatten().collect();
        seats.sort_unstable();
        seats
    };
    assert_eq!(seats(&running), [0, 1, 2, 3, 4]);
    for n_left in [4, 3] {
        running.used(n_left, |session| session.announce(50));
        running.end(0);
        running.arrange();
        assert_eq!(seats(&running), Vec::from_iter(0..n_left));
        for index in 0..n_left {
            assert!(running.append(index, &[50], &JobControl::new()));
            running.check(index, 1);
        }
    }
}

/// Keys whose rotation is pending would be copied to wrong positions.
#[test]
fn a_session_with_moved_tokens_gets_a_seat_after_its_next_step() {
    let mut running = Running::new(DENSE, &[60, 300]);
    let session = &mut running.sessions[1];
    assert!(session.remove_and_shift(50..200));
    assert!(!session.can_move());
    let expected = last_logits(session, &[70]);
    let found = {
        let mut moved = Running::new(DENSE, &[60, 300]);
        assert!(moved.sessions[1].remove_and_shift(50..200));
        assert!(moved.append(1, &[70], &JobControl::new()));
        let found = moved.used(1, |session| session.logits(0).map(<[f32]>::to_vec));
        assert_eq!(moved.n_seated(), 0, "one alone shares nothing");
        assert!(moved.append(0, &[30], &JobControl::new()));
        assert_eq!(moved.n_seated(), 2);
        found.expect("it was asked for")
    };
    assert!(difference(&found, &expected) <= TOLERANCE);
}

/// The joint context is for 1,024 tokens at first.
#[test]
fn a_full_seat_moves_to_a_larger_context_or_to_its_own() {
    let mut running = Running::new(DENSE, &[750, 760, 740]);
    running.arrange();
    assert_eq!(running.n_seated(), 3);
    for step in 0..300_u32 {
        for index in 0..3 {
            let token = 20 + step + index as u32;
            assert!(running.append(index, &[token], &JobControl::new()));
            if step % 60 == 59 {
                running.check(index, 1);
            }
        }
    }
    // A larger one and its contents do not fit into three contexts of 4,096 tokens.
    assert_eq!(running.n_seated(), 0);
}

#[test]
fn the_last_session_leaves_the_joint_context() {
    let mut running = Running::new(DENSE, &[100, 200]);
    assert!(running.append(0, &[30], &JobControl::new()));
    assert_eq!(running.n_seated(), 2);
    running.used(0, |session| session.announce(31));
    running.used(1, |session| session.announce(32));
    assert!(running.append(1, &[32], &JobControl::new()));
    running.end(1);
    assert!(running.append(0, &[33], &JobControl::new()));
    running.check(0, 1);
    assert_eq!(running.n_seated(), 0);
    assert!(running.idle.shared.joint.is_none());
}

/// The token that the session announced is computed but not appended, so it is not in the copy.
#[test]
fn a_prompt_continues_from_a_copy_of_a_session_with_a_seat() {
    let mut running = Running::new(DENSE, &[100, 200]);
    running.arrange();
    for index in 0..2 {
        running.used(index, |session| session.announce(40));
    }
    assert!(running.append(1, &[40], &JobControl::new()));
    let shared = running.sessions[0].tokens().to_vec();
    let prompt = [&shared[..], &random_tokens(99, 40)].concat();
    let prompt = without_conversation(&prompt);
    running.idle.shared.parked = Parked::new(1 << 30);
    running.idle.park_copy_of(&running.sessions[0], &prompt);
    assert_eq!(running.idle.reuse(prompt), Ok(shared.len()));
    // The session goes on.
    assert!(running.append(0, &[40], &JobControl::new()));
    running.check(0, 1);
    let rest = &prompt.tokens[shared.len()..];
    let found = last_logits(&mut running.idle, rest);
    let expected = logits_from_scratch(&mut running.fresh, prompt.tokens);
    assert!(difference(&found, &expected) <= TOLERANCE);
}

#[test]
fn models_with_windows_or_recurrent_states_do_not_share_steps() {
    for test_model in [WINDOWED, HYBRID] {
        let session = crate::test_support::session(test_model, 512);
        assert!(!session.model.attends_to_all(), "{}", test_model.name);
    }
}

#[test]
fn plans() {
    const WEIGHTS: u64 = 10_000;
    // (lengths, minimum, context length, plan)
    let plan = |n_sharing, n_seats, capacity| {
        Some(Plan {
            n_sharing,
            n_seats,
            capacity,
        })
    };
    for (lengths, min_sharing, context_length, expected) in [
        (&[10][..], 2, 8192, None),
        (&[10, 20], 2, 8192, plan(2, 2, 1024)),
        (&[10, 20], 3, 8192, None),
        (&[10, 20, 30], usize::MAX, 8192, None),
        // Another one can join without moving the caches.
        (&[10, 20, 30], 2, 8192, plan(3, 4, 1024)),
        (&[10, 20, 1000], 2, 8192, plan(3, 4, 2048)),
        // There is no memory for three seats of that size.
        (&[10, 20, 1000], 2, 4096, plan(2, 2, 1024)),
        // Every step would read as many keys as the longest sequence has.
        (&[10, 20, 6000], 2, 8192, plan(2, 2, 1024)),
        // While they move, all contents are in memory twice.
        (&[1100, 1100], 2, 2048, None),
        (&[2047, 2048], 2, 2048, None),
    ] {
        let mut session = session();
        session.config = CacheConfig {
            min_sharing,
            context_length,
            bytes_per_token: 1,
            ..session.config.clone()
        };
        assert_eq!(
            session.config.plan(lengths, WEIGHTS),
            expected,
            "{lengths:?}"
        );
    }
}
