//! A hub on this machine, with faults on demand.
//!
//! Rule: it speaks the routes as the official hub does, so that what works here works there.

/// A hub on this machine.
#[derive(Debug)]
pub struct LocalHub {
    address: String,
}

impl LocalHub {
    /// Its address, for `HF_ENDPOINT`.
    pub fn address(&self) -> &str {
        &self.address
    }
}
