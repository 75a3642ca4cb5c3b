use super::*;
use crate::test_support::{
    ALL, DENSE, HYBRID, TOLERANCE, Talk, WINDOWED, alone, decoder, difference, part_of, read_anew,
    session, text,
};

/// The cache is made for 1,024 tokens and then for all of these.
const CONTEXT: usize = 2048;

#[test]
fn going_back_anywhere_answers_like_a_fresh_reading() {
    for tiny in ALL {
        let mut talk = Talk::new(tiny, CONTEXT);
        let mut prompt = text(8, 950);
        for number in 0..12_u32 {
            let (answer, _) = talk.turn(alone(&prompt), 25);
            prompt.extend(answer);
            if number % 4 == 3 {
                talk.save_and_restore();
            }
            // Some turns go on, others leave the text anywhere before.
            let kept = match number % 3 {
                0 => prompt.len(),
                1 => prompt.len() - text(number, 1)[0] as usize % 90,
                _ => prompt.len() / (2 + number as usize % 3),
            };
            prompt.truncate(kept);
            let most = if number < 6 { 60 } else { 400 };
            prompt.extend(text(100 + number, most + number as usize));
        }
    }
}

#[test]
fn a_cache_that_grew_in_mid_answer_goes_back_without_reading_again() {
    for tiny in [DENSE, WINDOWED] {
        let mut talk = Talk::new(tiny, CONTEXT);
        let prompt = text(1, 1000);
        talk.turn(alone(&prompt), 60);
        for place in [990, 700, 300] {
            let back = [&prompt[..place], &text(2, 10)].concat();
            let (_, n_cached) = talk.turn(alone(&back), 2);
            assert_eq!(n_cached, place, "{}", tiny.name);
        }
    }
}

#[test]
fn a_restored_conversation_goes_back_without_reading_again() {
    for tiny in [DENSE, WINDOWED] {
        let mut talk = Talk::new(tiny, CONTEXT);
        let prompt = text(3, 400);
        talk.turn(alone(&prompt), 30);
        talk.save_and_restore();
        for place in [390, 200, 100] {
            let back = [&prompt[..place], &text(4, 10)].concat();
            let (_, n_cached) = talk.turn(alone(&back), 2);
            assert_eq!(n_cached, place, "{}", tiny.name);
        }
    }
}

#[test]
fn a_window_that_lost_what_is_needed_is_read_again() {
    let mut talk = Talk::new(WINDOWED, CONTEXT);
    let prompt = text(5, 400);
    talk.turn(alone(&prompt), 30);
    talk.save_and_restore();
    // llama.cpp puts these where the first tokens were, which no window sees any more.
    let longer = [&*prompt, &*text(6, 300)].concat();
    let (_, n_cached) = talk.turn(alone(&longer), 2);
    assert_eq!(n_cached, prompt.len());
    let back = [&prompt[..200], &text(7, 10)].concat();
    let (_, n_cached) = talk.turn(alone(&back), 2);
    assert_eq!(n_cached, 0);
}

/// A prompt and the same with the exchange after the system prompt left out and `new` at its end.
fn prompts(new: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let (system, first, second) = (text(10, 20), text(11, 300), text(12, 500));
    let shortened = [&*system, &*second, new].concat();
    ([system, first, second].concat(), shortened)
}

#[test]
fn what_follows_left_out_messages_is_moved_within_one_conversation() {
    for tiny in [DENSE, WINDOWED] {
        let (whole, shortened) = prompts(&text(13, 40));
        let mut talk = Talk::new(tiny, CONTEXT);
        talk.answer(part_of(1, &whole, 0), 5);
        let (_, n_cached) = talk.answer(part_of(1, &shortened, 2), 5);
        assert_eq!(n_cached, 520, "{}", tiny.name);
        // The same messages are left out of the next turn: nothing is moved again.
        let next = [&*shortened, &*text(14, 30)].concat();
        let (_, n_cached) = talk.answer(part_of(1, &next, 2), 5);
        assert_eq!(n_cached, shortened.len(), "{}", tiny.name);
    }
}

#[test]
fn moved_keys_are_rotated_before_the_cache_grows() {
    for tiny in [DENSE, WINDOWED] {
        let (whole, shortened) = prompts(&text(13, 600));
        let logits = |reserved: usize| {
            let mut talk = Talk::new(tiny, CONTEXT);
            talk.session.reserve(reserved).expect("there is memory");
            talk.answer(part_of(1, &whole, 0), 2);
            let (_, n_cached) = talk.answer(part_of(1, &shortened, 2), 2);
            assert_eq!(n_cached, 520, "{}", tiny.name);
            talk.session
                .logits(0)
                .expect("the last step gave some")
                .to_vec()
        };
        let difference = difference(&logits(1), &logits(CONTEXT));
        assert!(difference <= 1e-4, "{}: {difference}", tiny.name);
    }
}

#[test]
fn a_turn_without_earlier_reasoning_is_read_like_a_fresh_one() {
    for tiny in [DENSE, WINDOWED] {
        let mut talk = Talk::new(tiny, CONTEXT);
        let (question, reasoning, said) = (text(20, 200), text(21, 150), text(22, 120));
        let whole = [&*question, &*reasoning, &*said].concat();
        talk.turn(part_of(1, &whole, 0), 5);
        let next = [&*question, &*said, &*text(23, 40)].concat();
        let (_, n_cached) = talk.turn(part_of(1, &next, 0), 20);
        assert_eq!(n_cached, question.len(), "{}", tiny.name);
    }
}

