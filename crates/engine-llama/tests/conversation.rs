//! The KV cache of a conversation: growing, shifting, moving, saving and restoring it does not
//! change responses.

#[path = "fixtures/support.rs"]
mod support;

use support::{Model, fixtures, greedy, load, model_path};
use transom_catalog::test_support::TinyModel;
use transom_engine::test_support::{SavedCopy, greedy_params};
use transom_engine::{
    ChatPrompt, ConversationId, EngineError, FinishReason, GenerationParams, JobControl,
    KvCacheChoice, Limits, Message, PreparedPrompt, Prompt, Role, Stats, TokenEvent, Trim,
};
use transom_engine_llama::LlamaEngine;

const MODEL: &str = "llama-f16";

fn model(context_length: usize) -> Model {
    model_with(Limits {
        context_length,
        ..Limits::default()
    })
}

fn model_with(limits: Limits) -> Model {
    load(&LlamaEngine::new(), &model_path(MODEL), &limits).expect("the model loads")
}

/// Returns a model that keeps other conversations in memory.
fn model_for_many_conversations() -> Model {
    model_with(Limits {
        context_length: 2048,
        parked_bytes: 256 << 20,
        ..Limits::default()
    })
}

/// Returns `n` ordinary pseudorandom tokens that depend on `salt`.
fn words(n: usize, salt: u32) -> Vec<u32> {
    let word = |i: u32| 20 + (i + salt).wrapping_mul(2_654_435_761) % 1009 % 200;
    (0..n as u32).map(word).collect()
}

fn prepared(tokens: Vec<u32>, system_tokens: usize) -> PreparedPrompt {
    PreparedPrompt {
        system_tokens,
        ..PreparedPrompt::new(tokens)
    }
}

/// Generates `max_tokens` tokens greedily, with context shifts allowed.
fn generate_with_shift(
    model: &mut Model,
    prompt: &PreparedPrompt,
    max_tokens: usize,
) -> (FinishReason, Stats) {
    let params = GenerationParams {
        max_tokens: Some(max_tokens),
        shift_context: true,
        conversation: Some(ConversationId(1)),
        ..greedy_params()
    };
    generate(model, prompt, &params)
}

fn generate(
    model: &mut Model,
    prompt: &PreparedPrompt,
    params: &GenerationParams,
) -> (FinishReason, Stats) {
    model
        .generate(prompt, params, &JobControl::new(), &mut |_: TokenEvent| ())
        .expect("the answer succeeds")
}

#[test]
fn growing_the_cache_during_a_response_changes_no_token() {
    check_growing(&TinyModel::default());
}

/// llama.cpp rotates keys with other factors if the cache is larger than the original context.
#[test]
fn growing_the_cache_beyond_the_original_context_changes_no_token() {
    check_growing(&TinyModel {
        long_rope: Some(1024),
        ..TinyModel::default()
    });
}

#[track_caller]
fn check_growing(model: &TinyModel) {
    let file = model.write_temporary();
    let load = || load(&LlamaEngine::new(), &file.path, &Limits::default()).expect("it loads");
    let mut growing = load();
    let prompt = words(1000, 1);
    let before = growing.memory().kv_cache_bytes;
    let (tokens, _) = greedy(&mut growing, &prompt, 100);
    let after = growing.memory().kv_cache_bytes;
    assert!(before < after, "{before} bytes before, {after} after");

    let mut large = load();
    greedy(&mut large, &words(1500, 2), 1);
    let (expected, stats) = greedy(&mut large, &prompt, 100);
    assert_eq!(stats.cached_tokens, 0);
    assert_eq!(tokens, expected);
}

#[test]
fn trimming_everything_releases_the_cache_and_the_next_response_is_the_same() {
    let mut model = model(2048);
    let prompt = words(300, 3);
    let (first, _) = greedy(&mut model, &prompt, 20);
    let n_bytes = model.memory().kv_cache_bytes;
    assert_eq!(model.trim(Trim::Everything), n_bytes);
    assert_eq!(model.memory().kv_cache_bytes, 0);
    let (second, stats) = greedy(&mut model, &prompt, 20);
    assert_eq!(stats.cached_tokens, 0);
    assert_eq!(second, first);
}

