//! Switching between conversations: responses equal those of a fresh prefill.

use transom_engine::JobControl;
use transom_engine::generation::{Decode, OPENING_TOKENS};

use super::*;
use crate::test_support::{
    ALL, HYBRID, TestModel, TestSession, WINDOWED, decoder, difference, in_conversation,
    random_tokens,
};

/// The cache is first allocated for 1,024 tokens, then for all of these.
const CONTEXT: usize = 2048;

/// A limit that no test reaches.
const ENOUGH: u64 = 1 << 30;

/// Number of tokens that [`next_prompt`] adds and that are not cached: the last one of the response,
/// and a message of 30.
const N_NEW: usize = 31;

/// Adds the response and a new message to `prompt`.
fn next_prompt(prompt: &[u32], response: &[u32], seed: u32) -> Vec<u32> {
    [prompt, response, &random_tokens(seed, N_NEW - 1)].concat()
}

/// Returns `n` tokens after `system`, the first of which is `first`.
fn after(system: &[u32], first: u32, n: usize) -> Vec<u32> {
    [system, &[first], &random_tokens(first, n - 1)].concat()
}

#[test]
fn each_conversation_continues_at_its_end_after_the_other_one() {
    for test_model in ALL {
        let mut test = TestSession::with_parked(test_model, CONTEXT, ENOUGH);
        let mut prompts = [random_tokens(50, 400), random_tokens(51, 350)];
        for turn in 0..3 {
            for (id, prompt) in prompts.iter_mut().enumerate() {
                let asked = in_conversation(id as u64, prompt, 0);
                let (response, n_cached) = test.answer_and_check(asked, 25);
                if turn > 0 {
                    assert_eq!(n_cached, prompt.len() - N_NEW, "{}", test_model.name);
                }
                *prompt = next_prompt(prompt, &response, 60 + turn);
            }
        }
    }
}

#[test]
fn a_new_conversation_reads_only_what_follows_the_shared_system_prompt() {
    for test_model in [DENSE, WINDOWED] {
        let mut test = TestSession::with_parked(test_model, CONTEXT, ENOUGH);
        let system = random_tokens(52, 300);
        let prompts = [21, 22, 23].map(|first| after(&system, first, 400));
        test.answer_and_check(in_conversation(0, &prompts[0], 0), 5);
        // From the current conversation, then from a parked one.
        let (_, n_cached) = test.answer_and_check(in_conversation(1, &prompts[1], 0), 5);
        assert_eq!(n_cached, system.len(), "{}", test_model.name);
        let other = random_tokens(53, 400);
        test.answer_and_check(in_conversation(9, &other, 0), 5);
        let (_, n_cached) = test.answer_and_check(in_conversation(2, &prompts[2], 0), 5);
        assert_eq!(n_cached, system.len(), "{}", test_model.name);
        for (id, prompt) in prompts.iter().enumerate() {
            let (_, n_cached) = test.answer_and_check(in_conversation(id as u64, prompt, 0), 5);
            assert_eq!(n_cached, prompt.len() - 1, "{}, {id}", test_model.name);
        }
    }
}

#[test]
fn a_conversation_returns_to_a_cache_that_grows_for_it() {
    for test_model in ALL {
        let mut test = TestSession::with_parked(test_model, CONTEXT, ENOUGH);
        let (first, second) = (random_tokens(54, 400), random_tokens(55, 350));
        let (of_first, _) = test.answer_and_check(in_conversation(1, &first, 0), 20);
        let (of_second, _) = test.answer_and_check(in_conversation(2, &second, 0), 20);
        let first = [&*first, &*of_first, &*random_tokens(56, 900)].concat();
        let (_, n_cached) = test.answer_and_check(in_conversation(1, &first, 0), 5);
        assert_eq!(n_cached, 419, "{}", test_model.name);
        let second = next_prompt(&second, &of_second, 57);
        let (_, n_cached) = test.answer_and_check(in_conversation(2, &second, 0), 5);
        assert_eq!(n_cached, second.len() - N_NEW, "{}", test_model.name);
    }
}

#[test]
fn a_hybrid_returns_to_the_checkpoint_of_a_parked_conversation() {
    let mut test = TestSession::with_parked(HYBRID, CONTEXT, ENOUGH);
    let (prompt, other) = (random_tokens(58, 400), random_tokens(59, 400));
    let (first, _) = test.answer_and_check(in_conversation(1, &prompt, 0), 40);
    test.answer_and_check(in_conversation(2, &other, 0), 10);
    let (again, n_cached) = test.answer_and_check(in_conversation(1, &prompt, 0), 40);
    assert_eq!(n_cached, prompt.len() - OPENING_TOKENS);
    assert_eq!(again, first);
}

