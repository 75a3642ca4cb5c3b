//! Compares caches with a list of all tokens, over random sequences of appends, checkpoints, rewinds,
//! forks and parking.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use transom_catalog::fit::mlx;
use transom_engine::saved::{BLOCK_TOKENS, new_blocks};

use super::*;

/// An operation on a cache.
#[derive(Debug, Clone)]
enum Operation {
    /// Append this many tokens in one step.
    Append(i32),
    /// Save a checkpoint and keep this many.
    Checkpoint(usize),
    /// Rewind by this many tokens.
    Rewind(i32),
    /// Continue with a fork that lacks this many tokens.
    Fork(i32),
    /// Park, and continue with all but this many tokens.
    Park(i32),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        6 => Just(Operation::Append(1)),
        3 => (1..40_i32).prop_map(Operation::Append),
        1 => (200..600_i32).prop_map(Operation::Append),
        2 => (1..3_usize).prop_map(Operation::Checkpoint),
        1 => (0..20_i32).prop_map(Operation::Rewind),
        1 => (0..700_i32).prop_map(Operation::Rewind),
        1 => prop_oneof![0..20_i32, 0..700_i32].prop_map(Operation::Fork),
        1 => prop_oneof![0..20_i32, 0..700_i32].prop_map(Operation::Park),
    ];
    prop::collection::vec(operation, 1..40)
}

/// The keys of the tokens `first..first + n`. They depend on the token and on `version`, so that
/// keys of an earlier text are noticed.
fn keys(first: i32, n: i32, version: i32) -> Array {
    let values: Vec<f32> = (first..first + n)
        .flat_map(|token| key(token, version))
        .collect();
    Array::from_slice(&values, &[1, 1, n, HEAD_DIM as i32])
}

const HEAD_DIM: usize = 6;

/// Integers of 8 bits, with the smallest and the largest one, so quantizing them loses nothing.
fn key(token: i32, version: i32) -> [f32; HEAD_DIM] {
    let numbers = [0, 255, token, token / 256, token * 7 + version, version];
    numbers.map(|number| number.rem_euclid(256) as f32)
}

fn values_of(array: &Array) -> Vec<f32> {
    let array = array.contiguous().expect("contiguous");
    array.as_slice::<f32>().to_vec()
}

/// The expected text: the version of each token.
#[derive(Debug, Default)]
struct Text {
    versions: Vec<i32>,
}

impl Text {
    fn keys(&self, first: usize, end: usize) -> Vec<f32> {
        let tokens = (first..end).zip(&self.versions[first..end]);
        tokens
            .flat_map(|(token, version)| key(token as i32, *version))
            .collect()
    }
}

