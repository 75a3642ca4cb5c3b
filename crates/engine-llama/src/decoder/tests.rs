use transom_engine::generation::OPENING_TOKENS;

use super::*;
use crate::test_support::{
    ALL, DENSE, HYBRID, TOLERANCE, TestSession, WINDOWED, decoder, difference, in_conversation,
    logits_from_scratch, random_tokens, session, without_conversation,
};

/// The cache is first allocated for 1,024 tokens, then for all of these.
const CONTEXT: usize = 2048;

#[test]
fn rewinding_anywhere_gives_the_response_of_a_fresh_prefill() {
    for test_model in ALL {
        let mut test = TestSession::new(test_model, CONTEXT);
        let mut prompt = random_tokens(8, 950);
        for number in 0..12_u32 {
            let (answer, _) = test.answer_and_check(without_conversation(&prompt), 25);
            prompt.extend(answer);
            if number % 4 == 3 {
                test.save_and_restore();
            }
            // Some turns continue, others rewind to an earlier position.
            let kept = match number % 3 {
                0 => prompt.len(),
                1 => prompt.len() - random_tokens(number, 1)[0] as usize % 90,
                _ => prompt.len() / (2 + number as usize % 3),
            };
            prompt.truncate(kept);
            let most = if number < 6 { 60 } else { 400 };
            prompt.extend(random_tokens(100 + number, most + number as usize));
        }
    }
}

#[test]
fn a_cache_that_grew_during_a_response_rewinds_without_prefill() {
    for test_model in [DENSE, WINDOWED] {
        let mut test = TestSession::new(test_model, CONTEXT);
        let prompt = random_tokens(1, 1000);
        test.answer_and_check(without_conversation(&prompt), 60);
        for position in [990, 700, 300] {
            let back = [&prompt[..position], &random_tokens(2, 10)].concat();
            let (_, n_cached) = test.answer_and_check(without_conversation(&back), 2);
            assert_eq!(n_cached, position, "{}", test_model.name);
        }
    }
}

#[test]
fn a_restored_conversation_rewinds_without_prefill() {
    for test_model in [DENSE, WINDOWED] {
        let mut test = TestSession::new(test_model, CONTEXT);
        let prompt = random_tokens(3, 400);
        test.answer_and_check(without_conversation(&prompt), 30);
        test.save_and_restore();
        for position in [390, 200, 100] {
            let back = [&prompt[..position], &random_tokens(4, 10)].concat();
            let (_, n_cached) = test.answer_and_check(without_conversation(&back), 2);
            assert_eq!(n_cached, position, "{}", test_model.name);
        }
    }
}

#[test]
fn a_sliding_window_that_lost_needed_tokens_gets_a_full_prefill() {
    let mut test = TestSession::new(WINDOWED, CONTEXT);
    let prompt = random_tokens(5, 400);
    test.answer_and_check(without_conversation(&prompt), 30);
    test.save_and_restore();
    // llama.cpp puts these into the cells of the first tokens, which are outside all windows.
    let longer = [&*prompt, &*random_tokens(6, 300)].concat();
    let (_, n_cached) = test.answer_and_check(without_conversation(&longer), 2);
    assert_eq!(n_cached, prompt.len());
    let back = [&prompt[..200], &random_tokens(7, 10)].concat();
    let (_, n_cached) = test.answer_and_check(without_conversation(&back), 2);
    assert_eq!(n_cached, 0);
}

/// Returns a prompt, and the same prompt with the exchange after the system prompt dropped and `new`
/// at its end.
fn prompts(new: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let (system, first, second) = (
        random_tokens(10, 20),
        random_tokens(11, 300),
        random_tokens(12, 500),
    );
    let shortened = [&*system, &*second, new].concat();
    ([system, first, second].concat(), shortened)
}

#[test]
fn tokens_after_dropped_messages_are_moved_within_one_conversation() {
    for test_model in [DENSE, WINDOWED] {
        let (whole, shortened) = prompts(&random_tokens(13, 40));
        let mut test = TestSession::new(test_model, CONTEXT);
        test.answer(in_conversation(1, &whole, 0), 5);
        let (_, n_cached) = test.answer(in_conversation(1, &shortened, 2), 5);
        assert_eq!(n_cached, 520, "{}", test_model.name);
        // The same messages are dropped from the next turn: nothing is moved again.
        let next = [&*shortened, &*random_tokens(14, 30)].concat();
        let (_, n_cached) = test.answer(in_conversation(1, &next, 2), 5);
        assert_eq!(n_cached, shortened.len(), "{}", test_model.name);
    }
}

