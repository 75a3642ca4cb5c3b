//! Ends a response at a stop string.
//!
//! The stop string that is complete first ends the response, and of those complete at the same
//! character the longest. So the result does not depend on how tokens split the text. Text that may
//! become part of a stop string is held back.

/// Passes text through up to the first stop string.
#[derive(Debug)]
pub struct StopFilter {
    stop: Vec<String>,
    held: String,
    /// The stop string that ended the response, by index.
    matched: Option<usize>,
    /// The bytes from its start on.
    n_cut: usize,
}

/// A stop string in a text. The order is by its end, and the longest first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Match {
    end: usize,
    start: usize,
    index: usize,
}

impl StopFilter {
    /// Creates a filter that ends at any of `stop`. Empty strings are ignored.
    pub fn new(stop: &[String]) -> Self {
        Self {
            stop: stop.to_vec(),
            held: String::new(),
            matched: None,
            n_cut: 0,
        }
    }

    /// Returns true after a stop string.
    pub fn is_stopped(&self) -> bool {
        self.matched.is_some()
    }

    /// Returns the index of the stop string that ended the response; the first of equal ones.
    pub fn matched(&self) -> Option<usize> {
        self.matched
    }

    /// Returns the number of bytes that are held back, or that the stop string cut off.
    pub fn n_held(&self) -> usize {
        self.n_cut + self.held.len()
    }

    /// Returns true if `text` alone contains a stop string.
    pub fn occurs_in(&self, text: &str) -> bool {
        self.first_match(text).is_some()
    }

    /// Adds text, and emits text that is certainly not part of a stop string.
    pub fn push(&mut self, text: &str, emit: &mut dyn FnMut(&str)) {
        if self.is_stopped() {
            self.n_cut += text.len();
            return;
        }
        self.held.push_str(text);
        let certain = match self.first_match(&self.held) {
            Some(Match { start, index, .. }) => {
                self.matched = Some(index);
                self.n_cut = self.held.len() - start;
                start
            }
            None => self.held.len() - self.partial_match(&self.held),
        };
        if certain > 0 {
            emit(&self.held[..certain]);
        }
        if self.is_stopped() {
            self.held.clear();
        } else {
            self.held.drain(..certain);
        }
    }

    /// Emits the text that was held back, at the end of the response.
    pub fn finish(&mut self, emit: &mut dyn FnMut(&str)) {
        if !self.held.is_empty() {
            emit(&self.held);
            self.held.clear();
        }
    }

    /// Returns the stop string that is complete first.
    fn first_match(&self, text: &str) -> Option<Match> {
        let stop = self.stop.iter().enumerate();
        let found = stop.filter(|(_, stop)| !stop.is_empty());
        let found = found.filter_map(|(index, stop)| {
            let start = text.find(stop.as_str())?;
            let end = start + stop.len();
            Some(Match { end, start, index })
        });
        found.min()
    }

    /// Returns the length in bytes of the longest end of `text` that starts a stop string.
    fn partial_match(&self, text: &str) -> usize {
        self.stop
            .iter()
            .map(|stop| longest_overlap(text, stop))
            .max()
            .unwrap_or(0)
    }
}

/// Returns the length in bytes of the longest end of `text` that is a start of `pattern`, but not
/// all of it.
pub(crate) fn longest_overlap(text: &str, pattern: &str) -> usize {
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    // Both are complete characters, so an equal run of bytes at the end of `text` starts at a
    // character too.
    (1..pattern.len().min(text.len() + 1))
        .rev()
        .find(|&n| text.ends_with(&pattern[..n]))
        .unwrap_or(0)
}
