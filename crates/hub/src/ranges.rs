//! The ranges of a file that are on the disk: a sorted set of merged byte ranges.
//!
//! Rule: this module is arithmetic only. Ranges in the set were written; ranges in the journal were
//! also synced.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A set of byte ranges. None is empty, and none touches another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    pub(crate) fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        let from = self.0.partition_point(|&(_, known_end)| known_end < start);
        let to = self
            .0
            .partition_point(|&(known_start, _)| known_start <= end);
        for &(known_start, known_end) in &self.0[from..to] {
            start = start.min(known_start);
            end = end.max(known_end);
        }
        self.0.splice(from..to, [(start, end)]);
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    pub(crate) fn is_complete(&self, size_bytes: u64) -> bool {
        size_bytes == 0 || self.0 == [(0, size_bytes)]
    }

    /// Returns the number of bytes from the start of the file to the first gap.
    pub(crate) fn prefix(&self) -> u64 {
        match self.0.first() {
            Some(&(0, end)) => end,
            _ => 0,
        }
    }

    /// Returns the missing ranges of a file in order, in pieces of at most this size.
    pub(crate) fn missing(&self, size_bytes: u64, piece_bytes: u64) -> Vec<Range<u64>> {
        let mut pieces = Vec::new();
        let mut at = 0;
        let ends = self.0.iter().copied().chain([(size_bytes, size_bytes)]);
        for (start, end) in ends {
            while at < start.min(size_bytes) {
                let to = (at + piece_bytes.max(1)).min(start.min(size_bytes));
                pieces.push(at..to);
                at = to;
            }
            at = at.max(end);
        }
        pieces
    }

    pub(crate) fn missing_in(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut at = range.start;
        for &(start, end) in &self.0 {
            if end <= at {
                continue;
            }
            if start >= range.end {
                break;
            }
            if start > at {
                missing.push(at..start);
            }
            at = end;
        }
        if at < range.end {
            missing.push(at..range.end);
        }
        missing
    }

    /// Returns true if the set is possible for a file of this size: sorted, disjoint, and within
    /// the file.
    pub(crate) fn is_valid(&self, size_bytes: u64) -> bool {
        let mut before = None;
        self.0.iter().all(|&(start, end)| {
            let is_apart = before.is_none_or(|before| start > before);
            before = Some(end);
            is_apart && start < end && end <= size_bytes
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_ranges_agree_with_a_byte_map() {
        let mut random = fastrand::Rng::with_seed(7);
        for round in 0..2000 {
            let size = random.u64(1..60);
            let mut ranges = Ranges::default();
            let mut marks = vec![false; size as usize];
            for _ in 0..random.u32(0..10) {
                let start = random.u64(0..size);
                let end = random.u64(start..=size);
                ranges.add(start..end);
                marks[start as usize..end as usize].fill(true);
            }
            assert!(ranges.is_valid(size), "round {round}: {ranges:?}");
            let n_marked = marks.iter().filter(|mark| **mark).count() as u64;
            assert_eq!(ranges.len(), n_marked, "round {round}");
            assert_eq!(ranges.is_complete(size), n_marked == size, "round {round}");
            let n_first = marks.iter().take_while(|mark| **mark).count() as u64;
            assert_eq!(ranges.prefix(), n_first, "round {round}");
            let piece = random.u64(1..20);
            let (from, to) = (random.u64(0..size), random.u64(0..=size));
            for (pieces, within) in [
                (ranges.missing(size, piece), 0..size),
                (ranges.missing_in(from..to.max(from)), from..to.max(from)),
            ] {
                let mut left = marks.clone();
                for piece in pieces {
                    for at in piece {
                        assert!(within.contains(&at), "round {round}");
                        assert!(!left[at as usize], "round {round}: {at} twice");
                        left[at as usize] = true;
                    }
                }
                let is_filled = within.clone().all(|at| left[at as usize]);
                assert!(is_filled, "round {round}: {ranges:?} in {within:?}");
            }
        }
    }

    #[test]
    fn impossible_ranges_are_not_valid() {
        for text in ["[[0,5],[5,9]]", "[[3,3]]", "[[0,11]]", "[[4,6],[0,2]]"] {
            let ranges: Ranges = serde_json::from_str(text).unwrap();
            assert!(!ranges.is_valid(10), "{text}");
        }
    }
}
