//! Compares the index with a linear search.

use proptest::prelude::*;

use super::*;

fn lookup(tokens: &[u32]) -> PromptLookup {
    let mut lookup = PromptLookup::default();
    lookup.extend(tokens);
    lookup
}

fn draft_after(tokens: &[u32], n: usize) -> Vec<u32> {
    let lookup = lookup(tokens);
    let mut draft = Vec::new();
    if let Some(found) = lookup.find() {
        lookup.draft(found, n, &mut draft);
    }
    draft
}

#[test]
fn the_tokens_after_an_earlier_match_are_drafted() {
    assert_eq!(draft_after(&[1, 2, 3, 4, 5, 9, 1, 2, 3], 3), [4, 5, 9]);
}

#[test]
fn a_match_needs_two_tokens() {
    assert_eq!(lookup(&[2, 3, 4, 5, 9, 3]).find(), None);
    assert_eq!(lookup(&[]).find(), None);
}

#[test]
fn the_longest_match_wins_and_among_equals_the_latest() {
    assert_eq!(
        draft_after(&[7, 1, 2, 3, 4, 8, 1, 2, 3, 5, 7, 1, 2, 3], 1),
        [4]
    );
    assert_eq!(
        draft_after(&[7, 1, 2, 3, 4, 8, 1, 2, 3, 5, 6, 1, 2, 3], 1),
        [5]
    );
}

#[test]
fn repetition_is_drafted_to_continue() {
    assert_eq!(draft_after(&[9, 1, 2, 1, 2, 1], 6), [2, 1, 2, 1, 2, 1]);
    assert_eq!(draft_after(&[4, 4, 4, 4], 5), [4; 5]);
}

#[test]
fn removed_tokens_are_not_found() {
    let mut lookup = lookup(&[1, 2, 3, 4, 5, 9, 1, 2, 3]);
    lookup.remove(0..5);
    assert_eq!(lookup.tokens(), [9, 1, 2, 3]);
    assert_eq!(lookup.find(), None);
    lookup.extend(&[6, 1, 2, 3]);
    assert_eq!(lookup.find(), Some(Match { length: 3, next: 4 }));
    lookup.remove(2..100);
    assert_eq!(lookup.tokens(), [9, 1]);
    lookup.remove(50..60);
    assert_eq!(lookup.tokens(), [9, 1]);
}

/// A linear search through all tokens would take minutes here.
#[test]
fn a_long_context_does_not_slow_the_lookup() {
    let n = 128 * 1024;
    let text: Vec<u32> = (0..n).map(|i| i % 50_000).collect();
    let mut lookup = lookup(&text);
    let mut draft = Vec::new();
    for i in n..n + 2000 {
        let found = lookup.find().unwrap();
        draft.clear();
        lookup.draft(found, 1, &mut draft);
        assert_eq!(draft, [i % 50_000]);
        lookup.push(i % 50_000);
    }
    let bytes = 4 * (lookup.tokens.len() + lookup.previous.len() + lookup.latest.len());
    assert!(bytes <= 16 * lookup.tokens.len() + 4 * MIN_SLOTS);
}

/// Returns the documented match by comparing every position, of up to 32 positions.
fn find_by_search(tokens: &[u32]) -> Option<Match> {
    let last = tokens.len().checked_sub(MIN_MATCH_LENGTH)?;
    (MIN_MATCH_LENGTH..tokens.len())
        .rev()
        .filter(|&next| tokens[next - MIN_MATCH_LENGTH..next] == tokens[last..])
        .take(MAX_CANDIDATES)
        .map(|next| {
            let before = tokens[..next].iter().rev().take(MAX_MATCH_LENGTH);
            let length = before
                .zip(tokens.iter().rev())
                .take_while(|(a, b)| a == b)
                .count();
            Match { length, next }
        })
        // The first of those with the greatest length: the latest.
        .reduce(|best, found| {
            if found.length > best.length {
                found
            } else {
                best
            }
        })
}

#[derive(Debug, Clone)]
enum Change {
    Extend(Vec<u32>),
    Truncate(usize),
    Remove(usize, usize),
    Set(Vec<u32>),
}

fn change() -> impl Strategy<Value = Change> {
    let tokens = || prop::collection::vec(0..4_u32, 0..60);
    prop_oneof![
        4 => tokens().prop_map(Change::Extend),
        1 => (0..100_usize).prop_map(Change::Truncate),
        1 => (0..100_usize, 0..40_usize).prop_map(|(start, n)| Change::Remove(start, start + n)),
        1 => tokens().prop_map(Change::Set),
    ]
}

proptest! {
    #[test]
    fn the_index_finds_the_same_match_as_a_linear_search(changes in prop::collection::vec(change(), 1..12)) {
        let mut lookup = PromptLookup::default();
        let mut tokens: Vec<u32> = Vec::new();
        for change in changes {
            match change {
                Change::Extend(more) => {
                    lookup.extend(&more);
                    tokens.extend(more);
                }
                Change::Truncate(n) => {
                    lookup.truncate(n);
                    tokens.truncate(n);
                }
                Change::Remove(start, end) => {
                    lookup.remove(start..end);
                    let end = end.min(tokens.len());
                    tokens.drain(start.min(end)..end);
                }
                Change::Set(new) => {
                    lookup.set(&new);
                    tokens = new;
                }
            }
            prop_assert_eq!(lookup.tokens(), &*tokens);
            prop_assert_eq!(lookup.find(), find_by_search(&tokens));
        }
    }
}
