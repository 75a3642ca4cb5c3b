//! Weights.
#![expect(unsafe_code, reason = "calls into C")]

use std::ffi::{CString, c_void};
use std::path::Path;
use std::ptr::NonNull;

use llama_cpp_sys_2 as sys;

/// Whether llama.cpp was built for a GPU and found one.
pub(crate) fn supports_gpu() -> bool {
    // SAFETY: it takes nothing and changes nothing.
    unsafe { sys::llama_supports_gpu_offload() }
}

/// A loaded model: weights and vocabulary.
#[derive(Debug)]
pub(crate) struct Model {
    model: NonNull<sys::llama_model>,
}

/// What a load calls back.
struct Watch<'a> {
    on_progress: &'a mut dyn FnMut(f32) -> bool,
}

impl Model {
    /// Loads the weights of the file at `path`, of a split model its first part, all layers on the
    /// GPU if there is one; they are pages of the file if `is_mapped`, else read into memory.
    /// `on_progress` gets how much is there, from 0 to 1, and returns whether to go on. `None` when
    /// that was not so, or the file cannot be loaded: `log` has the reason.
    pub(crate) fn load(
        path: &Path,
        is_mapped: bool,
        on_progress: &mut dyn FnMut(f32) -> bool,
    ) -> Option<Self> {
        let path = CString::new(path.as_os_str().as_encoded_bytes()).ok()?;
        let mut watch = Watch { on_progress };
        // SAFETY: the path is a string that ends in a zero. `watch` outlives the call, and llama.cpp
        // calls back only within it, from this thread.
        let model = unsafe {
            let mut params = sys::llama_model_default_params();
            params.n_gpu_layers = -1;
            // Mapped pages are clean: the system takes them back without writing them out. Locked
            // ones it could not take at all.
            params.load_mode = if is_mapped {
                sys::LLAMA_LOAD_MODE_MMAP
            } else {
                sys::LLAMA_LOAD_MODE_NONE
            };
            params.progress_callback = Some(on_load_progress);
            params.progress_callback_user_data = (&raw mut watch).cast::<c_void>();
            sys::llama_model_load_from_file(path.as_ptr(), params)
        };
        Some(Self {
            model: NonNull::new(model)?,
        })
    }

    /// Bytes of all weights.
    pub(crate) fn n_bytes(&self) -> u64 {
        // SAFETY: the model is alive.
        unsafe { sys::llama_model_size(self.as_ptr()) }
    }

    /// Whether it continues text: not an encoder, and not one of two halves.
    pub(crate) fn is_decoder_only(&self) -> bool {
        // SAFETY: as above.
        unsafe {
            sys::llama_model_has_decoder(self.as_ptr())
                && !sys::llama_model_has_encoder(self.as_ptr())
        }
    }

    /// Whether part of what it remembers is a running state, of which no part can be taken back.
    pub(crate) fn has_running_state(&self) -> bool {
        // SAFETY: as above.
        unsafe {
            sys::llama_model_is_recurrent(self.as_ptr())
                || sys::llama_model_is_hybrid(self.as_ptr())
        }
    }

    /// How many tokens the layers with a sliding window see; 0 where there are none.
    pub(crate) fn sliding_window(&self) -> usize {
        // SAFETY: as above.
        usize::try_from(unsafe { sys::llama_model_n_swa(self.as_ptr()) }).unwrap_or(0)
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

unsafe extern "C" fn on_load_progress(progress: f32, watch: *mut c_void) -> bool {
    // SAFETY: `Model::load` passes its `Watch`, which is alive and used by nobody else meanwhile.
    let watch = unsafe { &mut *watch.cast::<Watch<'_>>() };
    (watch.on_progress)(progress)
}
