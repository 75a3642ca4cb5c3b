//! Conversations that are saved and restored in blocks: responses equal those of a fresh prefill.

use std::ops::Range;

use transom_catalog::KvType;
use transom_engine::generation::common_prefix_len;
use transom_engine::saved::{BLOCK_TOKENS, new_blocks};
use transom_engine::test_support::SavedCopy;

use super::*;
use crate::test_support::{
    TOLERANCE, TestCache, TestModel, TestSession, WIDE, difference, in_conversation,
    logits_from_scratch, random_tokens,
};

const CONTEXT: usize = 2048;

/// A limit that no test reaches.
const ENOUGH: u64 = 1 << 30;

/// Values are transposed if the matrix of scores is computed.
const CACHES: [(TestModel, TestCache); 4] = [
    (DENSE, of(KvType::F16, false)),
    (DENSE, of(KvType::F16, true)),
    (DENSE, of(KvType::Q8_0, true)),
    (WIDE, of(KvType::Q8_0, true)),
];

const fn of(kind: KvType, is_flash: bool) -> TestCache {
    TestCache { kind, is_flash }
}

fn test_session((test_model, cache): (TestModel, TestCache)) -> TestSession {
    TestSession::with_cache(test_model, CONTEXT, ENOUGH, cache)
}

/// Appends tokens that are longer than a step.
fn append(session: &mut Session, tokens: &[u32]) -> Vec<f32> {
    let mut logits = Vec::new();
    for part in tokens.chunks(500) {
        logits = last_logits(session, part);
    }
    logits
}

/// Restores `copy` in a new session, and returns the logits after `next`.
fn restored_logits(
    cache: (TestModel, TestCache),
    copy: &SavedCopy,
    next: &[u32],
) -> (TestSession, Vec<f32>) {
    let mut test = test_session(cache);
    assert_eq!(test.restore(copy), Ok(()));
    let logits = append(&mut test.session, next);
    (test, logits)
}

#[track_caller]
fn assert_close(found: &[f32], expected: &[f32], tolerance: f32, what: impl std::fmt::Debug) {
    let difference = difference(found, expected);
    assert!(
        difference <= tolerance,
        "{what:?}: the logits differ by {difference} of the largest"
    );
}

#[test]
fn a_restored_conversation_has_the_same_logits() {
    for cache in CACHES {
        for n_tokens in [1, 255, 256, 257] {
            let mut test = test_session(cache);
            let tokens = random_tokens(80, n_tokens);
            append(&mut test.session, &tokens);
            let copy = test.save(0);
            assert_eq!(copy.blocks.len(), n_tokens.div_ceil(BLOCK_TOKENS));
            let expected = append(&mut test.session, &[70]);
            let (mut restored, logits) = restored_logits(cache, &copy, &[70]);
            assert_eq!(logits, expected, "{cache:?}, {n_tokens}");
            let tokens = [&*tokens, &[70]].concat();
            let fresh = logits_from_scratch(&mut restored.session, &tokens);
            assert_close(&logits, &fresh, TOLERANCE, (cache, n_tokens));
        }
    }
}

/// Blocks were saved at different times, and conversations may be parked or not.
#[test]
fn blocks_of_any_length_restore_the_same_cache() {
    let ranges = vec![0..1, 1..2, 2..20, 20..276, 276..300];
    for cache in CACHES {
        let mut test = test_session(cache);
        let tokens = random_tokens(81, 300);
        append(&mut test.session, &tokens);
        test.session.conversation.id = in_conversation(1, &[], 0).conversation;
        let current = test.save_in(0, ranges.clone());
        let other = random_tokens(82, 100);
        test.answer_and_check(in_conversation(2, &other, 0), 2);
        let parked = test.save_in(1, ranges.clone());
        assert_eq!(parked.tokens, tokens);
        let expected = append(&mut test_session(cache).session, &tokens);
        let sizes = |copy: &SavedCopy| -> Vec<usize> {
            copy.blocks.iter().map(|(_, block)| block.len()).collect()
        };
        assert_eq!(sizes(&parked), sizes(&current), "{cache:?}");
        for copy in [&current, &parked] {
            let (mut restored, logits) = restored_logits(cache, copy, &[70]);
            restored.session.truncate(299);
            let again = append(&mut restored.session, &tokens[299..]);
            assert_close(&again, &expected, TOLERANCE, cache);
            let of_current = restored_logits(cache, &current, &[70]).1;
            assert_eq!(logits, of_current, "{cache:?}");
        }
    }
}