/// Runs operations on a cache with this window. Returns the largest size in bytes.
fn run(window: Option<i32>, operations: &[Operation]) -> u64 {
    let mut cache = LayerCache::for_attention(window);
    let mut text = Text::default();
    let mut most = 0;
    for (version, operation) in (1..).zip(operations) {
        let n_tokens = text.versions.len() as i32;
        match *operation {
            Operation::Append(n) => {
                let new = keys(n_tokens, n, version);
                let (seen, seen_values) = cache.append(&new, &new).expect("MLX appends");
                text.versions.extend((0..n).map(|_| version));
                let before = n_tokens.min(window.map_or(i32::MAX, |window| window - 1));
                let first = (n_tokens - before) as usize;
                let expected = text.keys(first, text.versions.len());
                assert_eq!(values_of(&seen), expected, "{operation:?} at {n_tokens}");
                assert_eq!(values_of(&seen_values), expected);
            }
            Operation::Checkpoint(n_checkpoints) if n_tokens > 0 => {
                cache.add_checkpoint(n_checkpoints);
                if window.is_some() {
                    assert_eq!(cache.checkpoints().last(), Some(&n_tokens));
                    assert!(cache.checkpoints().len() <= n_checkpoints);
                }
            }
            Operation::Checkpoint(_) => {}
            Operation::Rewind(n) => {
                let position = (n_tokens - n).max(0);
                let target = cache.rewind_target(position);
                assert!(target <= position);
                let checkpoints = cache.checkpoints().into_iter();
                let last = checkpoints.filter(|&saved| saved <= position).max();
                assert!(target >= last.unwrap_or(0), "a checkpoint can be restored");
                cache.rewind(target);
                text.versions.truncate(target as usize);
            }
            Operation::Fork(n) => {
                let target = cache.rewind_target((n_tokens - n).max(0));
                let mut fork = cache.fork(target).expect("MLX copies");
                // Neither sees what is appended to the other.
                let first = keys(target, 1, -1);
                fork.append(&first, &first).expect("MLX appends");
                check_saved(&cache, &text, window);
                fork.rewind(fork.rewind_target(target));
                assert_eq!(fork.n_tokens(), target);
                text.versions.truncate(target as usize);
                cache = fork;
            }
            Operation::Park(n) => {
                check_blocks(&cache, &text, window);
                let quantized_bytes = cache.quantized_bytes();
                cache.quantize().expect("MLX quantizes");
                assert_eq!(cache.bytes(), quantized_bytes);
                check_blocks(&cache, &text, window);
                let target = cache.rewind_target((n_tokens - n).max(0));
                let mut fork = cache.fork(target).expect("MLX copies");
                let new = keys(target, 1, -1);
                let (seen, _) = fork.append(&new, &new).expect("MLX appends");
                let seen = values_of(&seen);
                let n_seen = seen.len() / HEAD_DIM - 1;
                let first = target as usize - n_seen;
                assert_eq!(seen[..n_seen * HEAD_DIM], text.keys(first, target as usize));
                cache.rewind(target);
                text.versions.truncate(target as usize);
                cache.dequantize().expect("MLX dequantizes");
            }
        }
        assert_eq!(cache.n_tokens(), text.versions.len() as i32);
        check_saved(&cache, &text, window);
        most = most.max(cache.bytes());
    }
    most
}

/// Checks that the saved arrays are the end of the text, and that a restored cache continues it.
fn check_saved(cache: &LayerCache, text: &Text, window: Option<i32>) {
    let n_tokens = text.versions.len();
    if n_tokens == 0 {
        return;
    }
    let saved = cache.saved(n_tokens as i32).expect("MLX slices");
    let shapes = cache.saved_shapes(n_tokens as i32);
    let n_saved = shapes[0].1[2] as usize;
    assert!(window.is_none_or(|window| n_saved <= (window - 1).max(1) as usize));
    for (array, (_, shape)) in saved.iter().zip(&shapes) {
        assert_eq!(array.shape(), shape);
        assert_eq!(values_of(array), text.keys(n_tokens - n_saved, n_tokens));
    }
    let mut restored = cache.restore(n_tokens as i32, saved).expect("two arrays");
    let new = keys(n_tokens as i32, 1, 0);
    let (seen, _) = restored.append(&new, &new).expect("MLX appends");
    let n_seen = seen.dim(2) as usize;
    let expected = (n_tokens + 1).min(window.map_or(usize::MAX, |window| window as usize));
    assert_eq!(n_seen, expected);
    let own = values_of(&seen);
    assert_eq!(
        own[..own.len() - HEAD_DIM],
        text.keys(n_tokens + 1 - n_seen, n_tokens)
    );
}

/// Checks the blocks of a file of a cache of all tokens, and that a restored cache continues them.
fn check_blocks(cache: &LayerCache, text: &Text, window: Option<i32>) {
    let n_tokens = text.versions.len();
    if window.is_some() || n_tokens == 0 {
        return;
    }
    let mut template = LayerCache::for_attention(None);
    let new = keys(0, 1, 0);
    template.append(&new, &new).expect("MLX appends");
    let mut restored = template.reserved(n_tokens as i32).expect("MLX allocates");
    let odd = n_tokens.min(n_tokens % 3 * 10);
    for tokens in new_blocks(0..odd)
        .into_iter()
        .chain(new_blocks(odd..n_tokens))
    {
        let is_whole = tokens.len() == BLOCK_TOKENS;
        let [start, end] = [tokens.start, tokens.end].map(|n| n as i32);
        let arrays = cache.block(start, end, is_whole).expect("MLX slices");
        let expected = template.block_arrays(tokens.len() as i32, is_whole);
        let found = arrays
            .iter()
            .map(|array| (array.shape().to_vec(), array.dtype()));
        assert!(found.eq(expected), "{tokens:?}");
        restored.append_block(arrays).expect("MLX appends");
    }
    let all = restored
        .block(0, n_tokens as i32, false)
        .expect("MLX slices");
    for array in all {
        assert_eq!(values_of(&array), text.keys(0, n_tokens));
    }
}