#[test]
fn shifted_tokens_return_only_to_their_conversation() {
    let (system, dropped, kept) = (
        random_tokens(10, 20),
        random_tokens(11, 300),
        random_tokens(12, 500),
    );
    let whole = [&*system, &*dropped, &*kept].concat();
    let shortened = [&*system, &*kept, &*random_tokens(13, 40)].concat();
    let next = [&*shortened, &*random_tokens(14, 30)].concat();
    let other = random_tokens(15, 400);
    for test_model in [DENSE, WINDOWED] {
        let logits = |switches: bool| {
            let mut test = TestSession::with_parked(test_model, CONTEXT, ENOUGH);
            test.answer(in_conversation(1, &whole, 0), 2);
            test.answer(in_conversation(1, &shortened, 2), 2);
            if switches {
                test.answer_and_check(in_conversation(2, &other, 0), 2);
            }
            let (_, n_cached) = test.answer(in_conversation(1, &next, 2), 2);
            assert_eq!(n_cached, shortened.len(), "{}", test_model.name);
            let logits = test.session.logits(0);
            let logits = logits.expect("the last step gave some").to_vec();
            // They are neither taken from the current conversation nor from a parked one.
            for (id, prompt) in [(3, &shortened), (4, &other), (5, &next)] {
                test.answer_and_check(in_conversation(id, prompt, 0), 2);
            }
            logits
        };
        let difference = difference(&logits(true), &logits(false));
        assert!(difference <= 1e-4, "{}: {difference}", test_model.name);
    }
}

#[test]
fn a_canceled_request_leaves_the_other_conversation_as_it_was() {
    for test_model in ALL {
        let mut test = TestSession::with_parked(test_model, CONTEXT, ENOUGH);
        let (prompt, other) = (random_tokens(61, 400), random_tokens(62, 500));
        let (response, _) = test.answer_and_check(in_conversation(1, &prompt, 0), 20);
        let mut canceled = decoder(&mut test.session, in_conversation(2, &other, 0));
        let stopped = JobControl::new();
        stopped.cancel();
        let is_processed = canceled.prefill_step(&other[..200], false, &stopped);
        assert_eq!(is_processed, Ok(false));
        canceled.finish();
        let next = next_prompt(&prompt, &response, 63);
        let (_, n_cached) = test.answer_and_check(in_conversation(1, &next, 0), 10);
        assert_eq!(n_cached, next.len() - N_NEW, "{}", test_model.name);
        test.answer_and_check(in_conversation(2, &other, 0), 10);
    }
}

/// Returns the bytes of a parked conversation of 401 tokens.
fn parked_bytes(test_model: TestModel) -> u64 {
    let mut test = TestSession::with_parked(test_model, CONTEXT, ENOUGH);
    for id in [1, 2] {
        let prompt = random_tokens(id, 400);
        test.answer(in_conversation(id.into(), &prompt, 0), 2);
    }
    assert_eq!(test.session.shared.parked.len(), 1, "{}", test_model.name);
    test.session.shared.parked.bytes()
}

#[test]
fn the_limit_is_kept_and_changes_no_response() {
    for test_model in ALL {
        let limit = 3 * parked_bytes(test_model);
        let mut test = TestSession::with_parked(test_model, CONTEXT, limit);
        let system = random_tokens(64, 100);
        let mut prompts = [31, 32, 33, 34].map(|first| after(&system, first, 300));
        let mut most = 0;
        for step in 0..16_u32 {
            let random = random_tokens(step, 8);
            let id = random[6] as usize % prompts.len();
            let prompt = &mut prompts[id];
            let (response, _) = test.answer_and_check(in_conversation(id as u64, prompt, 0), 10);
            assert!(
                test.session.shared.parked.bytes() <= limit,
                "{}",
                test_model.name
            );
            most = most.max(test.session.shared.parked.len());
            prompt.extend(response);
            // Some turns edit an earlier message.
            if step % 3 == 2 {
                prompt.truncate(prompt.len() - random[7] as usize % 200);
            }
            prompt.extend(random_tokens(200 + step, 40));
        }
        assert!(most > 0, "{}: nothing was parked", test_model.name);
    }
}

#[test]
fn no_conversation_is_copied_without_a_limit_or_if_it_is_short() {
    for (limit, n_tokens) in [(0, 400), (ENOUGH, FEW_TOKENS - 5)] {
        let mut test = TestSession::with_parked(DENSE, CONTEXT, limit);
        for id in [1, 2, 1] {
            let prompt = random_tokens(id, n_tokens);
            let (_, n_cached) = test.answer_and_check(in_conversation(id.into(), &prompt, 0), 5);
            assert!(n_cached < 10, "{n_cached}");
            assert!(test.session.shared.parked.is_empty());
        }
    }
}

