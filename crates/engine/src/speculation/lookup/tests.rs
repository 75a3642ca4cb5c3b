//! What is found, against a search through all tokens.

use proptest::prelude::*;

use super::*;

fn lookup(tokens: &[u32]) -> PromptLookup {
    let mut lookup = PromptLookup::new();
    lookup.extend(tokens);
    lookup
}

fn guess(tokens: &[u32], n: usize) -> Vec<u32> {
    let lookup = lookup(tokens);
    let mut draft = Vec::new();
    if let Some(found) = lookup.find() {
        lookup.draft(found, n, &mut draft);
    }
    draft
}

#[test]
fn what_followed_the_last_tokens_before_is_guessed() {
    assert_eq!(guess(&[1, 2, 3, 4, 5, 9, 1, 2, 3], 3), [4, 5, 9]);
}

#[test]
fn one_equal_token_is_no_match() {
    assert_eq!(lookup(&[2, 3, 4, 5, 9, 3]).find(), None);
    assert_eq!(lookup(&[]).find(), None);
}

#[test]
fn the_longest_match_wins_and_of_equals_the_latest() {
    assert_eq!(guess(&[7, 1, 2, 3, 4, 8, 1, 2, 3, 5, 7, 1, 2, 3], 1), [4]);
    assert_eq!(guess(&[7, 1, 2, 3, 4, 8, 1, 2, 3, 5, 6, 1, 2, 3], 1), [5]);
}

#[test]
fn what_repeats_itself_is_guessed_to_go_on() {
    assert_eq!(guess(&[9, 1, 2, 1, 2, 1], 6), [2, 1, 2, 1, 2, 1]);
    assert_eq!(guess(&[4, 4, 4, 4], 5), [4; 5]);
}

#[test]
fn a_place_taken_out_is_not_found_again() {
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

/// The first requirement of an index: a long context does not make it slow. Not a measurement, but
/// a search through all tokens would take minutes here.
#[test]
fn a_long_context_is_no_burden() {
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
    let bytes = 4 * (lookup.tokens.len() + lookup.earlier.len() + lookup.latest.len());
    assert!(bytes <= 16 * lookup.tokens.len() + 4 * LEAST_SLOTS);
}

/// The match that the documentation promises, by comparing every place. Of up to 32 places only.
fn find_slowly(tokens: &[u32]) -> Option<Match> {
    let last = tokens.len().checked_sub(LEAST_LENGTH)?;
    (LEAST_LENGTH..tokens.len())
        .rev()
        .filter(|&next| tokens[next - LEAST_LENGTH..next] == tokens[last..])
        .take(MOST_PLACES)
        .map(|next| {
            let before = tokens[..next].iter().rev().take(MOST_LENGTH);
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
    fn the_index_finds_what_a_search_finds(changes in prop::collection::vec(change(), 1..12)) {
        let mut lookup = PromptLookup::new();
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
            prop_assert_eq!(lookup.find(), find_slowly(&tokens));
        }
    }
}
