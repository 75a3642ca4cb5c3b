//! Forwards llama.cpp's log to `tracing`, and prints the message of an abort.
//!
//! llama.cpp logs its loads in detail, so its `info` is our `debug`, and its warnings, most of
//! which are irrelevant, are our `info`. The first error is stored, because a failed load gives its
//! reason only in the log.
#![expect(unsafe_code, reason = "callbacks from C")]

use std::ffi::{CStr, c_char, c_void};
use std::io::Write;
use std::sync::{Mutex, Once, PoisonError};

use llama_cpp_sys_2 as sys;

/// The current incomplete line, and the first error since it was last taken.
struct Log {
    level: sys::ggml_log_level,
    line: String,
    first_error: Option<String>,
}

static LOG: Mutex<Log> = Mutex::new(Log {
    level: sys::GGML_LOG_LEVEL_NONE,
    line: String::new(),
    first_error: None,
});

/// Initializes llama.cpp, once per process.
pub(crate) fn init() {
    static BEGIN: Once = Once::new();
    BEGIN.call_once(|| {
        // SAFETY: both callbacks are plain functions that live as long as the program, and take no
        // user data. The backend is started once, before anything else of llama.cpp is called.
        unsafe {
            sys::llama_log_set(Some(on_log), std::ptr::null_mut());
            sys::ggml_set_abort_callback(Some(on_abort));
            sys::llama_backend_init();
        }
    });
}

/// Returns the first error logged since the last call; later errors follow from it.
pub(crate) fn take_first_error() -> Option<String> {
    let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    log.first_error.take()
}

unsafe extern "C" fn on_log(level: sys::ggml_log_level, text: *const c_char, _: *mut c_void) {
    if text.is_null() {
        return;
    }
    // SAFETY: llama.cpp passes a string that ends in a zero and lives for this call.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    if level != sys::GGML_LOG_LEVEL_CONT {
        log.flush();
        log.level = level;
    }
    log.line.push_str(&text);
    if log.line.ends_with('\n') {
        log.flush();
    }
}

impl Log {
    fn flush(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = line.trim();
        // The progress of a load is written as dots.
        if line.trim_matches('.').is_empty() {
            return;
        }
        match self.level {
            sys::GGML_LOG_LEVEL_ERROR => {
                tracing::debug!(target: "transom_engine_llama::native", "error: {line}");
                self.first_error.get_or_insert_with(|| line.to_owned());
            }
            sys::GGML_LOG_LEVEL_WARN => {
                tracing::info!(target: "transom_engine_llama::native", "{line}");
            }
            sys::GGML_LOG_LEVEL_INFO => {
                tracing::debug!(target: "transom_engine_llama::native", "{line}");
            }
            _ => tracing::trace!(target: "transom_engine_llama::native", "{line}"),
        }
    }
}

/// ggml is about to abort the process. Without this it would start a debugger to print a backtrace.
unsafe extern "C" fn on_abort(message: *const c_char) {
    let message = if message.is_null() {
        "no reason given".into()
    } else {
        // SAFETY: as in `on_log`.
        unsafe { CStr::from_ptr(message) }.to_string_lossy()
    };
    // The parent keeps the last lines of standard error.
    let _ = writeln!(std::io::stderr(), "llama.cpp gave up: {}", message.trim());
}
