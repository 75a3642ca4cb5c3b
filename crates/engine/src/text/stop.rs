//! Ends the answer at a stop string, however it is cut into tokens.
//!
//! The rule: the stop string that is complete first ends the answer, and of those complete at the
//! same character the longest; so the result does not depend on how the text was cut. Text that
//! may still become part of a stop string is held back.

/// Lets text through up to the first stop string.
#[derive(Debug)]
pub struct StopFilter {
    stop: Vec<String>,
    held: String,
    is_stopped: bool,
}

impl StopFilter {
    /// A filter that ends at any of `stop`. Empty strings are ignored.
    pub fn new(stop: &[String]) -> Self {
        Self {
            stop: stop.iter().filter(|s| !s.is_empty()).cloned().collect(),
            held: String::new(),
            is_stopped: false,
        }
    }

    /// Whether a stop string was met.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Whether `text` alone holds a stop string.
    pub fn is_met_in(&self, text: &str) -> bool {
        self.first_match(text).is_some()
    }

    /// Takes text and emits what is certain not to belong to a stop string.
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

    /// No more text will come: half a stop string is text.
    pub fn finish(&mut self, emit: &mut dyn FnMut(&str)) {
        if !self.held.is_empty() {
            emit(&self.held);
            self.held.clear();
        }
    }

    /// Where the stop string that is complete first begins.
    fn first_match(&self, text: &str) -> Option<usize> {
        self.stop
            .iter()
            .filter_map(|stop| text.find(stop.as_str()).map(|at| (at + stop.len(), at)))
            .min()
            .map(|(_, start)| start)
    }

    /// Length in bytes of the longest end of `text` that begins a stop string.
    fn partial_match(&self, text: &str) -> usize {
        self.stop
            .iter()
            .map(|stop| longest_overlap(text, stop))
            .max()
            .unwrap_or(0)
    }
}

/// Length in bytes of the longest end of `text` that is a beginning of `pattern`, but not all of it.
pub(crate) fn longest_overlap(text: &str, pattern: &str) -> usize {
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    // Both are whole characters, so an equal run of bytes that ends where `text` ends starts at a
    // character too.
    (1..pattern.len().min(text.len() + 1))
        .rev()
        .find(|&n| text.ends_with(&pattern[..n]))
        .unwrap_or(0)
}