#[test]
fn a_layer_sees_its_window_of_the_text_after_any_operations() {
    for window in [Some(1), Some(2), Some(7), Some(50), Some(300), None] {
        TestRunner::new(Config::with_cases(24))
            .run(&operations(), |operations| {
                run(window, &operations);
                Ok(())
            })
            .expect("the cache equals the text");
    }
}

#[test]
fn the_memory_of_a_window_does_not_grow_with_the_text() {
    for window in [1, 16, 100] {
        let mut long = vec![Operation::Append(2000)];
        for n in [1, 700, 1] {
            long.push(Operation::Checkpoint(2));
            long.extend((0..400).map(|_| Operation::Append(n)));
        }
        let bytes_of_token = 2 * HEAD_DIM as u64 * 4;
        let buffers = 3 * mlx::windowed_capacity(u64::MAX, window as u64);
        let most = run_without_checks(window, &long);
        assert!(
            most <= buffers * bytes_of_token,
            "{most} for a window of {window}"
        );
        assert!(most >= bytes_of_token * window as u64);
    }
}

/// Runs operations like [`run`] without comparing, which takes too long for a hundred thousand
/// tokens.
fn run_without_checks(window: i32, operations: &[Operation]) -> u64 {
    let mut cache = LayerCache::for_attention(Some(window));
    let mut most = 0;
    for operation in operations {
        match *operation {
            Operation::Append(n) => {
                let new = keys(cache.n_tokens(), n, 0);
                cache.append(&new, &new).expect("MLX appends");
                mlx_rs::transforms::eval(cache.arrays()).expect("MLX evaluates");
            }
            Operation::Checkpoint(n_checkpoints) => cache.add_checkpoint(n_checkpoints),
            Operation::Rewind(_) | Operation::Fork(_) | Operation::Park(_) => {}
        }
        most = most.max(cache.bytes());
    }
    most
}

#[test]
fn a_short_conversation_does_not_allocate_the_whole_window() {
    let mut cache = LayerCache::for_attention(Some(4096));
    let new = keys(0, 10, 0);
    cache.append(&new, &new).expect("MLX appends");
    assert_eq!(cache.bytes(), 256 * 2 * HEAD_DIM as u64 * 4);
    assert_eq!(mlx::windowed_capacity(10, 4096), 256);
}

#[test]
fn buffers_have_whole_steps_until_a_token_leaves_the_window() {
    let capacity = |cache: &LayerCache| cache.arrays()[0].dim(2);
    let append = |cache: &mut LayerCache, n| {
        let new = keys(cache.n_tokens(), n, 0);
        cache.append(&new, &new).expect("MLX appends");
    };
    let mut full = LayerCache::for_attention(None);
    for (n, expected) in [(10, 256), (300, 512), (202, 512), (1, 768), (1000, 1536)] {
        append(&mut full, n);
        assert_eq!(capacity(&full), expected);
    }
    full.rewind(100);
    let arrays = full.saved(100).expect("MLX slices");
    let mut restored = full.restore(100, arrays).expect("two arrays");
    append(&mut restored, 1);
    assert_eq!(capacity(&restored), 256);
    for window in [7, 128, 512, 700, 1024, 4096] {
        let mut cache = LayerCache::for_attention(Some(window));
        append(&mut cache, 1);
        while cache.n_tokens() < 2 * window {
            append(&mut cache, 19);
            let has_left = cache.n_tokens() > window;
            assert!(!has_left || capacity(&cache) % 256 != 0, "{window}");
            let most = mlx::windowed_capacity(cache.n_tokens() as u64, window as u64);
            assert!(capacity(&cache) as u64 <= most, "{window}");
        }
    }
}

