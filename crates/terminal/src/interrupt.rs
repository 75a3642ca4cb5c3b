//! Ctrl-C cancels the running job. It ends the program if there is no job, or if the user presses it
//! again. SIGTERM and SIGHUP cancel the job and end the program.
//!
//! Rule: a job is asked to stop and never forced; if it does not stop, the next press ends the
//! program. The program first does what [`Interrupt::before_exit`] was given, and the next signal ends
//! it at once.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The handler of Ctrl-C and of signals that end the program. Clones share one state. No signal reaches
/// the default one, which is for tests.
#[derive(Clone, Default)]
pub struct Interrupt {
    state: Arc<Mutex<State>>,
}

/// Asks a job to stop.
type Cancel = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct State {
    job: Option<Cancel>,
    /// Presses since the job began.
    n_presses: u32,
    /// Whether a line editor reads the key between jobs.
    is_read_when_idle: bool,
    /// What must be done before the program ends.
    before_exit: Option<BeforeExit>,
    is_exiting: bool,
}

/// Cleans up, in limited time.
type BeforeExit = Box<dyn FnOnce() + Send>;

impl Interrupt {
    /// Installs the signal handlers of the process.
    pub fn install() -> io::Result<Self> {
        let interrupt = Self::default();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let pressed = interrupt.clone();
        std::thread::Builder::new()
            .name("ctrl-c".into())
            .spawn(move || {
                for signal in signals.forever() {
                    if signal != SIGINT {
                        pressed.cancel();
                    } else if !pressed.press() {
                        continue;
                    }
                    pressed.end_program(128 + signal);
                }
            })?;
        Ok(interrupt)
    }

    /// Ignores presses between jobs, where the line editor reads the key, and lets an impatient second
    /// press during a response not end the conversation.
    pub fn ignore_when_idle(&self) {
        self.state().is_read_when_idle = true;
    }

    /// Lets presses between jobs end the program again.
    pub fn end_when_idle(&self) {
        self.state().is_read_when_idle = false;
    }

    /// Makes Ctrl-C call `cancel` until the returned guard is dropped.
    pub fn watch(&self, cancel: impl Fn() + Send + Sync + 'static) -> Watch<'_> {
        let mut state = self.state();
        state.job = Some(Arc::new(cancel));
        state.n_presses = 0;
        Watch { interrupt: self }
    }

    /// Sets what is called before a signal ends the program.
    pub fn before_exit(&self, before_exit: impl FnOnce() + Send + 'static) {
        self.state().before_exit = Some(Box::new(before_exit));
    }

    /// Returns only if no signal is ending the program.
    pub fn wait_if_exiting(&self) {
        while self.state().is_exiting {
            std::thread::park();
        }
    }

    /// Ends the program, at the first call after what must be done before.
    fn end_program(&self, code: i32) {
        // Without exit handlers: threads of the engine may still run.
        let exit = move || signal_hook::low_level::exit(code);
        let Some(before_exit) = self.begin_exit() else {
            return exit();
        };
        let thread = std::thread::Builder::new().spawn(move || {
            let _ = catch_unwind(AssertUnwindSafe(before_exit));
            exit();
        });
        if thread.is_err() {
            exit();
        }
    }

    /// Returns what must be done before the program ends; `None` at every call but the first.
    fn begin_exit(&self) -> Option<BeforeExit> {
        let mut state = self.state();
        state.is_exiting = true;
        state.before_exit.take()
    }

    /// Handles one press of Ctrl-C. Returns true if the program must end now.
    pub fn press(&self) -> bool {
        let state = self.state();
        if state.job.is_none() {
            return !state.is_read_when_idle;
        }
        let last_press = if state.is_read_when_idle { 3 } else { 2 };
        if state.n_presses + 1 >= last_press {
            return true;
        }
        drop(state);
        self.cancel();
        false
    }

    /// Asks the running job to stop.
    fn cancel(&self) {
        let mut state = self.state();
        state.n_presses += 1;
        let job = state.job.clone();
        // The callback is not ours, so it must not run under the lock.
        drop(state);
        if let Some(cancel) = job {
            cancel();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes Ctrl-C cancel a job until it is dropped.
pub struct Watch<'a> {
    interrupt: &'a Interrupt,
}

impl Watch<'_> {
    /// Returns true if Ctrl-C was pressed since the job began.
    pub fn was_pressed(&self) -> bool {
        self.interrupt.state().n_presses > 0
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.interrupt.state().job = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn the_first_press_cancels_and_the_second_ends_the_program() {
        let interrupt = Interrupt::default();
        let is_canceled = Arc::new(AtomicBool::new(false));
        let flag = is_canceled.clone();
        let watch = interrupt.watch(move || flag.store(true, Ordering::SeqCst));
        assert!(!interrupt.press());
        assert!(is_canceled.load(Ordering::SeqCst) && watch.was_pressed());
        assert!(interrupt.press());
    }

    #[test]
    fn sigterm_cancels_the_job_and_runs_the_cleanup_once() {
        let interrupt = Interrupt::default();
        let is_canceled = Arc::new(AtomicBool::new(false));
        let flag = is_canceled.clone();
        let watch = interrupt.watch(move || flag.store(true, Ordering::SeqCst));
        let is_done = Arc::new(AtomicBool::new(false));
        let flag = is_done.clone();
        interrupt.before_exit(move || flag.store(true, Ordering::SeqCst));
        interrupt.ignore_when_idle();
        interrupt.cancel();
        assert!(is_canceled.load(Ordering::SeqCst) && watch.was_pressed());
        assert!(!interrupt.state().is_exiting);
        let before_exit = interrupt.begin_exit().unwrap();
        assert!(interrupt.state().is_exiting);
        before_exit();
        assert!(is_done.load(Ordering::SeqCst));
        assert!(
            interrupt.begin_exit().is_none(),
            "the next signal ends at once"
        );
    }

    #[test]
    fn a_press_with_no_job_ends_the_program_unless_an_editor_reads() {
        let interrupt = Interrupt::default();
        drop(interrupt.watch(|| {}));
        assert!(interrupt.press());
        interrupt.ignore_when_idle();
        assert!(!interrupt.press());
        interrupt.end_when_idle();
        assert!(interrupt.press());
    }

    #[test]
    fn in_a_chat_the_third_press_during_one_job_ends_the_program() {
        let interrupt = Interrupt::default();
        interrupt.ignore_when_idle();
        for _ in 0..2 {
            let _watch = interrupt.watch(|| {});
            assert_eq!([interrupt.press(), interrupt.press()], [false, false]);
        }
        let _watch = interrupt.watch(|| {});
        let ends = [interrupt.press(), interrupt.press(), interrupt.press()];
        assert_eq!(ends, [false, false, true]);
    }
}
