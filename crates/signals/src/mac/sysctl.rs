//! Values of `sysctl`.

use std::ffi::CString;
use std::ptr;

use crate::apple;

/// Reads a number of 4 or 8 bytes; `None` if the name does not exist.
pub(super) fn number(name: &str) -> Option<u64> {
    let mut bytes = [0; 8];
    match read(name, &mut bytes)? {
        4 => Some(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]).into()),
        8 => Some(u64::from_ne_bytes(bytes)),
        _ => None,
    }
}

pub(super) fn swap_used_bytes() -> Option<u64> {
    let mut bytes = [0; 32];
    let length = read("vm.swapusage", &mut bytes)?;
    apple::swap_used_bytes(bytes.get(..length)?)
}

/// Fills `bytes` and returns the length of the value.
#[expect(unsafe_code, reason = "libc has no safe form of it")]
fn read(name: &str, bytes: &mut [u8]) -> Option<usize> {
    let name = CString::new(name).ok()?;
    let mut length = bytes.len();
    // SAFETY: the name ends in zero, and the kernel writes at most `length` bytes into `bytes`.
    let status = unsafe {
        libc::sysctlbyname(
            name.as_ptr(),
            bytes.as_mut_ptr().cast(),
            &mut length,
            ptr::null_mut(),
            0,
        )
    };
    (status == 0).then_some(length)
}