#[test]
fn the_text_of_another_conversation_is_never_moved() {
    let (whole, shortened) = prompts(&text(13, 40));
    for (first, second) in [
        (part_of(1, &whole, 0), part_of(2, &shortened, 2)),
        (alone(&whole), part_of(2, &shortened, 2)),
        (part_of(1, &whole, 0), alone(&shortened)),
    ] {
        for tiny in [DENSE, WINDOWED] {
            let mut talk = Talk::new(tiny, CONTEXT);
            talk.answer(first, 5);
            let (_, n_cached) = talk.turn(second, 5);
            assert_eq!(n_cached, 20, "{}", tiny.name);
        }
    }
}

#[test]
fn what_was_moved_serves_no_other_conversation_even_after_a_restore() {
    let (whole, shortened) = prompts(&text(13, 40));
    for is_restored in [false, true] {
        let mut talk = Talk::new(DENSE, CONTEXT);
        talk.answer(part_of(1, &whole, 0), 5);
        talk.answer(part_of(1, &shortened, 2), 5);
        if is_restored {
            talk.save_and_restore();
        }
        // Its own conversation goes on with it.
        let (_, n_cached) = talk.answer(part_of(1, &shortened, 2), 5);
        assert_eq!(n_cached, shortened.len() - 1);
        let (_, n_cached) = talk.turn(part_of(2, &shortened, 0), 5);
        assert_eq!(n_cached, 20);
    }
}

#[test]
fn tokens_that_were_moved_and_never_rotated_are_forgotten() {
    let (whole, shortened) = prompts(&text(13, 40));
    let mut talk = Talk::new(DENSE, CONTEXT);
    for is_stopped_in_a_step in [false, true] {
        talk.answer(part_of(1, &whole, 0), 5);
        let decoder = decoder(&mut talk.session, part_of(1, &shortened, 2));
        assert_eq!(decoder.n_cached(), 520);
        if is_stopped_in_a_step {
            let stopped = JobControl::new();
            stopped.cancel();
            let part = &shortened[520..];
            assert_eq!(decoder.session.append(part, 1, &stopped), Ok(false));
        }
        drop(decoder);
        assert_eq!(talk.session.tokens(), &whole[..20]);
        talk.save_and_restore();
        talk.turn(alone(&whole), 5);
    }
}

#[test]
fn another_answer_of_a_hybrid_reads_only_what_opens_it() {
    let mut talk = Talk::new(HYBRID, CONTEXT);
    let prompt = text(30, 150);
    let (first, _) = talk.turn(alone(&prompt), 40);
    for is_restored in [false, true] {
        if is_restored {
            talk.save_and_restore();
        }
        let (again, n_cached) = talk.turn(alone(&prompt), 40);
        assert_eq!(n_cached, prompt.len() - OPENING_TOKENS);
        assert_eq!(again, first);
    }
}

#[test]
fn a_hybrid_does_not_read_the_question_again_without_its_reasoning() {
    let mut talk = Talk::new(HYBRID, CONTEXT);
    let prompt = text(31, 130);
    talk.turn(part_of(1, &prompt, 0), 50);
    // The template repeats the question, but neither its last tokens nor the reasoning.
    let next = [&prompt[..prompt.len() - 5], &text(32, 60)].concat();
    let (_, n_cached) = talk.turn(part_of(1, &next, 0), 20);
    assert_eq!(n_cached, prompt.len() - OPENING_TOKENS);
}

#[test]
fn an_edited_question_to_a_hybrid_is_read_from_where_it_begins() {
    let mut talk = Talk::new(HYBRID, CONTEXT);
    let mut said = text(33, 50);
    let (answer, _) = talk.turn(alone(&said), 30);
    said.extend(answer);
    let question = [&said[..], &text(34, 40)].concat();
    talk.turn(alone(&question), 30);
    let edited = [&said[..], &text(35, 40)].concat();
    let (_, n_cached) = talk.turn(alone(&edited), 20);
    assert_eq!(n_cached, said.len() - 1, "the last token was not read");
}

#[test]
fn a_hybrid_whose_step_was_stopped_goes_back_to_a_checkpoint() {
    let mut talk = Talk::new(HYBRID, CONTEXT);
    let prompt = text(36, 120);
    talk.turn(alone(&prompt), 10);
    let stopped = JobControl::new();
    stopped.cancel();
    assert_eq!(talk.session.append(&text(37, 60), 1, &stopped), Ok(false));
    let place = prompt.len() - OPENING_TOKENS;
    assert_eq!(talk.session.tokens(), &prompt[..place]);
    let (_, n_cached) = talk.turn(alone(&prompt), 10);
    assert_eq!(n_cached, place);
}

#[test]
fn a_hybrid_reads_again_what_follows_left_out_messages() {
    let (whole, shortened) = prompts(&text(13, 40));
    let mut talk = Talk::new(HYBRID, CONTEXT);
    talk.turn(part_of(1, &whole, 0), 50);
    let (_, n_cached) = talk.turn(part_of(1, &shortened, 2), 20);
    assert_eq!(n_cached, 0);
}

#[test]
fn a_hybrid_goes_on_in_a_full_context_and_answers_others_as_ever() {
    let mut talk = Talk::new(HYBRID, 256);
    let prompt = text(38, 200);
    let (answer, _) = talk.answer(part_of(1, &prompt, 0), 150);
    assert_eq!(answer.len(), 150);
    talk.turn(part_of(2, &prompt, 0), 20);
}

#[test]
fn the_hybrid_remembers_more_than_its_last_tokens() {
    // Else none of these tests could see a state that is wrong.
    let mut session = session(HYBRID, CONTEXT);
    let logits = [text(40, 10), text(41, 10)]
        .map(|first| read_anew(&mut session, &[first, text(42, 40)].concat()));
    let difference = difference(&logits[0], &logits[1]);
    assert!(difference > 5.0 * TOLERANCE, "{difference}");
}
