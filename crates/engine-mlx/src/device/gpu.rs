//! What MLX knows about the Apple GPU of this machine.

#![expect(unsafe_code, reason = "calls into mlx-c")]

use std::ffi::CStr;

use mlx_rs::error::Exception;
use transom_catalog::machine::GpuClass;

use crate::error::MlxResult;

/// The properties of the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GpuInfo {
    /// The class of the chip.
    pub(super) class: GpuClass,
    /// The generation: 13 in the M1, 15 in the M3. `None` if MLX does not say it.
    pub(super) generation: Option<u32>,
    /// The bytes that the GPU can use without slowing down.
    pub(super) working_set_bytes: usize,
}

impl GpuInfo {
    pub(super) fn read() -> MlxResult<Self> {
        let properties = Properties::read()?;
        let chip_name = properties.text(c"device_name");
        let architecture = properties.text(c"architecture");
        Ok(Self {
            class: GpuClass::of_chip(chip_name.unwrap_or_default()),
            generation: architecture.and_then(generation_of),
            working_set_bytes: properties.size(c"max_recommended_working_set_size"),
        })
    }
}

/// MLX's list of the properties.
struct Properties(mlx_sys::mlx_device_info);

impl Properties {
    fn read() -> MlxResult<Self> {
        // SAFETY: the calls return handles. `Drop` frees the one of the properties, and the one of the
        // device is freed here.
        let (info, status) = unsafe {
            let mut info = Self(mlx_sys::mlx_device_info_new());
            let gpu = mlx_sys::mlx_device_new_type(mlx_sys::mlx_device_type__MLX_GPU, 0);
            let status = mlx_sys::mlx_device_info_get(&mut info.0, gpu);
            mlx_sys::mlx_device_free(gpu);
            (info, status)
        };
        match status {
            0 => Ok(info),
            _ => Err(Exception::custom("MLX does not describe the GPU")),
        }
    }

    fn text(&self, key: &CStr) -> Option<&str> {
        let mut text = std::ptr::null();
        // SAFETY: the key is a C string. If the call succeeds, the text is a C string that belongs to
        // `self`, which the result borrows.
        unsafe {
            match mlx_sys::mlx_device_info_get_string(&mut text, self.0, key.as_ptr()) {
                0 => CStr::from_ptr(text).to_str().ok(),
                _ => None,
            }
        }
    }

    fn size(&self, key: &CStr) -> usize {
        let mut size = 0;
        // SAFETY: the key is a C string, and the call writes one number.
        match unsafe { mlx_sys::mlx_device_info_get_size(&mut size, self.0, key.as_ptr()) } {
            0 => size,
            _ => 0,
        }
    }
}

impl Drop for Properties {
    fn drop(&mut self) {
        // SAFETY: nothing else frees the handle.
        unsafe { mlx_sys::mlx_device_info_free(self.0) };
    }
}

/// Returns the generation of a Metal architecture, such as 15 of `applegpu_g15s`.
fn generation_of(architecture: &str) -> Option<u32> {
    let name = architecture.strip_prefix("applegpu_g")?;
    let n_digits = name.bytes().take_while(u8::is_ascii_digit).count();
    name[..n_digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generation_is_in_the_name_of_the_architecture() {
        assert_eq!(generation_of("applegpu_g13g"), Some(13));
        assert_eq!(generation_of("applegpu_g16s"), Some(16));
        assert_eq!(generation_of("applegpu_g"), None);
        assert_eq!(generation_of("sm_90"), None);
    }
}