#[test]
fn moved_keys_are_rotated_before_the_cache_grows() {
    for test_model in [DENSE, WINDOWED] {
        let (whole, shortened) = prompts(&random_tokens(13, 600));
        let logits = |reserved: usize| {
            let mut test = TestSession::new(test_model, CONTEXT);
            test.session.reserve(reserved).expect("there is memory");
            test.answer(in_conversation(1, &whole, 0), 2);
            let (_, n_cached) = test.answer(in_conversation(1, &shortened, 2), 2);
            assert_eq!(n_cached, 520, "{}", test_model.name);
            test.session
                .logits(0)
                .expect("the last step gave some")
                .to_vec()
        };
        let difference = difference(&logits(1), &logits(CONTEXT));
        assert!(difference <= 1e-4, "{}: {difference}", test_model.name);
    }
}

#[test]
fn a_turn_without_earlier_reasoning_equals_a_fresh_prefill() {
    for test_model in [DENSE, WINDOWED] {
        let mut test = TestSession::new(test_model, CONTEXT);
        let (question, reasoning, conversation) = (
            random_tokens(20, 200),
            random_tokens(21, 150),
            random_tokens(22, 120),
        );
        let whole = [&*question, &*reasoning, &*conversation].concat();
        test.answer_and_check(in_conversation(1, &whole, 0), 5);
        let next = [&*question, &*conversation, &*random_tokens(23, 40)].concat();
        let (_, n_cached) = test.answer_and_check(in_conversation(1, &next, 0), 20);
        assert_eq!(n_cached, question.len(), "{}", test_model.name);
    }
}

#[test]
fn tokens_of_another_conversation_are_never_moved() {
    let (whole, shortened) = prompts(&random_tokens(13, 40));
    for (first, second) in [
        (
            in_conversation(1, &whole, 0),
            in_conversation(2, &shortened, 2),
        ),
        (
            without_conversation(&whole),
            in_conversation(2, &shortened, 2),
        ),
        (
            in_conversation(1, &whole, 0),
            without_conversation(&shortened),
        ),
    ] {
        for test_model in [DENSE, WINDOWED] {
            let mut test = TestSession::new(test_model, CONTEXT);
            test.answer(first, 5);
            let (_, n_cached) = test.answer_and_check(second, 5);
            assert_eq!(n_cached, 20, "{}", test_model.name);
        }
    }
}

#[test]
fn moved_tokens_are_not_reused_by_other_conversations_even_after_a_restore() {
    let (whole, shortened) = prompts(&random_tokens(13, 40));
    for is_restored in [false, true] {
        let mut test = TestSession::new(DENSE, CONTEXT);
        test.answer(in_conversation(1, &whole, 0), 5);
        test.answer(in_conversation(1, &shortened, 2), 5);
        if is_restored {
            test.save_and_restore();
        }
        // The same conversation reuses them.
        let (_, n_cached) = test.answer(in_conversation(1, &shortened, 2), 5);
        assert_eq!(n_cached, shortened.len() - 1);
        let (_, n_cached) = test.answer_and_check(in_conversation(2, &shortened, 0), 5);
        assert_eq!(n_cached, 20);
    }
}

#[test]
fn moved_tokens_that_were_never_rotated_are_removed() {
    let (whole, shortened) = prompts(&random_tokens(13, 40));
    let mut test = TestSession::new(DENSE, CONTEXT);
    for is_stopped_in_a_step in [false, true] {
        test.answer(in_conversation(1, &whole, 0), 5);
        let mut decoder = decoder(&mut test.session, in_conversation(1, &shortened, 2));
        assert_eq!(decoder.n_cached(), 520);
        if is_stopped_in_a_step {
            let stopped = JobControl::new();
            stopped.cancel();
            let part = &shortened[520..];
            assert_eq!(decoder.session.append(part, 1, &stopped), Ok(false));
        }
        decoder.finish();
        assert_eq!(test.session.tokens(), &whole[..20]);
        test.save_and_restore();
        test.answer_and_check(without_conversation(&whole), 5);
    }
}

