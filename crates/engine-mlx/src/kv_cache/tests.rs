//! Caches against a list of all tokens, over random histories of reading, pinning and going back.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;

/// What happens to a cache.
#[derive(Debug, Clone)]
enum Event {
    /// So many tokens are read in one step.
    Read(i32),
    /// The place is pinned, as one of so many.
    Pin(usize),
    /// A prompt leaves the text so many tokens before its end.
    GoBack(i32),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => Just(Event::Read(1)),
        3 => (1..40_i32).prop_map(Event::Read),
        1 => (200..600_i32).prop_map(Event::Read),
        2 => (1..3_usize).prop_map(Event::Pin),
        1 => (0..20_i32).prop_map(Event::GoBack),
        1 => (0..700_i32).prop_map(Event::GoBack),
    ];
    prop::collection::vec(event, 1..40)
}

/// Keys of the tokens `first..first + n`, which differ from token to token and from `version` to
/// version, so that leftovers of another text are noticed.
fn keys(first: i32, n: i32, version: i32) -> Array {
    let values: Vec<f32> = (first..first + n)
        .flat_map(|token| key(token, version))
        .collect();
    Array::from_slice(&values, &[1, 1, n, 2])
}

fn key(token: i32, version: i32) -> [f32; 2] {
    [token as f32, (token * 7 + version) as f32]
}

fn values_of(array: &Array) -> Vec<f32> {
    let array = array.contiguous().expect("contiguous");
    array.as_slice::<f32>().to_vec()
}

/// The text as it should be: the version that each token was read with.
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

/// Runs a history on attention with this window. Returns the most bytes that were held.
fn run(window: Option<i32>, events: &[Event]) -> u64 {
    let mut cache = LayerCache::of_attention(window);
    let mut text = Text::default();
    let mut most = 0;
    for (version, event) in (1..).zip(events) {
        let n_tokens = text.versions.len() as i32;
        match *event {
            Event::Read(n) => {
                let new = keys(n_tokens, n, version);
                let (seen, seen_values) = cache.append(&new, &new).expect("MLX appends");
                text.versions.extend((0..n).map(|_| version));
                let before = n_tokens.min(window.map_or(i32::MAX, |window| window - 1));
                let first = (n_tokens - before) as usize;
                let expected = text.keys(first, text.versions.len());
                assert_eq!(values_of(&seen), expected, "{event:?} at {n_tokens}");
                assert_eq!(values_of(&seen_values), expected);
            }
            Event::Pin(n_pins) if n_tokens > 0 => {
                cache.pin(n_pins);
                if window.is_some() {
                    assert_eq!(cache.pins().last(), Some(&n_tokens));
                    assert!(cache.pins().len() <= n_pins);
                }
            }
            Event::Pin(_) => {}
            Event::GoBack(n) => {
                let wanted = (n_tokens - n).max(0);
                let reached = cache.reach(wanted);
                assert!(reached <= wanted);
                let pinned = cache.pins().into_iter().filter(|&pin| pin <= wanted).max();
                assert!(reached >= pinned.unwrap_or(0), "a pin is always reached");
                cache.rewind(reached);
                text.versions.truncate(reached as usize);
            }
        }
        assert_eq!(cache.n_tokens(), text.versions.len() as i32);
        check_stored(&cache, &text, window);
        most = most.max(cache.bytes());
    }
    most
}

/// What a file would keep is the end of the text, and taken up it goes on as the text does.
fn check_stored(cache: &LayerCache, text: &Text, window: Option<i32>) {
    let n_tokens = text.versions.len();
    if n_tokens == 0 {
        return;
    }
    let stored = cache.stored(n_tokens as i32).expect("MLX slices");
    let shapes = cache.stored_shapes(n_tokens as i32);
    let kept = shapes[0].1[2] as usize;
    assert!(window.is_none_or(|window| kept <= (window - 1).max(1) as usize));
    for (array, (_, shape)) in stored.iter().zip(&shapes) {
        assert_eq!(array.shape(), shape);
        assert_eq!(values_of(array), text.keys(n_tokens - kept, n_tokens));
    }
    let mut restored = cache.restored(n_tokens as i32, stored).expect("two arrays");
    let new = keys(n_tokens as i32, 1, 0);
    let (seen, _) = restored.append(&new, &new).expect("MLX appends");
    let n_seen = seen.dim(2) as usize;
    let expected = (n_tokens + 1).min(window.map_or(usize::MAX, |window| window as usize));
    assert_eq!(n_seen, expected);
    let own = values_of(&seen);
    assert_eq!(
        own[..own.len() - 2],
        text.keys(n_tokens + 1 - n_seen, n_tokens)
    );
}