/// llama.cpp puts new tokens into the cells of those that were removed.
#[test]
fn cells_in_any_order_are_saved_and_restored() {
    // llama.cpp cannot shift quantized keys of small heads.
    for cache in [CACHES[0], CACHES[1], CACHES[3]] {
        let mut test = test_session(cache);
        append(&mut test.session, &random_tokens(83, 600));
        assert!(test.session.remove_and_shift(100..300));
        append(&mut test.session, &random_tokens(84, 350));
        test.session.conversation.id = in_conversation(1, &[], 0).conversation;
        let current = test.save(0);
        let mut expected = append(&mut test.session, &[70]);
        test.session.truncate(750);
        test.answer(in_conversation(2, &random_tokens(85, 100), 0), 2);
        let parked = test.save(1);
        for copy in [current, parked] {
            let (restored, logits) = restored_logits(cache, &copy, &[70]);
            assert_eq!(restored.session.conversation.n_exact, 100);
            // Sums are in another order.
            assert_close(&logits, &expected, 1e-3, cache);
            expected = logits;
        }
    }
}

/// What the host keeps of a conversation on the disk.
#[derive(Default)]
struct Disk {
    copy: Option<SavedCopy>,
    n_written: usize,
    n_new_tokens: usize,
}

impl Disk {
    /// Keeps the blocks of the tokens that the conversation still begins with.
    fn save(&mut self, test: &TestSession) {
        let tokens = test.session.tokens();
        let mut kept = Vec::new();
        if let Some(before) = self.copy.take() {
            let n_shared = common_prefix_len(&before.tokens, tokens);
            kept = before.blocks;
            kept.retain(|(range, _)| range.end <= n_shared);
        }
        let start = kept.last().map_or(0, |(range, _)| range.end);
        let copy = test.save_in(0, new_blocks(start..tokens.len()));
        let blocks = copy.blocks.iter().map(|(_, block)| block.len());
        self.n_written += blocks.sum::<usize>() + copy.head.len();
        self.n_new_tokens += tokens.len() - start;
        kept.extend(copy.blocks);
        self.copy = Some(SavedCopy {
            blocks: kept,
            ..copy
        });
    }
}

#[test]
fn a_saved_turn_writes_its_own_keys_and_values_and_little_else() {
    let bytes_per_token = 2 * 2 * 2 * 64 * 2;
    let mut test = TestSession::new(WIDE, CONTEXT);
    let mut disk = Disk::default();
    let mut prompt = random_tokens(86, 200);
    for turn in 0..6 {
        let (response, _) = test.answer(in_conversation(1, &prompt, 0), 100);
        prompt.extend(response);
        prompt.extend(random_tokens(87 + turn, 80));
        disk.save(&test);
        let head = disk.copy.as_ref().map_or(0, |copy| copy.head.len());
        assert!(head < 1024, "a head of {head} bytes");
    }
    assert_eq!(disk.n_new_tokens, test.session.tokens().len());
    let kv_bytes = disk.n_new_tokens * bytes_per_token;
    let most = kv_bytes + kv_bytes / 20;
    assert!(
        (kv_bytes..=most).contains(&disk.n_written),
        "{} bytes for {kv_bytes} of keys and values",
        disk.n_written
    );
}

#[test]
fn edited_and_continued_conversations_are_restored_from_old_and_new_blocks() {
    for cache in [CACHES[0], CACHES[2]] {
        let mut test = test_session(cache);
        let mut disk = Disk::default();
        let mut prompt = random_tokens(95, 300);
        for (turn, kept) in [300, 500, 256, 257, 130].into_iter().enumerate() {
            prompt.truncate(kept);
            prompt.extend(random_tokens(96 + turn as u32, 250));
            let (response, _) = test.answer(in_conversation(1, &prompt, 0), 20);
            disk.save(&test);
            let n_saved = test.session.tokens().len();
            prompt.extend(response);
            test = test_session(cache);
            let copy = disk.copy.as_ref().expect("it was saved");
            assert_eq!(test.restore(copy), Ok(()));
            let next = [&*prompt, &random_tokens(103, 10)].concat();
            let (_, n_cached) = test.answer_and_check(in_conversation(1, &next, 0), 5);
            assert_eq!(n_cached, n_saved, "{cache:?}, {turn}");
        }
    }
}

/// The tokens after removed text were read again, but their blocks are those from before.
#[test]
fn a_kept_block_with_a_trace_of_removed_text_stays_with_its_conversation() {
    let mut test = test_session(CACHES[0]);
    let (system, dropped, kept) = (
        random_tokens(110, 40),
        random_tokens(111, 300),
        random_tokens(112, 700),
    );
    let whole = [&*system, &*dropped, &*kept].concat();
    let shortened = [&*system, &*kept, &[70; 20]].concat();
    test.answer(in_conversation(1, &whole, 0), 2);
    let (_, n_cached) = test.answer(in_conversation(1, &shortened, 2), 2);
    assert_eq!(n_cached, system.len() + kept.len());
    let mut disk = Disk::default();
    disk.save(&test);
    test.session.truncate(system.len());
    let longer = [&*shortened, &*random_tokens(113, 100)].concat();
    test.answer_and_check(in_conversation(1, &longer, 2), 2);
    assert_eq!(
        test.session.conversation.n_exact,
        test.session.tokens().len()
    );
    disk.save(&test);
    let copy = disk.copy.expect("it was saved");
    assert!(copy.blocks.len() > 3, "{} blocks", copy.blocks.len());

    let mut restored = test_session(CACHES[0]);
    assert_eq!(restored.restore(&copy), Ok(()));
    assert_eq!(restored.session.conversation.n_exact, system.len());
    let (_, n_cached) = restored.answer_and_check(in_conversation(2, &longer, 0), 2);
    assert_eq!(n_cached, system.len());
}