#[test]
fn other_conversations_count_as_memory_and_are_released_first() {
    let mut model = model_for_many_conversations();
    let (first, second) = (words(400, 20), words(400, 21));
    greedy(&mut model, &first, 5);
    assert_eq!(model.memory().parked_bytes, 0);
    let (_, stats) = greedy(&mut model, &second, 5);
    assert!(stats.cached_tokens < 10, "{}", stats.cached_tokens);
    assert!(model.memory().parked_bytes > 0);
    let (_, stats) = greedy(&mut model, &first, 5);
    assert_eq!(stats.cached_tokens, first.len() - 1);

    let n_parked = model.memory().parked_bytes;
    assert_eq!(model.trim(Trim::KeepConversation), n_parked);
    assert_eq!(model.memory().parked_bytes, 0);
    let (_, stats) = greedy(&mut model, &first, 5);
    assert_eq!(stats.cached_tokens, first.len() - 1);
    let (_, stats) = greedy(&mut model, &second, 5);
    assert!(stats.cached_tokens < 10, "{}", stats.cached_tokens);
}

#[test]
fn a_trim_during_a_response_releases_other_conversations() {
    let mut model = model_for_many_conversations();
    greedy(&mut model, &words(400, 20), 5);
    let control = JobControl::new();
    control.request_trim();
    let params = GenerationParams {
        max_tokens: Some(5),
        ignore_end_of_text: true,
        ..GenerationParams::default()
    };
    let prompt = prepared(words(400, 21), 0);
    let result = model.generate(&prompt, &params, &control, &mut |_: TokenEvent| ());
    result.expect("the answer succeeds");
    assert_eq!(model.memory().parked_bytes, 0);
}

/// Also of a model with recurrent states, which keeps the checkpoint of the prompt.
#[test]
fn after_reading_ahead_only_the_new_message_is_read() {
    let hybrid = fixtures().join("qwen3next-f16.gguf");
    for (path, n_opening) in [(model_path(MODEL), 1), (hybrid, 8)] {
        let load = || load(&LlamaEngine::new(), &path, &Limits::default());
        let prompt = words(120, 30);
        for n_left_out in [0, 15] {
            let mut model = load().expect("the model loads");
            let (response, _) = greedy(&mut model, &prompt, 30);
            let ahead = [&prompt[..], &response[n_left_out..], &words(12, 31)].concat();
            let ahead = PreparedPrompt {
                keeps_checkpoints: true,
                ..prepared(ahead, 0)
            };
            let one = GenerationParams {
                max_tokens: Some(1),
                speculate: false,
                ..greedy_params()
            };
            generate(&mut model, &ahead, &one);
            let next = [&ahead.tokens[..], &words(20, 32)].concat();
            let (after, stats) = greedy(&mut model, &next, 20);
            assert_eq!(
                stats.cached_tokens,
                ahead.tokens.len(),
                "{}",
                path.display()
            );
            let (fresh, _) = greedy(&mut load().expect("the model loads"), &next, 20);
            assert_eq!(after, fresh, "{}", path.display());

            let mut model = load().expect("the model loads");
            greedy(&mut model, &prompt, 30);
            generate(&mut model, &ahead, &one);
            let (again, stats) = greedy(&mut model, &prompt, 30);
            assert_eq!(
                stats.cached_tokens,
                prompt.len() - n_opening,
                "{}",
                path.display()
            );
            assert_eq!(again, response, "{}", path.display());
        }
    }
}

// A context shift keeps the first tokens, which hold the system prompt.
#[test]
fn a_full_context_is_shifted_if_allowed_and_otherwise_ends_the_response() {
    let mut model = model(256);
    let prompt = prepared(words(100, 4), 30);
    let (reason, stats) = generate_with_shift(&mut model, &prompt, 400);
    assert_eq!(reason, FinishReason::Length);
    assert_eq!(stats.generated_tokens, 400);
    assert!(
        stats.shifted_tokens >= 400 + 100 - 256,
        "{}",
        stats.shifted_tokens
    );

    // The next turn shares the kept tokens.
    let (_, stats) = generate_with_shift(&mut model, &prompt, 1);
    assert_eq!(stats.cached_tokens, 30);

    let plain = GenerationParams {
        ignore_end_of_text: true,
        ..GenerationParams::default()
    };
    let (reason, stats) = generate(&mut model, &prompt, &plain);
    assert_eq!(reason, FinishReason::Length);
    assert_eq!((stats.generated_tokens, stats.shifted_tokens), (156, 0));
}

