//! Ctrl-C: cancels the running job, and ends the program only when there is none or the user
//! insists. What a job is, and how it is cancelled, is the command's own business. SIGTERM and SIGHUP
//! cancel the job and end the program.
//!
//! Rule: cancel is asked, never forced; a job that does not settle leaves the user a way out, by
//! pressing again. A program that ends in this way first does what [`Interrupt::on_end`] was given;
//! the next signal ends it at once.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The process's hold on Ctrl-C. Clones share one state.
#[derive(Clone)]
pub(crate) struct Interrupt {
    state: Arc<Mutex<State>>,
}

/// Asks a job to end.
type Cancel = Arc<dyn Fn() + Send + Sync>;

struct State {
    job: Option<Cancel>,
    /// Presses since the job began.
    n_presses: u32,
    /// The press that ends the program although the job has not settled.
    last_press: u32,
    /// Whether a press with no job ends the program. Not while a line editor reads the key itself.
    ends_when_idle: bool,
    /// What must be done before the program ends.
    at_end: Option<AtEnd>,
    is_ending: bool,
}

/// Leaves things in order; returns within a bound.
type AtEnd = Box<dyn FnOnce() + Send>;

/// What one press leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The job was asked to end.
    Cancelled,
    /// None: the line editor reads the key.
    Nothing,
    /// The program must end at once.
    EndProgram,
}

impl Interrupt {
    /// Takes Ctrl-C over for the process.
    pub(crate) fn install() -> io::Result<Self> {
        let interrupt = Self::detached();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let pressed = interrupt.clone();
        std::thread::Builder::new()
            .name("ctrl-c".into())
            .spawn(move || {
                for signal in signals.forever() {
                    let effect = match signal {
                        SIGINT => pressed.press(),
                        _ => pressed.terminate(),
                    };
                    if effect == Effect::EndProgram {
                        pressed.end_program(128 + signal);
                    }
                }
            })?;
        Ok(interrupt)
    }

