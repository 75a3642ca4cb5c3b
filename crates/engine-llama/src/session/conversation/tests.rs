use super::*;
use crate::test_support::{in_conversation, without_conversation};

/// Rewinds to every position.
const DENSE: CacheRules = CacheRules {
    first_rewind: 0,
    needs_checkpoint: false,
    can_move: true,
};

/// Returns a conversation of the tokens from 0 to 99, with the id 1.
fn cached(n_exact: usize) -> CachedConversation {
    CachedConversation {
        tokens: (0..100).collect(),
        n_exact,
        id: Some(ConversationId(1)),
        ..CachedConversation::default()
    }
}

/// Returns a prompt that shares exactly `n` tokens with [`cached`].
fn sharing(n: u32) -> Vec<u32> {
    (0..n).chain(500..540).collect()
}

fn without_moving(n_kept: usize) -> Reuse {
    Reuse {
        n_kept,
        moved: None,
    }
}

#[test]
fn only_the_same_conversation_reuses_tokens_that_are_not_exact() {
    let conversation = cached(40);
    let prompt = sharing(100);
    let own = in_conversation(1, &prompt, 0);
    let exact = SessionPrompt {
        may_shift: false,
        ..own
    };
    for (prompt, expected) in [
        (own, 100),
        (exact, 40),
        (in_conversation(2, &prompt, 0), 40),
        (without_conversation(&prompt), 40),
    ] {
        let reuse = conversation.reusable(&prompt, DENSE);
        assert_eq!(reuse, without_moving(expected), "{prompt:?}");
    }
}

#[test]
fn the_last_token_of_a_prompt_is_never_reused() {
    let prompt: Vec<u32> = (0..100).collect();
    for (n, expected) in [(0, 0), (1, 0), (50, 49), (100, 99)] {
        let prompt = without_conversation(&prompt[..n]);
        let reuse = cached(100).reusable(&prompt, DENSE);
        assert_eq!(reuse, without_moving(expected));
    }
}

#[test]
fn a_sliding_window_is_reused_only_where_it_stands() {
    for (first_rewind, n_shared, expected) in [
        (70, 60, 0),
        (70, 69, 0),
        (70, 70, 70),
        (70, 100, 100),
        (usize::MAX, 99, 0),
        (usize::MAX, 100, 100),
    ] {
        let rules = CacheRules {
            first_rewind,
            ..DENSE
        };
        let prompt = sharing(n_shared);
        let reuse = cached(100).reusable(&without_conversation(&prompt), rules);
        assert_eq!(reuse, without_moving(expected), "{n_shared}");
    }
}

#[test]
fn recurrent_states_are_reused_at_their_end_or_at_a_checkpoint() {
    let rules = CacheRules {
        needs_checkpoint: true,
        can_move: false,
        ..DENSE
    };
    let conversation = CachedConversation {
        checkpoints: [30, 60]
            .map(|n_tokens| Checkpoint {
                n_tokens,
                states: vec![0; 8],
            })
            .into(),
        ..cached(100)
    };
    for (n_shared, expected) in [(29, 0), (30, 30), (59, 30), (60, 60), (99, 60), (100, 100)] {
        let prompt = sharing(n_shared);
        let reuse = conversation.reusable(&without_conversation(&prompt), rules);
        assert_eq!(reuse, without_moving(expected), "{n_shared}");
    }
}

#[test]
fn tokens_after_dropped_messages_are_reused_if_they_can_be_moved() {
    let prompt: Vec<u32> = (0..10).chain(40..100).chain(500..510).collect();
    let own = in_conversation(1, &prompt, 2);
    let reuse = cached(100).reusable(&own, DENSE);
    let moved = Reuse {
        n_kept: 10,
        moved: Some(40..100),
    };
    assert_eq!(reuse, moved);
    assert_eq!(reuse.n_tokens(), 70);

    let fixed = CacheRules {
        can_move: false,
        ..DENSE
    };
    let no_longer_dropped = CachedConversation {
        dropped_messages: 2,
        ..cached(100)
    };
    let few: Vec<u32> = (0..10).chain(100 - 31..100).chain(500..510).collect();
    for (conversation, prompt, rules) in [
        (cached(100), own, fixed),
        (no_longer_dropped, own, DENSE),
        (cached(100), in_conversation(2, &prompt, 2), DENSE),
        (cached(100), in_conversation(1, &few, 2), DENSE),
    ] {
        let reuse = conversation.reusable(&prompt, rules);
        assert_eq!(reuse, without_moving(10), "{prompt:?}, {rules:?}");
    }
}