#[test]
fn a_window_rewinds_only_to_its_checkpoints_and_last_tokens() {
    let mut cache = LayerCache::for_attention(Some(8));
    let append = |cache: &mut LayerCache, n| {
        let new = keys(cache.n_tokens(), n, 0);
        cache.append(&new, &new).expect("MLX appends");
    };
    append(&mut cache, 1000);
    cache.add_checkpoint(1);
    append(&mut cache, 500);
    assert_eq!(cache.rewind_target(1500), 1500);
    assert_eq!(
        cache.rewind_target(1490),
        1490,
        "the last tokens are still in the buffer"
    );
    assert_eq!(cache.rewind_target(1400), 1000);
    assert_eq!(cache.rewind_target(1000), 1000);
    assert_eq!(
        cache.rewind_target(995),
        995,
        "so are the tokens just before the checkpoint"
    );
    assert_eq!(cache.rewind_target(900), 0);
    cache.rewind(995);
    assert_eq!(cache.n_tokens(), 995);
    assert!(cache.checkpoints().is_empty());
}

#[test]
fn a_state_rewinds_only_to_its_checkpoints() {
    let mut cache = LayerCache::State(StateCache::default());
    let append = |cache: &mut LayerCache, n: i32| {
        let state = cache.state_mut().expect("a state");
        let sum = state
            .get()
            .map_or(0.0, |arrays| arrays[0].item_exact::<f32>());
        state.put(n, vec![Array::from_f32(sum + n as f32)]);
    };
    append(&mut cache, 10);
    cache.add_checkpoint(2);
    append(&mut cache, 5);
    cache.add_checkpoint(2);
    append(&mut cache, 7);
    let targets: Vec<_> = [22, 21, 15, 14, 10, 9]
        .map(|n| cache.rewind_target(n))
        .into();
    assert_eq!(targets, [22, 15, 15, 10, 10, 0]);
    assert_eq!(cache.saved(15).expect("saved")[0].item_exact::<f32>(), 15.0);
    let mut fork = cache.fork(10).expect("a checkpoint");
    append(&mut fork, 3);
    assert_eq!(fork.saved(13).expect("saved")[0].item_exact::<f32>(), 13.0);
    assert_eq!((fork.checkpoints(), cache.n_tokens()), (Vec::new(), 22));
    cache.rewind(15);
    append(&mut cache, 1);
    assert_eq!(cache.saved(16).expect("saved")[0].item_exact::<f32>(), 16.0);
    cache.rewind(10);
    assert_eq!((cache.n_tokens(), cache.checkpoints()), (10, vec![10]));
    cache.rewind(0);
    assert_eq!((cache.n_tokens(), cache.bytes()), (0, 0));
}

/// Appends `n` tokens to a cache without a window, and compares all that it returns.
fn append_and_check(cache: &mut LayerCache, n: i32) {
    let first = cache.n_tokens();
    let new = keys(first, n, 0);
    let (all_keys, all_values) = cache.append(&new, &new).expect("MLX appends");
    let expected: Vec<f32> = (0..first + n).flat_map(|token| key(token, 0)).collect();
    for all in [all_keys, all_values] {
        assert_eq!(all.shape(), [1, 1, first + n, HEAD_DIM as i32]);
        assert_eq!(values_of(&all), expected);
    }
}

#[test]
fn tokens_appended_in_steps_of_any_size_stay_in_order() {
    let mut cache = LayerCache::for_attention(None);
    for n in [1, 254, 1, 1, 300, 7, 1] {
        append_and_check(&mut cache, n);
    }
    assert_eq!(cache.n_tokens(), 565);
}

#[test]
fn a_cache_continues_where_it_was_rewound() {
    let mut cache = LayerCache::for_attention(None);
    append_and_check(&mut cache, 300);
    cache.rewind(299);
    append_and_check(&mut cache, 1);
    cache.rewind(2);
    append_and_check(&mut cache, 600);
    cache.rewind(0);
    assert_eq!(cache.arrays().len(), 0);
    append_and_check(&mut cache, 3);
}
