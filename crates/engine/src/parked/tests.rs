//! The limit and the order of use, on random histories and by example.

use proptest::prelude::*;

use super::*;
use crate::generation::common_prefix_len;

#[derive(Debug, Clone, PartialEq)]
struct State {
    tokens: Vec<u32>,
    conversation: Option<ConversationId>,
    bytes: u64,
}

impl ParkedState for State {
    fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    fn conversation(&self) -> Option<ConversationId> {
        self.conversation
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Returns a state of `bytes` bytes whose conversation has the id `first`, the first of its tokens.
fn state(first: u32, n_tokens: usize, bytes: u64) -> State {
    let mut tokens = vec![0; n_tokens];
    tokens.iter_mut().take(1).for_each(|token| *token = first);
    State {
        tokens,
        conversation: Some(ConversationId(first.into())),
        bytes,
    }
}

/// Returns the first token of each state, the least recently used one first.
fn firsts(parked: &Parked<State>) -> Vec<u32> {
    parked.iter().map(|state| state.tokens[0]).collect()
}

/// Takes the state that shares the most tokens with `prompt`, if these are more than `current`.
fn take_better(parked: &mut Parked<State>, prompt: &[u32], current: usize) -> Option<State> {
    parked.take_better(current, |state| common_prefix_len(&state.tokens, prompt))
}

#[test]
fn the_least_recently_used_state_is_dropped_first() {
    let mut parked = Parked::new(10);
    for first in 1..=3 {
        parked.park(state(first, 5, 3));
    }
    assert_eq!((firsts(&parked), parked.bytes()), (vec![1, 2, 3], 9));
    // Used again, so it is the newest one.
    let used = take_better(&mut parked, &[1], 0).unwrap();
    parked.park(used);
    parked.park(state(4, 5, 6));
    assert_eq!((firsts(&parked), parked.bytes()), (vec![1, 4], 9));
    parked.clear();
    assert!(parked.is_empty());
}

#[test]
fn a_state_that_is_larger_than_the_limit_is_not_kept_and_displaces_none() {
    let mut parked = Parked::new(10);
    assert_eq!(parked.park(state(1, 5, 4)), Some(&state(1, 5, 4)));
    assert_eq!(parked.park(state(2, 5, 11)), None);
    assert_eq!(parked.park(state(3, 0, 0)), None);
    assert_eq!(firsts(&parked), [1]);
    let mut none = Parked::new(0);
    assert_eq!(none.park(state(1, 5, 1)), None);
    assert!(none.is_empty());
}

#[test]
fn room_for_a_copy_is_made_before_it() {
    let mut parked = Parked::new(10);
    parked.park(state(1, 5, 4));
    parked.park(state(2, 5, 4));
    assert!(!parked.make_room(11));
    assert_eq!(firsts(&parked), [1, 2]);
    assert!(parked.make_room(6));
    assert_eq!(firsts(&parked), [2]);
    assert!(parked.make_room(10));
    assert!(parked.is_empty());
}

#[test]
fn only_a_better_state_is_taken_and_of_equal_ones_the_newest() {
    let mut parked = Parked::new(100);
    let of_bytes = |bytes| state(1, 4, bytes);
    parked.park(of_bytes(10));
    parked.park(of_bytes(20));
    let prompt = [1, 0, 0, 7];
    let mut take = |current| take_better(&mut parked, &prompt, current);
    assert_eq!(take(3), None);
    assert_eq!(take(2), Some(of_bytes(20)));
    assert_eq!(take(2), Some(of_bytes(10)));
    assert_eq!(take(0), None);
}

#[test]
fn only_a_request_of_another_conversation_parks_the_current_one() {
    let parked = Parked::new(10);
    let own = Some(ConversationId(1));
    let other = Some(ConversationId(2));
    let mut unnamed = state(1, 100, 10);
    unnamed.conversation = None;
    for (current, conversation, n_reused, expected) in [
        (state(1, 100, 10), own, 0, false),
        (state(1, 100, 10), other, 0, true),
        (state(1, 100, 10), None, 0, true),
        (unnamed.clone(), own, 0, true),
        (unnamed, None, 0, true),
        // The request drops only a few tokens, or the limit is too low.
        (state(1, 100, 10), other, 100 - FEW_TOKENS - 1, true),
        (state(1, 100, 10), other, 100 - FEW_TOKENS, false),
        (state(1, 100, 11), other, 0, false),
    ] {
        let found = parked.must_park(&current, conversation, n_reused);
        assert_eq!(found, expected, "{current:?}, {conversation:?}, {n_reused}");
    }
}

proptest! {
    #[test]
    fn the_limit_is_never_exceeded_and_the_newest_state_stays(
        limit in 0..20u64, states in prop::collection::vec((1..9u32, 1..4usize, 0..25u64), 0..30),
    ) {
        let mut parked = Parked::new(limit);
        for (first, n_tokens, bytes) in states {
            let before = firsts(&parked);
            parked.park(state(first, n_tokens, bytes));
            prop_assert!(parked.bytes() <= limit);
            let after = firsts(&parked);
            if bytes > limit {
                prop_assert_eq!(after, before);
            } else {
                let (newest, older) = after.split_last().unwrap();
                prop_assert_eq!(*newest, first);
                prop_assert!(before.ends_with(older));
            }
        }
    }
}
