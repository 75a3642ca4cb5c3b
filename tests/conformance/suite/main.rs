//! One suite for every engine, through its real process.
//!
//! A case is one function over a [`subject::Subject`]; the list below gives each a test for every
//! engine, so that a run reads `mlx::a_cancelled_answer_…`. Rule: a case knows no engine by name.
//! Where engines are meant to differ, the subject declares it.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that goes wrong"
)]

mod answer;
mod ask;
mod cases;
mod damage;
mod files;
mod subject;
mod talk;

use std::future::Future;
use std::time::Duration;

use subject::Subject;

/// Limit of a whole case: no case comes near it, even with every core busy.
const PATIENCE: Duration = Duration::from_secs(300);

fn run<F: Future<Output = ()>>(
    subject: &'static Subject,
    case: impl FnOnce(&'static Subject) -> F,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let outcome = runtime.block_on(async { tokio::time::timeout(PATIENCE, case(subject)).await });
    assert!(outcome.is_ok(), "the case took longer than {PATIENCE:?}");
}

/// A test for each case and engine.
macro_rules! conformance {
    ($($room:ident: $($case:ident)+;)+) => {
        mod mlx {
            use crate::{cases, run, subject::MLX};
            $($(
                #[test]
                fn $case() {
                    run(&MLX, cases::$room::$case);
                }
            )+)+
        }

        mod llama {
            use crate::{cases, run, subject::LLAMA};
            $($(
                #[test]
                fn $case() {
                    run(&LLAMA, cases::$room::$case);
                }
            )+)+
        }
    };
}

conformance! {
    loading:
        a_load_tells_its_progress_and_what_was_loaded
        the_context_is_the_least_of_the_models_and_the_callers
        the_other_engines_files_are_refused_with_a_reason
        a_program_of_several_engines_takes_the_one_that_can
        a_model_that_is_not_there_is_named
        a_path_may_have_any_letters
        damaged_files_are_named_and_leave_the_process_usable
        a_model_that_contradicts_itself_ends_only_its_process
        a_model_without_a_template_continues_text_and_refuses_chats
        limits_at_their_edges_are_obeyed
        a_load_that_is_stopped_ends_and_leaves_nothing_behind;
    answers:
        an_answer_streams_in_order_and_its_figures_add_up
        greedy_text_is_the_same_in_every_process
        one_seed_is_one_answer_and_other_seeds_are_others
        the_prompt_has_the_tokenizers_own_tokens
        prompts_that_cannot_be_answered_are_refused_with_their_numbers
        parameters_out_of_range_are_refused_before_any_work
        a_long_message_and_a_long_conversation_are_refused_or_answered
        odd_messages_are_answered
        speculation_changes_no_greedy_text
        speculation_changes_no_draw
        every_family_answers_from_what_is_cached_as_from_nothing;
    sampling:
        filters_that_leave_one_token_are_greedy
        parameters_at_their_edges_give_the_likeliest_token
        a_bias_bans_and_forces
        equals_are_decided_by_the_lower_token
        draws_follow_the_distribution
        filters_come_before_temperature
        penalties_act_on_what_they_are_documented_to_act_on;
    text:
        characters_come_whole
        special_tokens_are_never_shown
        reasoning_is_told_from_the_answer
        a_template_that_opens_reasoning_starts_in_it
        a_stop_string_is_met_wherever_it_is_cut
        the_first_of_several_stop_strings_ends_the_answer;
    endings:
        an_answer_ends_at_its_token_limit
        an_answer_ends_at_the_end_of_text_token
        a_full_context_ends_the_answer
        a_full_context_is_shifted_where_the_engine_can;
    stopping:
        a_stop_in_prefill_ends_it_and_the_next_answer_is_right
        a_stop_inside_a_long_step_leaves_the_cache_sound
        a_stop_in_decode_ends_it_and_the_next_answer_is_right
        a_stop_before_the_start_leaves_nothing_done
        an_unload_ends_a_running_answer;
    prefix:
        prefill_in_any_steps_gives_the_same_text
        a_second_turn_computes_only_what_is_new
        what_was_answered_is_not_computed_again
        a_refused_ask_leaves_the_conversation_cached
        an_edited_message_is_reused_up_to_the_edit
        another_conversation_is_answered_as_in_a_fresh_process
        the_oldest_exchanges_go_when_a_conversation_outgrows_the_context;
    memory:
        a_trim_keeps_the_conversation
        a_trim_of_everything_forgets_the_conversation
        a_trim_in_mid_answer_changes_nothing_of_it
        a_full_context_stays_within_what_was_measured
        a_small_kv_cache_needs_no_more_than_the_usual;
    state:
        a_kept_conversation_goes_on_in_a_new_process
        a_file_that_is_no_kept_conversation_does_no_harm
        nothing_is_kept_of_nothing
        an_answer_that_was_stopped_is_kept_as_far_as_it_came;
    lifecycle:
        twenty_loads_leave_no_growth
        an_unload_gives_the_footprint_back
        one_model_after_another_answers_as_if_alone
        a_process_killed_in_mid_answer_is_reported_once_and_replaced
        an_abort_of_the_library_ends_only_its_process;
}

/// The same weights say the same, whoever computes them.
#[test]
fn the_starter_says_the_same_in_every_engine() {
    run(&subject::MLX, |mlx| {
        cases::answers::says_as(mlx, &subject::LLAMA)
    });
}