#[test]
fn a_bad_block_restores_nothing_and_the_conversation_is_read_again() {
    let cache = CACHES[0];
    let mut test = test_session(cache);
    let (prompt, other) = (random_tokens(114, 700), random_tokens(115, 300));
    test.answer_and_check(in_conversation(1, &prompt, 0), 2);
    let good = test.save(0);
    let mut of_other_type = test_session((DENSE, of(KvType::F16, true)));
    of_other_type.answer_and_check(in_conversation(1, &prompt, 0), 2);
    let of_other_type = of_other_type.save(0);

    type Damage<'a> = (&'a str, Box<dyn Fn(&mut SavedCopy) + 'a>);
    let damages: [Damage<'_>; 9] = [
        ("cut", Box::new(|copy| _ = copy.blocks[1].1.pop())),
        ("empty", Box::new(|copy| copy.blocks[2].1.clear())),
        (
            "without llama.cpp's bytes",
            Box::new(|copy| _ = copy.blocks[1].1.drain(..1000)),
        ),
        (
            "at another place",
            Box::new(|copy| copy.blocks[1].1 = copy.blocks[0].1.clone()),
        ),
        (
            "of another type",
            Box::new(|copy| copy.blocks[1] = of_other_type.blocks[1].clone()),
        ),
        ("missing", Box::new(|copy| _ = copy.blocks.pop())),
        ("with a gap", Box::new(|copy| _ = copy.blocks.remove(1))),
        (
            "with another head",
            Box::new(|copy| copy.head = of_other_type.head.clone()),
        ),
        ("of fewer tokens", Box::new(|copy| _ = copy.tokens.pop())),
    ];
    for (name, damage) in damages {
        let mut test = test_session(cache);
        test.answer_and_check(in_conversation(2, &other, 0), 2);
        let mut copy = good.clone();
        damage(&mut copy);
        let restored = test.restore(&copy);
        assert!(
            matches!(restored, Err(EngineError::Backend { .. })),
            "{name}: {restored:?}"
        );
        let (_, n_cached) = test.answer_and_check(in_conversation(1, &prompt, 0), 2);
        assert_eq!(n_cached, 0, "{name}");
        // It was the current one, and is parked by now.
        let (_, n_cached) = test.answer_and_check(in_conversation(2, &other, 0), 2);
        assert_eq!(n_cached, other.len() - 1, "{name}");
    }
}

#[test]
fn a_conversation_is_restored_beside_others() {
    for cache in CACHES {
        let mut test = test_session(cache);
        let prompts = [116, 117, 118].map(|seed| random_tokens(seed, 500));
        test.answer_and_check(in_conversation(0, &prompts[0], 0), 5);
        let copy = test.save(0);
        let mut test = test_session(cache);
        for id in [1, 2] {
            test.answer_and_check(in_conversation(id as u64, &prompts[id], 0), 5);
        }
        assert_eq!(test.restore(&copy), Ok(()));
        assert_eq!(test.session.shared.parked.len(), 2);
        for id in [0, 1, 2, 0] {
            let (_, n_cached) =
                test.answer_and_check(in_conversation(id as u64, &prompts[id], 0), 5);
            assert_eq!(n_cached, 499, "{cache:?}, {id}");
        }
    }
}

/// While it is restored, no more than one block is in memory beside the cache.
#[test]
fn blocks_are_read_one_after_another_into_a_cache_that_has_the_ones_before() {
    let mut test = test_session(CACHES[0]);
    append(&mut test.session, &random_tokens(119, 600));
    let ranges: Vec<Range<usize>> = new_blocks(0..600);
    let context = test.session.context.as_ref().expect("it was created");
    let blocks: Vec<Vec<u8>> = ranges
        .iter()
        .map(|range| context.block(range.clone()).expect("it has them"))
        .collect();
    assert_eq!(context.block(590..601), None, "there are 600");
    let whole = context.state(0).expect("there is memory");
    test.session.release();
    test.session.reserve(600).expect("there is memory");
    let context = test.session.context.as_mut().expect("it was created");
    assert!(!context.append_block(&(0..255), &blocks[0]));
    assert!(!context.append_block(&(256..512), &blocks[0]));
    assert_eq!(context.state(0).map(|state| state.len()), Some(16));
    for (range, block) in ranges.iter().zip(&blocks) {
        assert!(context.append_block(range, block));
        let n_bytes = context.state_size(0);
        assert!(n_bytes <= whole.len(), "after {range:?}: {n_bytes}");
    }
    assert_eq!(context.state(0), Some(whole));
}