#[test]
fn whatever_is_read_and_taken_back_a_layer_sees_its_window_of_the_text() {
    for window in [Some(1), Some(2), Some(7), Some(50), Some(300), None] {
        TestRunner::new(Config::with_cases(24))
            .run(&events(), |events| {
                run(window, &events);
                Ok(())
            })
            .expect("the cache holds the text");
    }
}

#[test]
fn a_windows_memory_does_not_grow_with_the_text() {
    for window in [1, 16, 100] {
        let mut long = vec![Event::Read(2000)];
        for n in [1, 700, 1] {
            long.push(Event::Pin(2));
            long.extend((0..400).map(|_| Event::Read(n)));
        }
        let bytes_of_token = 2 * 2 * 4;
        let buffers = 3 * mlx::windowed_capacity(u64::MAX, window as u64);
        let most = run_without_stores(window, &long);
        assert!(
            most <= buffers * bytes_of_token,
            "{most} for a window of {window}"
        );
        assert!(most >= bytes_of_token * window as u64);
    }
}

/// As [`run`], without comparing: texts of a hundred thousand tokens take too long for that.
fn run_without_stores(window: i32, events: &[Event]) -> u64 {
    let mut cache = LayerCache::of_attention(Some(window));
    let mut most = 0;
    for event in events {
        match *event {
            Event::Read(n) => {
                let new = keys(cache.n_tokens(), n, 0);
                cache.append(&new, &new).expect("MLX appends");
                mlx_rs::transforms::eval(cache.arrays()).expect("MLX evaluates");
            }
            Event::Pin(n_pins) => cache.pin(n_pins),
            Event::GoBack(_) => {}
        }
        most = most.max(cache.bytes());
    }
    most
}

#[test]
fn a_short_conversation_takes_no_whole_window() {
    let mut cache = LayerCache::of_attention(Some(4096));
    let new = keys(0, 10, 0);
    cache.append(&new, &new).expect("MLX appends");
    assert_eq!(cache.bytes(), 256 * 2 * 2 * 4);
    assert_eq!(mlx::windowed_capacity(10, 4096), 266);
}

#[test]
fn a_window_goes_back_to_a_pin_that_it_has_moved_past_and_to_no_other_place() {
    let mut cache = LayerCache::of_attention(Some(8));
    let read = |cache: &mut LayerCache, n| {
        let new = keys(cache.n_tokens(), n, 0);
        cache.append(&new, &new).expect("MLX appends");
    };
    read(&mut cache, 1000);
    cache.pin(1);
    read(&mut cache, 500);
    assert_eq!(cache.reach(1500), 1500);
    assert_eq!(cache.reach(1490), 1490, "the last tokens are still there");
    assert_eq!(cache.reach(1400), 1000);
    assert_eq!(cache.reach(1000), 1000);
    assert_eq!(cache.reach(995), 995, "so is what was just before the pin");
    assert_eq!(cache.reach(900), 0);
    cache.rewind(995);
    assert_eq!(cache.n_tokens(), 995);
    assert!(cache.pins().is_empty());
}

#[test]
fn a_state_goes_back_to_its_pins_only() {
    let mut cache = LayerCache::State(StateCache::default());
    let read = |cache: &mut LayerCache, n: i32| {
        let state = cache.state_mut().expect("it is one");
        let sum = state
            .get()
            .map_or(0.0, |arrays| arrays[0].item_exact::<f32>());
        state.put(n, vec![Array::from_f32(sum + n as f32)]);
    };
    read(&mut cache, 10);
    cache.pin(2);
    read(&mut cache, 5);
    cache.pin(2);
    read(&mut cache, 7);
    let places: Vec<_> = [22, 21, 15, 14, 10, 9].map(|n| cache.reach(n)).into();
    assert_eq!(places, [22, 15, 15, 10, 10, 0]);
    assert_eq!(cache.stored(15).expect("kept")[0].item_exact::<f32>(), 15.0);
    cache.rewind(15);
    read(&mut cache, 1);
    assert_eq!(cache.stored(16).expect("kept")[0].item_exact::<f32>(), 16.0);
    cache.rewind(10);
    assert_eq!((cache.n_tokens(), cache.pins()), (10, vec![10]));
    cache.rewind(0);
    assert_eq!((cache.n_tokens(), cache.bytes()), (0, 0));
}