#[test]
fn a_private_conversation_returns_as_a_private_one() {
    fn private(prompt: &[u32]) -> SessionPrompt<'_> {
        SessionPrompt {
            is_private: true,
            ..in_conversation(1, prompt, 0)
        }
    }
    let mut test = TestSession::with_parked(DENSE, CONTEXT, ENOUGH);
    let (prompt, other) = (random_tokens(65, 400), random_tokens(66, 500));
    let (response, _) = test.answer_and_check(private(&prompt), 20);
    test.answer_and_check(in_conversation(2, &other, 0), 5);
    assert!(!test.session.is_private);
    let next = next_prompt(&prompt, &response, 67);
    let (_, n_cached) = test.answer_and_check(private(&next), 5);
    assert_eq!(n_cached, next.len() - N_NEW);
    assert!(test.session.is_private);
}

#[test]
fn a_parked_conversation_that_cannot_be_restored_is_read_again() {
    for test_model in ALL {
        let mut test = TestSession::with_parked(test_model, CONTEXT, ENOUGH);
        let (prompt, other) = (random_tokens(68, 400), random_tokens(74, 400));
        let (response, _) = test.answer_and_check(in_conversation(1, &prompt, 0), 20);
        let (of_other, _) = test.answer_and_check(in_conversation(2, &other, 0), 20);
        let next = next_prompt(&prompt, &response, 75);
        let prompt = in_conversation(1, &next, 0);
        let parked = &mut test.session.shared.parked;
        let damaged = parked.take_better(0, |parked| parked.reusable_by(&prompt));
        let mut damaged = damaged.expect("it was parked");
        // llama.cpp notices only after it has restored everything else.
        damaged.state.pop();
        parked.park(damaged);
        let (_, n_cached) = test.answer_and_check(prompt, 10);
        assert_eq!(n_cached, 0, "{}", test_model.name);
        // The other one was parked before that.
        let next = next_prompt(&other, &of_other, 76);
        let (_, n_cached) = test.answer_and_check(in_conversation(2, &next, 0), 10);
        assert_eq!(n_cached, next.len() - N_NEW, "{}", test_model.name);
    }
}

#[test]
fn parked_bytes_are_known_before_the_copy() {
    for test_model in ALL {
        let mut session = crate::test_support::session(test_model, CONTEXT);
        last_logits(&mut session, &random_tokens(69, 400));
        session.set_checkpoint();
        let context = session.context.as_ref().expect("it was created");
        let expected = ParkedConversation::copy_bytes(&session.conversation, (context, 0));
        let copy = ParkedConversation::copy(&session.conversation, (context, 0), session.rules());
        let copy = copy.expect("there is memory");
        assert_eq!(copy.bytes(), expected, "{}", test_model.name);
    }
}

#[test]
fn the_conversation_that_was_switched_to_is_the_one_that_is_saved() {
    let mut test = TestSession::with_parked(DENSE, CONTEXT, ENOUGH);
    let (prompt, other) = (random_tokens(70, 400), random_tokens(71, 400));
    let (response, _) = test.answer_and_check(in_conversation(1, &prompt, 0), 20);
    test.answer_and_check(in_conversation(2, &other, 0), 5);
    let next = next_prompt(&prompt, &response, 72);
    let (response, _) = test.answer_and_check(in_conversation(1, &next, 0), 20);
    test.save_and_restore();
    assert!(test.session.shared.parked.is_empty());
    let next = next_prompt(&next, &response, 73);
    let (_, n_cached) = test.answer_and_check(in_conversation(1, &next, 0), 5);
    assert_eq!(n_cached, next.len() - N_NEW);
}

/// Growing later would need memory for a copy of the contents, which no estimate counts.
#[test]
fn a_private_conversation_has_a_full_cache_from_its_start() {
    fn private(id: u64, prompt: &[u32]) -> SessionPrompt<'_> {
        SessionPrompt {
            is_private: true,
            ..in_conversation(id, prompt, 0)
        }
    }
    let mut test = TestSession::with_parked(DENSE, CONTEXT, ENOUGH);
    let prompt = random_tokens(76, 100);
    test.answer_and_check(private(1, &prompt), 5);
    assert_eq!(test.session.capacity(), CONTEXT);

    // A private prompt that continues another one, whose contents are kept.
    let mut test = TestSession::with_parked(DENSE, CONTEXT, ENOUGH);
    let (response, _) = test.answer_and_check(in_conversation(1, &prompt, 0), 5);
    assert!(test.session.capacity() < CONTEXT);
    let next = next_prompt(&prompt, &response, 77);
    let (_, n_cached) = test.answer_and_check(private(1, &next), 5);
    assert_eq!(n_cached, next.len() - N_NEW);
    assert_eq!(test.session.capacity(), CONTEXT);
}
