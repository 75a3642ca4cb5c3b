//! The responses that a model generates at the same time.

use crate::error::EngineError;

/// Identifies a response while it is generated. Never reused by one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResponseId(u64);

/// The responses in progress of one model.
#[derive(Debug)]
pub struct Responses<R> {
    n_begun: u64,
    were_parallel: bool,
    all: Vec<(ResponseId, R)>,
}

impl<R> Default for Responses<R> {
    fn default() -> Self {
        Self {
            n_begun: 0,
            were_parallel: false,
            all: Vec::new(),
        }
    }
}

impl<R> Responses<R> {
    /// Adds a response and returns its id.
    pub fn add(&mut self, response: R) -> ResponseId {
        let id = ResponseId(self.n_begun);
        self.n_begun += 1;
        self.were_parallel |= !self.all.is_empty();
        self.all.push((id, response));
        id
    }

    /// Returns the peak memory of the statistics of a response; `peak_bytes` is that of the process
    /// since the load. It is unknown (0) after several responses were in progress at the same time.
    pub fn peak_of_one(&self, peak_bytes: u64) -> u64 {
        match self.were_parallel {
            true => 0,
            false => peak_bytes,
        }
    }

    /// Returns a response in progress.
    ///
    /// # Errors
    /// [`EngineError::Backend`] if it has ended.
    pub fn get_mut(&mut self, id: ResponseId) -> Result<&mut R, EngineError> {
        let mut all = self.all.iter_mut();
        let found = all.find(|(known, _)| *known == id);
        found.map(|(_, response)| response).ok_or_else(|| {
            EngineError::backend("generating", format!("response {} has ended", id.0))
        })
    }

    /// Returns a response, if it is in progress.
    pub fn get(&self, id: ResponseId) -> Option<&R> {
        let found = self.all.iter().find(|(known, _)| *known == id);
        found.map(|(_, response)| response)
    }

    /// Removes a response that has ended.
    pub fn remove(&mut self, id: ResponseId) -> Option<R> {
        let index = self.all.iter().position(|(known, _)| *known == id)?;
        Some(self.all.remove(index).1)
    }

    /// Returns true if no response is in progress.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the number of responses in progress.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns all responses in progress, in the order in which they began.
    pub fn iter(&self) -> impl Iterator<Item = &R> {
        self.all.iter().map(|(_, response)| response)
    }

    /// Returns the same, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut R> {
        self.all.iter_mut().map(|(_, response)| response)
    }
}
