//! One test suite for every engine, through the real child process.
//!
//! A case is a function over a [`subject::Subject`]. The list below makes a test of each case for
//! every engine, such as `mlx::a_full_context_ends_the_response`. Rule: a case names no engine.
//! Where engines are meant to differ, the subject declares it.

#![expect(clippy::unwrap_used, reason = "a test fails at the first error")]

mod cases;
mod damage;
mod models;
mod process;
mod request;
mod response;
mod subject;

use std::future::Future;
use std::time::Duration;

use subject::Subject;

/// Timeout of a case. No case comes near it, even if every core is busy.
const CASE_TIMEOUT: Duration = Duration::from_secs(300);

fn run<F: Future<Output = ()>>(
    subject: &'static Subject,
    case: impl FnOnce(&'static Subject) -> F,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let outcome =
        runtime.block_on(async { tokio::time::timeout(CASE_TIMEOUT, case(subject)).await });
    assert!(
        outcome.is_ok(),
        "the case took longer than {CASE_TIMEOUT:?}"
    );
}

/// A test for each case and engine.
macro_rules! conformance {
    ($($module:ident: $($case:ident)+;)+) => {
        mod mlx {
            use crate::{cases, run, subject::MLX};
            $($(
                #[test]
                fn $case() {
                    run(&MLX, cases::$module::$case);
                }
            )+)+
        }

        mod llama {
            use crate::{cases, run, subject::LLAMA};
            $($(
                #[test]
                fn $case() {
                    run(&LLAMA, cases::$module::$case);
                }
            )+)+
        }
    };
}

conformance! {
    loading:
        a_load_reports_progress_and_model_information
        the_context_length_is_the_lower_of_model_and_request
        files_of_the_other_engine_are_refused_with_a_reason
        a_process_with_several_engines_uses_the_one_that_supports_the_model
        the_error_names_a_missing_model
        a_path_can_have_any_characters
        the_error_names_a_damaged_file_and_the_process_stays_usable
        an_inconsistent_model_ends_only_its_own_process
        a_model_without_a_template_continues_text_and_refuses_chats
        extreme_limits_are_respected
        a_stopped_load_fails_or_completes;
    constraints:
        every_constrained_response_is_valid
        every_finished_answer_of_the_starter_is_valid
        a_title_is_one_short_line_whatever_the_model_writes
        a_constraint_survives_reasoning_drafts_cached_text_and_a_stop
        forced_and_drafted_tokens_change_no_constrained_response
        the_constraint_begins_after_the_reasoning
        a_constraint_that_cannot_be_held_is_refused_before_any_work;
    tools:
        required_and_named_calls_are_always_valid
        a_required_call_is_valid_in_every_form
        a_response_that_may_call_may_also_answer;
    responses:
        a_response_streams_in_order_with_consistent_statistics
        greedy_text_is_the_same_in_every_process
        a_seed_determines_the_response
        the_prompt_has_the_tokens_of_the_tokenizer
        empty_and_too_long_prompts_are_refused_with_their_sizes
        parameters_out_of_range_are_refused_before_any_work
        long_conversations_are_refused_or_shortened
        unusual_messages_get_a_response
        speculation_does_not_change_greedy_text
        speculation_does_not_change_sampled_text
        every_family_generates_the_same_with_and_without_a_cache;
    sampling:
        filters_that_leave_one_token_are_greedy
        extreme_parameters_give_the_most_likely_token
        a_bias_bans_and_forces
        ties_go_to_the_lower_token_id
        samples_follow_the_distribution
        filters_apply_before_temperature
        penalties_apply_to_the_documented_tokens;
    text:
        characters_are_never_split
        special_tokens_are_never_shown
        log_probabilities_come_with_their_text
        tokens_of_a_prompt_are_counted
        reasoning_is_separated_from_the_answer
        a_template_can_start_in_reasoning
        a_stop_string_is_found_across_tokens
        the_first_of_several_stop_strings_ends_the_response;
    tokens:
        a_gap_is_filled_between_its_markers
        texts_become_tokens_and_tokens_become_texts;
    endings:
        a_response_ends_at_its_token_limit
        a_response_ends_at_the_end_of_text_token
        a_full_context_ends_the_response
        a_full_context_is_shifted_if_the_engine_supports_it;
    stopping:
        a_stop_in_prefill_ends_it_and_the_next_response_is_correct
        a_stop_within_a_long_step_keeps_the_cache_valid
        a_stop_in_decode_ends_it_and_the_next_response_is_correct
        a_job_stopped_in_the_queue_does_no_work
        an_unload_ends_a_running_response;
    together:
        every_family_generates_in_turns_what_it_generates_alone
        a_short_response_does_not_wait_for_a_long_one
        a_stopped_response_changes_no_other
        conversations_continue_after_they_ran_beside_each_other
        a_response_reuses_the_prompt_of_a_running_one
        the_memory_of_a_further_response_is_free_after_it;
    prefix:
        the_prefill_chunk_does_not_change_the_text
        a_second_turn_computes_only_new_tokens
        tokens_of_the_response_are_not_computed_again
        a_refused_request_keeps_the_cached_prefix
        an_edited_message_is_reused_up_to_the_edit
        another_conversation_gets_the_response_of_a_new_process
        the_oldest_exchanges_are_dropped_when_the_context_is_full;
    memory:
        a_trim_keeps_the_cached_prefix
        a_trim_of_everything_frees_the_kv_cache
        a_trim_does_not_change_a_running_response
        a_full_context_stays_within_the_measured_need
        a_small_kv_cache_needs_no_more_than_the_default;
    parked:
        a_conversation_continues_after_another_one
        a_new_conversation_computes_only_what_is_not_shared
        an_edited_message_rewinds_its_own_conversation
        other_conversations_stay_within_their_limit
        a_trim_drops_other_conversations
        every_conversation_is_saved;
    saved_state:
        a_saved_kv_cache_is_restored_in_a_new_process
        an_invalid_saved_kv_cache_is_ignored
        an_empty_kv_cache_is_not_saved
        the_kv_cache_of_a_stopped_response_is_saved;
    lifecycle:
        twenty_loads_do_not_grow_the_footprint
        an_unload_frees_the_memory
        models_in_turn_generate_the_same_as_alone
        a_killed_process_is_reported_once_and_can_be_replaced
        an_abort_of_a_native_library_ends_only_its_process;
}

/// The engines generate the same text with the same weights.
#[test]
fn the_starter_generates_the_same_in_every_engine() {
    run(&subject::MLX, |mlx| {
        cases::responses::responses_equal(mlx, &subject::LLAMA)
    });
}
