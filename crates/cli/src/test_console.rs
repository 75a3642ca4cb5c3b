//! A console of buffers, for tests.

use std::io::Cursor;

use indicatif::{InMemoryTerm, ProgressDrawTarget};
use transom_terminal::DEFAULT_COLUMNS;

use crate::Console;
use crate::console::Terminals;

/// The input of a test and what its command writes.
pub(crate) struct TestConsole {
    input: Cursor<Vec<u8>>,
    out: Vec<u8>,
    err: Vec<u8>,
    pub(crate) terminals: Terminals,
    pub(crate) color: bool,
    pub(crate) columns: fn() -> usize,
    /// Shows what is drawn on standard error.
    pub(crate) screen: InMemoryTerm,
    draw_target: Box<dyn Fn() -> ProgressDrawTarget>,
}

impl Default for TestConsole {
    fn default() -> Self {
        Self::typing("")
    }
}

impl TestConsole {
    /// A console with `input` on standard input, and no terminal.
    pub(crate) fn typing(input: impl AsRef<[u8]>) -> Self {
        Self {
            input: Cursor::new(input.as_ref().to_vec()),
            out: Vec::new(),
            err: Vec::new(),
            terminals: Terminals::default(),
            color: false,
            columns: || DEFAULT_COLUMNS,
            screen: InMemoryTerm::new(1, 1),
            draw_target: Box::new(ProgressDrawTarget::hidden),
        }
    }

    /// The same with a terminal of this width on every stream, which gets escape sequences.
    pub(crate) fn on_terminal(mut self, width: u16) -> Self {
        let screen = InMemoryTerm::new(50, width);
        self.screen = screen.clone();
        self.draw_target =
            Box::new(move || ProgressDrawTarget::term_like(Box::new(screen.clone())));
        self.terminals = Terminals {
            stdin: true,
            stdout: true,
            stderr: true,
        };
        self.color = true;
        self
    }

    /// The console for one run.
    pub(crate) fn console(&mut self) -> Console<'_> {
        Console {
            input: &mut self.input,
            out: &mut self.out,
            err: &mut self.err,
            terminals: self.terminals,
            color: self.color,
            columns: self.columns,
            draw_target: &*self.draw_target,
        }
    }

    /// Everything written to standard output.
    pub(crate) fn out_text(&self) -> String {
        String::from_utf8(self.out.clone()).unwrap()
    }

    /// Everything written to standard error.
    pub(crate) fn err_text(&self) -> String {
        String::from_utf8(self.err.clone()).unwrap()
    }
}
