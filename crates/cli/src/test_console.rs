//! A console of buffers, for tests.

use std::io::Cursor;

use crate::console::{Console, Terminals, USUAL_COLUMNS};

/// What a test types, and what it gets to read.
pub(crate) struct TestConsole {
    input: Cursor<Vec<u8>>,
    out: Vec<u8>,
    err: Vec<u8>,
    pub(crate) terminals: Terminals,
    pub(crate) colour: bool,
    pub(crate) columns: fn() -> usize,
}

impl Default for TestConsole {
    fn default() -> Self {
        Self::typing("")
    }
}

impl TestConsole {
    /// A console with `input` waiting on standard input, and no terminal anywhere.
    pub(crate) fn typing(input: impl AsRef<[u8]>) -> Self {
        Self {
            input: Cursor::new(input.as_ref().to_vec()),
            out: Vec::new(),
            err: Vec::new(),
            terminals: Terminals::default(),
            colour: false,
            columns: || USUAL_COLUMNS,
        }
    }

    /// The console for one run.
    pub(crate) fn console(&mut self) -> Console<'_> {
        Console {
            input: &mut self.input,
            out: &mut self.out,
            err: &mut self.err,
            terminals: self.terminals,
            colour: self.colour,
            columns: self.columns,
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
