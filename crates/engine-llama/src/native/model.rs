//! The weights of a model.
#![expect(unsafe_code, reason = "calls into C")]

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;
use std::ptr::NonNull;

use llama_cpp_sys_2 as sys;

/// Architectures whose cache has a part that chooses what a token attends to.
const COMPOSITE_CACHES: [&CStr; 5] = [
    c"deepseek32",
    c"deepseek4",
    c"glm-dsa",
    c"hy_v4",
    c"minimax-m3",
];

/// Returns true if llama.cpp was built for a GPU and found one.
pub(crate) fn supports_gpu() -> bool {
    // SAFETY: it takes nothing and changes nothing.
    unsafe { sys::llama_supports_gpu_offload() }
}

/// Returns an entry of a file that is 1. A key has at most 127 bytes.
fn entry_of_one(key: &str) -> sys::llama_model_kv_override {
    // SAFETY: numbers and characters may be zero.
    let mut entry: sys::llama_model_kv_override = unsafe { std::mem::zeroed() };
    entry.tag = sys::LLAMA_KV_OVERRIDE_TYPE_INT;
    entry.__bindgen_anon_1.val_i64 = 1;
    for (to, from) in entry.key.iter_mut().zip(key.bytes().take(127)) {
        *to = from as c_char;
    }
    entry
}

#[derive(Debug)]
pub(crate) struct Model {
    model: NonNull<sys::llama_model>,
}

impl Model {
    /// Loads the file at `path`, or a split model by its first part, with all layers on the GPU if
    /// there is one. Weights are mapped from the file if `is_mapped`, else read into memory. The entry
    /// `ignored`, which is a whole number, counts as 1.
    /// `on_progress` gets the progress from 0 to 1, and returns false to cancel. Returns `None` if
    /// it was canceled or failed; `log` has the reason.
    pub(crate) fn load(
        path: &Path,
        is_mapped: bool,
        ignored: Option<&str>,
        mut on_progress: &mut dyn FnMut(f32) -> bool,
    ) -> Option<Self> {
        let path = CString::new(path.as_os_str().as_encoded_bytes()).ok()?;
        // The last one, whose key is empty, ends the list.
        let entries = [entry_of_one(ignored.unwrap_or_default()), entry_of_one("")];
        // SAFETY: the path is a string that ends in a zero. `entries` and `on_progress` outlive the
        // call, and llama.cpp calls back only within it, from this thread.
        let model = unsafe {
            let mut params = sys::llama_model_default_params();
            params.n_gpu_layers = -1;
            // Mapped pages are clean: the system can drop them without writing them. Locked pages
            // could not be dropped at all.
            params.load_mode = if is_mapped {
                sys::LLAMA_LOAD_MODE_MMAP
            } else {
                sys::LLAMA_LOAD_MODE_NONE
            };
            params.kv_overrides = entries.as_ptr();
            params.progress_callback = Some(on_load_progress);
            params.progress_callback_user_data = (&raw mut on_progress).cast::<c_void>();
            sys::llama_model_load_from_file(path.as_ptr(), params)
        };
        Some(Self {
            model: NonNull::new(model)?,
        })
    }

    pub(crate) fn n_bytes(&self) -> u64 {
        // SAFETY: the model is alive.
        unsafe { sys::llama_model_size(self.as_ptr()) }
    }

    /// Returns true if the model continues text: not an encoder, and not an encoder-decoder model.
    pub(crate) fn is_decoder_only(&self) -> bool {
        // SAFETY: as above.
        unsafe {
            sys::llama_model_has_decoder(self.as_ptr())
                && !sys::llama_model_has_encoder(self.as_ptr())
        }
    }

    /// Returns the number of values of a pooled vector.
    pub(crate) fn embedding_size(&self) -> usize {
        // SAFETY: as above.
        usize::try_from(unsafe { sys::llama_model_n_embd_out(self.as_ptr()) }).unwrap_or(0)
    }

    /// Returns true if the model has recurrent states, of which no part can be removed.
    pub(crate) fn has_recurrent_state(&self) -> bool {
        // SAFETY: as above.
        unsafe {
            sys::llama_model_is_recurrent(self.as_ptr())
                || sys::llama_model_is_hybrid(self.as_ptr())
        }
    }

    /// Returns the size of the sliding window in tokens; 0 if no layer has one.
    pub(crate) fn sliding_window(&self) -> usize {
        // SAFETY: as above.
        usize::try_from(unsafe { sys::llama_model_n_swa(self.as_ptr()) }).unwrap_or(0)
    }

    /// Returns true if all layers attend to all tokens, so a cache is nothing but their keys and values.
    pub(crate) fn attends_to_all(&self) -> bool {
        self.sliding_window() == 0 && !self.has_recurrent_state() && !self.has_composite_cache()
    }

    fn has_composite_cache(&self) -> bool {
        let mut name = [0_u8; 32];
        let (key, start) = (c"general.architecture".as_ptr(), name.as_mut_ptr());
        // SAFETY: as above; the key ends in a zero, and llama.cpp writes at most that many bytes.
        unsafe { sys::llama_model_meta_val_str(self.as_ptr(), key, start.cast(), name.len()) };
        let name = CStr::from_bytes_until_nul(&name);
        name.is_ok_and(|name| COMPOSITE_CACHES.contains(&name))
    }

    pub(super) fn as_ptr(&self) -> *mut sys::llama_model {
        self.model.as_ptr()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: made by `llama_model_load_from_file`; a context holds its model alive.
        unsafe { sys::llama_model_free(self.as_ptr()) }
    }
}

unsafe extern "C" fn on_load_progress(progress: f32, callback: *mut c_void) -> bool {
    // SAFETY: `Model::load` passes its `on_progress`, which is alive and used by nobody else meanwhile.
    let on_progress = unsafe { &mut *callback.cast::<&mut dyn FnMut(f32) -> bool>() };
    on_progress(progress)
}