    /// An interrupt that no key reaches, for tests.
    pub(crate) fn detached() -> Self {
        let state = State {
            job: None,
            n_presses: 0,
            last_press: 2,
            ends_when_idle: true,
            at_end: None,
            is_ending: false,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Between jobs the line editor reads the key, and an impatient second press during an answer
    /// is not meant to end the conversation.
    pub(crate) fn leave_idle_presses_to_the_editor(&self) {
        let mut state = self.state();
        state.ends_when_idle = false;
        state.last_press = 3;
    }

    /// The conversation is over: from now on a press ends the program again.
    pub(crate) fn take_idle_presses_back(&self) {
        self.state().ends_when_idle = true;
    }

    /// Makes Ctrl-C call `cancel` until the returned guard is dropped.
    pub(crate) fn watch(&self, cancel: impl Fn() + Send + Sync + 'static) -> Watch<'_> {
        let mut state = self.state();
        state.job = Some(Arc::new(cancel));
        state.n_presses = 0;
        Watch { interrupt: self }
    }

    /// Has `at_end` called before a signal ends the program, instead of what was given before.
    pub(crate) fn on_end(&self, at_end: impl FnOnce() + Send + 'static) {
        self.state().at_end = Some(Box::new(at_end));
    }

    /// Whether a signal is ending the program.
    pub(crate) fn is_ending(&self) -> bool {
        self.state().is_ending
    }

    /// Returns only if no signal is ending the program; else the program ends meanwhile.
    pub(crate) fn wait_if_ending(&self) {
        while self.is_ending() {
            std::thread::park();
        }
    }

    /// Ends the program: at once the second time, else after what must be done before.
    fn end_program(&self, code: i32) {
        // Without exit handlers: the engine's threads may still be at work.
        let exit = move || signal_hook::low_level::exit(code);
        match self.begin_ending() {
            Some(at_end) => {
                let ending = std::thread::Builder::new().spawn(move || {
                    let _ = catch_unwind(AssertUnwindSafe(at_end));
                    exit();
                });
                if ending.is_err() {
                    exit();
                }
            }
            None => exit(),
        }
    }

    /// What must be done before the program ends; `None` if nothing, or if it was begun before.
    fn begin_ending(&self) -> Option<AtEnd> {
        let mut state = self.state();
        state.is_ending = true;
        state.at_end.take()
    }

    /// Acts on a signal to end: cancels the running job, and ends the program.
    fn terminate(&self) -> Effect {
        let mut state = self.state();
        state.n_presses += 1;
        let cancel = state.job.clone();
        drop(state);
        if let Some(cancel) = cancel {
            cancel();
        }
        Effect::EndProgram
    }

    /// Acts on one press of the key.
    pub(crate) fn press(&self) -> Effect {
        let mut state = self.state();
        let Some(cancel) = state.job.clone() else {
            return if state.ends_when_idle {
                Effect::EndProgram
            } else {
                Effect::Nothing
            };
        };
        state.n_presses += 1;
        if state.n_presses >= state.last_press {
            return Effect::EndProgram;
        }
        // Not under the lock: what it calls is not ours.
        drop(state);
        cancel();
        Effect::Cancelled
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the watch over a job when dropped.
pub(crate) struct Watch<'a> {
    interrupt: &'a Interrupt,
}

impl Watch<'_> {
    /// Whether Ctrl-C was pressed since the job began.
    pub(crate) fn was_pressed(&self) -> bool {
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
        let interrupt = Interrupt::detached();
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let flag = is_cancelled.clone();
        let watch = interrupt.watch(move || flag.store(true, Ordering::SeqCst));
        assert_eq!(interrupt.press(), Effect::Cancelled);
        assert!(is_cancelled.load(Ordering::SeqCst) && watch.was_pressed());
        assert_eq!(interrupt.press(), Effect::EndProgram);
    }

    #[test]
    fn a_signal_to_end_cancels_the_job_and_what_must_be_done_is_done_once() {
        let interrupt = Interrupt::detached();
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let flag = is_cancelled.clone();
        let watch = interrupt.watch(move || flag.store(true, Ordering::SeqCst));
        let is_done = Arc::new(AtomicBool::new(false));
        let flag = is_done.clone();
        interrupt.on_end(move || flag.store(true, Ordering::SeqCst));
        interrupt.leave_idle_presses_to_the_editor();
        assert_eq!(interrupt.terminate(), Effect::EndProgram);
        assert!(is_cancelled.load(Ordering::SeqCst) && watch.was_pressed());
        assert!(!interrupt.is_ending());
        let at_end = interrupt.begin_ending().unwrap();
        assert!(interrupt.is_ending());
        at_end();
        assert!(is_done.load(Ordering::SeqCst));
        assert!(interrupt.begin_ending().is_none(), "the next ends at once");
    }

    #[test]
    fn a_press_with_no_job_ends_the_program_unless_an_editor_reads() {
        let interrupt = Interrupt::detached();
        drop(interrupt.watch(|| {}));
        assert_eq!(interrupt.press(), Effect::EndProgram);
        interrupt.leave_idle_presses_to_the_editor();
        assert_eq!(interrupt.press(), Effect::Nothing);
        interrupt.take_idle_presses_back();
        assert_eq!(interrupt.press(), Effect::EndProgram);
    }

    #[test]
    fn in_a_chat_it_takes_three_presses_and_each_job_counts_anew() {
        let interrupt = Interrupt::detached();
        interrupt.leave_idle_presses_to_the_editor();
        for _ in 0..2 {
            let _watch = interrupt.watch(|| {});
            assert_eq!(interrupt.press(), Effect::Cancelled);
            assert_eq!(interrupt.press(), Effect::Cancelled);
        }
        let _watch = interrupt.watch(|| {});
        let effects = [interrupt.press(), interrupt.press(), interrupt.press()];
        assert_eq!(effects[2], Effect::EndProgram);
    }
}