/// llama.cpp aborts the process if it shifts such a model.
#[test]
fn a_model_with_a_window_in_every_layer_ends_the_response_at_a_full_context() {
    let tiny = TinyModel {
        architecture: "gemma3",
        n_layers: 1,
        ..TinyModel::default()
    };
    let file = tiny.write_temporary();
    let limits = Limits {
        context_length: 256,
        ..Limits::default()
    };
    let mut model = load(&LlamaEngine::new(), &file.path, &limits).expect("it loads");
    let whole = words(200, 4);
    let (reason, stats) = generate_with_shift(&mut model, &prepared(whole.clone(), 30), 400);
    assert_eq!(reason, FinishReason::Length);
    // The last token needs no place in the context.
    let n_generated = 256 - whole.len() + 1;
    assert_eq!(
        (stats.generated_tokens, stats.shifted_tokens),
        (n_generated, 0)
    );

    let copy = SavedCopy::of(&mut *model, 0).expect("saved");
    let n_saved = copy.tokens.len();
    assert_eq!(copy.restore(&mut *model), Ok(n_saved));

    // Tokens after messages that were left out are not moved either.
    let shortened = PreparedPrompt {
        dropped_messages: 2,
        ..prepared([&whole[..30], &whole[100..]].concat(), 30)
    };
    let (_, stats) = generate_with_shift(&mut model, &shortened, 5);
    assert_eq!((stats.cached_tokens, stats.generated_tokens), (30, 5));
}

/// llama.cpp crashes if it shifts quantized keys of such heads.
#[test]
fn quantized_keys_of_small_heads_are_not_shifted() {
    let mut model = model_with(Limits {
        context_length: 256,
        kv_cache: KvCacheChoice::Small,
        ..Limits::default()
    });
    let prompt = prepared(words(100, 4), 30);
    let (reason, stats) = generate_with_shift(&mut model, &prompt, 400);
    assert_eq!(reason, FinishReason::Length);
    assert_eq!((stats.generated_tokens, stats.shifted_tokens), (157, 0));
}

#[test]
fn a_response_without_a_limit_ends_even_if_the_context_is_shifted() {
    let mut model = model(128);
    let params = GenerationParams {
        ignore_end_of_text: true,
        shift_context: true,
        ..GenerationParams::default()
    };
    let prompt = prepared(words(50, 5), 10);
    let (reason, stats) = generate(&mut model, &prompt, &params);
    assert_eq!(
        (reason, stats.generated_tokens),
        (FinishReason::Length, 128)
    );
}

#[test]
fn tokens_after_a_dropped_exchange_are_moved_and_not_processed_again() {
    let system = words(40, 6);
    let (first, second, new) = (words(60, 7), words(80, 8), words(10, 9));
    let whole = [&*system, &*first, &*second].concat();
    let shortened = [&*system, &*second, &*new].concat();

    let mut moving = model(1024);
    generate_with_shift(&mut moving, &prepared(whole.clone(), 40), 5);
    let without_first = PreparedPrompt {
        dropped_messages: 2,
        ..prepared(shortened.clone(), 40)
    };
    let (_, stats) = generate_with_shift(&mut moving, &without_first, 5);
    assert_eq!(stats.cached_tokens, 40 + 80);

    let mut exact = model(1024);
    greedy(&mut exact, &whole, 5);
    let (tokens, stats) = greedy(&mut exact, &shortened, 5);
    assert_eq!(stats.cached_tokens, 40);
    let mut fresh = model(1024);
    let (expected, _) = greedy(&mut fresh, &shortened, 5);
    assert_eq!(
        tokens, expected,
        "nothing is moved if shifts are not allowed"
    );
}

