//! Reads little-endian numbers and strings, never past the end.

use crate::file_error::{Fault, FaultCode};

#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// Returns the next `n` bytes. `what` names them in error messages.
    pub(super) fn take(&mut self, n: u64, what: &'static str) -> Result<&'a [u8], Fault> {
        let rest = &self.bytes[self.position..];
        let n_usize = usize::try_from(n).ok().filter(|&n| n <= rest.len());
        let Some(n) = n_usize else {
            let (at, left) = (self.position, rest.len());
            let reason = format!(
                "cut short: {what} at byte {at} needs {n} bytes, but {left} are left; download it \
                 again"
            );
            return Err(Fault::new(FaultCode::Truncated, reason));
        };
        self.position += n;
        Ok(&rest[..n])
    }

    pub(super) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Fault> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64, what)?);
        Ok(array)
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, Fault> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, Fault> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// Returns a string: its length in 8 bytes, then its bytes.
    pub(super) fn string(&mut self, what: &'static str) -> Result<&'a [u8], Fault> {
        let length = self.u64(what)?;
        self.take(length, what)
    }
}
