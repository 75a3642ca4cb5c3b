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
    is_stopped: bool,
}

impl StopFilter {
    /// Creates a filter that ends at any of `stop`. Empty strings are ignored.
    pub fn new(stop: &[String]) -> Self {
        Self {
            stop: stop.iter().filter(|s| !s.is_empty()).cloned().collect(),
            held: String::new(),
            is_stopped: false,
        }
    }

    /// Returns true after a stop string.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Returns true if `text` alone contains a stop string.
    pub fn occurs_in(&self, text: &str) -> bool {
        self.first_match(text).is_some()
    }

    /// Adds text, and emits text that is certainly not part of a stop string.
    pub fn push(&mut self, text: &str, emit: &mut dyn FnMut(&str)) {
        if self.is_stopped {
            return;
        }
        self.held.push_str(text);
        let certain = match self.first_match(&self.held) {
            Some(start) => {
                self.is_stopped = true;
                start
            }
            None => self.held.len() - self.partial_match(&self.held),
        };
        if certain > 0 {
            emit(&self.held[..certain]);
        }
        if self.is_stopped {
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

    /// Returns the start of the stop string that is complete first.
    fn first_match(&self, text: &str) -> Option<usize> {
        self.stop
            .iter()
            .filter_map(|stop| {
                text.find(stop.as_str())
                    .map(|start| (start + stop.len(), start))
            })
            .min()
            .map(|(_, start)| start)
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