#[test]
fn the_system_prompt_is_found_in_a_rendered_conversation() {
    let model = model(1024);
    let prepare = |system: &str, user: &str| {
        let chat = ChatPrompt {
            messages: vec![
                Message::new(Role::System, system),
                Message::new(Role::User, user),
            ],
            ..ChatPrompt::default()
        };
        model.prepare(&Prompt::Chat(chat)).expect("it renders")
    };
    let (one, other) = (
        prepare("Be brief.", "Hello there"),
        prepare("Be brief.", "Why is that?"),
    );
    assert_eq!(one.system_tokens, other.system_tokens);
    assert_eq!(
        one.tokens[..one.system_tokens],
        other.tokens[..other.system_tokens]
    );
    let longer = prepare(
        "Be brief, and answer in the manner of a pirate.",
        "Hello there",
    );
    assert!(longer.system_tokens > one.system_tokens);
}

// A saved KV cache outlives the process.
#[test]
fn a_restored_conversation_continues_as_an_uninterrupted_one() {
    let prompt = words(200, 10);
    let turn2 = |answer: &[u32]| [&*prompt, answer, &*words(15, 11)].concat();

    let mut uninterrupted = model(2048);
    let (answer, _) = greedy(&mut uninterrupted, &prompt, 30);
    let copy = SavedCopy::of(&mut *uninterrupted, 0).expect("saved");
    let n_saved = copy.tokens.len();
    let (expected, whole) = greedy(&mut uninterrupted, &turn2(&answer), 30);

    let mut restored_model = model(2048);
    assert_eq!(copy.restore(&mut *restored_model), Ok(n_saved));
    let (tokens, stats) = greedy(&mut restored_model, &turn2(&answer), 30);
    assert_eq!(stats.cached_tokens, whole.cached_tokens);
    assert_eq!(tokens, expected);
}

#[test]
fn a_conversation_is_restored_with_another_number_of_threads() {
    let with_threads = |n| {
        let engine = LlamaEngine::new().with_threads(n);
        load(&engine, &model_path(MODEL), &Limits::default()).expect("the model loads")
    };
    let mut one = with_threads(1);
    greedy(&mut one, &words(60, 15), 5);
    let copy = SavedCopy::of(&mut *one, 0).expect("saved");
    let n_saved = copy.tokens.len();
    assert_eq!(copy.restore(&mut *with_threads(2)), Ok(n_saved));
}

#[test]
fn an_empty_conversation_is_not_saved() {
    let mut model = model(512);
    let cache = model.savable_cache().expect("it has a KV cache");
    assert_eq!(cache.conversations(), []);
}

#[test]
fn a_foreign_state_or_header_is_refused_and_the_model_still_works() {
    let mut model = model(512);
    greedy(&mut model, &words(50, 14), 2);
    let copy = SavedCopy::of(&mut *model, 0).expect("saved");
    let n_tokens = copy.tokens.len();
    let is_refused = |result| matches!(result, Err(EngineError::Backend { .. }));

    let with_head = |head: &[u8]| SavedCopy {
        head: head.to_vec(),
        ..copy.clone()
    };
    // The header is at the end.
    let n_bytes = copy.head.len();
    for n in [0, 1, 20, n_bytes / 2, n_bytes - 1] {
        let result = with_head(&copy.head[..n]).restore(&mut *model);
        assert!(is_refused(result), "{n} bytes of it");
        greedy(&mut model, &words(20, 13), 2);
    }
    let longer = [&*copy.head, &[0]].concat();
    assert!(is_refused(with_head(&longer).restore(&mut *model)));
    let mut fewer = copy.clone();
    fewer.tokens.pop();
    assert!(is_refused(fewer.restore(&mut *model)), "other tokens");
    let mut small = model_with(Limits {
        context_length: 512,
        kv_cache: transom_engine::KvCacheChoice::Small,
        ..Limits::default()
    });
    assert!(is_refused(copy.restore(&mut *small)), "other KV type");
    let other = load(
        &LlamaEngine::new(),
        &model_path("qwen2-q8_0"),
        &Limits::default(),
    );
    let mut other = other.expect("the model loads");
    assert!(is_refused(copy.restore(&mut *other)), "other model");
    assert_eq!(copy.restore(&mut *model), Ok(n_tokens));
    greedy(&mut model, &words(20, 13), 2);
}