#[test]
fn a_regenerated_response_of_a_hybrid_processes_only_the_generation_prompt() {
    let mut test = TestSession::new(HYBRID, CONTEXT);
    let prompt = random_tokens(30, 150);
    let (first, _) = test.answer_and_check(without_conversation(&prompt), 40);
    for is_restored in [false, true] {
        if is_restored {
            test.save_and_restore();
        }
        let (again, n_cached) = test.answer_and_check(without_conversation(&prompt), 40);
        assert_eq!(n_cached, prompt.len() - OPENING_TOKENS);
        assert_eq!(again, first);
    }
}

#[test]
fn a_hybrid_does_not_process_the_question_again_without_its_reasoning() {
    let mut test = TestSession::new(HYBRID, CONTEXT);
    let prompt = random_tokens(31, 130);
    test.answer_and_check(in_conversation(1, &prompt, 0), 50);
    // The template omits the question's last tokens and the reasoning.
    let next = [&prompt[..prompt.len() - 5], &random_tokens(32, 60)].concat();
    let (_, n_cached) = test.answer_and_check(in_conversation(1, &next, 0), 20);
    assert_eq!(n_cached, prompt.len() - OPENING_TOKENS);
}

#[test]
fn an_edited_question_to_a_hybrid_is_processed_from_its_start() {
    let mut test = TestSession::new(HYBRID, CONTEXT);
    let mut conversation = random_tokens(33, 50);
    let (answer, _) = test.answer_and_check(without_conversation(&conversation), 30);
    conversation.extend(answer);
    let question = [&conversation[..], &random_tokens(34, 40)].concat();
    test.answer_and_check(without_conversation(&question), 30);
    let edited = [&conversation[..], &random_tokens(35, 40)].concat();
    let (_, n_cached) = test.answer_and_check(without_conversation(&edited), 20);
    assert_eq!(
        n_cached,
        conversation.len() - 1,
        "the last token was not in the cache"
    );
}

#[test]
fn a_hybrid_rewinds_to_a_checkpoint_after_a_stopped_step() {
    let mut test = TestSession::new(HYBRID, CONTEXT);
    let prompt = random_tokens(36, 120);
    test.answer_and_check(without_conversation(&prompt), 10);
    let stopped = JobControl::new();
    stopped.cancel();
    assert_eq!(
        test.session.append(&random_tokens(37, 60), 1, &stopped),
        Ok(false)
    );
    let position = prompt.len() - OPENING_TOKENS;
    assert_eq!(test.session.tokens(), &prompt[..position]);
    let (_, n_cached) = test.answer_and_check(without_conversation(&prompt), 10);
    assert_eq!(n_cached, position);
}

#[test]
fn a_hybrid_processes_tokens_after_dropped_messages_again() {
    let (whole, shortened) = prompts(&random_tokens(13, 40));
    let mut test = TestSession::new(HYBRID, CONTEXT);
    test.answer_and_check(in_conversation(1, &whole, 0), 50);
    let (_, n_cached) = test.answer_and_check(in_conversation(1, &shortened, 2), 20);
    assert_eq!(n_cached, 0);
}

#[test]
fn a_hybrid_shifts_a_full_context_and_then_serves_another_conversation() {
    let mut test = TestSession::new(HYBRID, 256);
    let prompt = random_tokens(38, 200);
    let (answer, _) = test.answer(in_conversation(1, &prompt, 0), 150);
    assert_eq!(answer.len(), 150);
    test.answer_and_check(in_conversation(2, &prompt, 0), 20);
}

#[test]
fn the_hybrid_depends_on_more_than_its_last_tokens() {
    // Otherwise these tests could not detect a wrong state.
    let mut session = session(HYBRID, CONTEXT);
    let logits = [random_tokens(40, 10), random_tokens(41, 10)]
        .map(|first| logits_from_scratch(&mut session, &[first, random_tokens(42, 40)].concat()));
    let difference = difference(&logits[0], &logits[1]);
    assert!(difference > 5.0 * TOLERANCE, "{difference}");
}
