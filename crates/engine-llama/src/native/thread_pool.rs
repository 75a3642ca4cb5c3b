//! A thread pool for computing on the CPU.
#![expect(unsafe_code, reason = "calls into C")]

use std::ptr::NonNull;

use llama_cpp_sys_2 as sys;

/// ggml's own limit (`GGML_MAX_N_THREADS`), which the bindings omit.
const MAX_THREADS: usize = 512;

/// Threads that wait between steps. Without a pool ggml would start new ones for every token.
#[derive(Debug)]
pub(crate) struct ThreadPool {
    pool: NonNull<sys::ggml_threadpool>,
    n_threads: usize,
}

impl ThreadPool {
    /// Starts a pool of `n_threads` threads, including the calling thread. Returns `None` if the
    /// system refuses.
    pub(crate) fn new(n_threads: usize) -> Option<Self> {
        let n_threads = n_threads.clamp(1, MAX_THREADS);
        // SAFETY: the parameters are filled in by ggml itself and live for the call.
        let pool = unsafe {
            let mut params = sys::ggml_threadpool_params_default(n_threads as i32);
            sys::ggml_threadpool_new(&raw mut params)
        };
        Some(Self {
            pool: NonNull::new(pool)?,
            n_threads,
        })
    }

    /// Lets the threads sleep until the next step. Otherwise they wait for it without sleeping, on x86 for a
    /// quarter of a second.
    pub(crate) fn pause(&self) {
        // SAFETY: the pool exists. ggml resumes it with the next step.
        unsafe { sys::ggml_threadpool_pause(self.pool.as_ptr()) }
    }

    pub(crate) fn len(&self) -> usize {
        self.n_threads
    }

    pub(super) fn as_ptr(&self) -> *mut sys::ggml_threadpool {
        self.pool.as_ptr()
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        // SAFETY: made by `ggml_threadpool_new`; a context that uses the pool holds it alive.
        unsafe { sys::ggml_threadpool_free(self.pool.as_ptr()) }
    }
}
