//! The terminal as indicatif draws on it.

use std::io;

use ::console::Term;
use indicatif::{ProgressDrawTarget, TermLike};

use crate::console::Stream;

/// Redraws per second, indicatif's own default.
const MAX_HZ: u8 = 20;

/// The columns of the `^C` that a terminal writes at the cursor when a command is interrupted. indicatif
/// fills its last line, so the `^C` would start a new one, and the drawn lines could not be removed.
const INTERRUPT_COLUMNS: u16 = 2;

/// Returns where to draw on a stream that is a terminal.
pub(crate) fn draw_target(stream: Stream) -> ProgressDrawTarget {
    let term = match stream {
        Stream::Out => Term::buffered_stdout(),
        Stream::Err => Term::buffered_stderr(),
    };
    ProgressDrawTarget::term_like_with_hz(Box::new(Narrowed(term)), MAX_HZ)
}

/// A terminal whose last columns stay free.
#[derive(Debug)]
struct Narrowed(Term);

impl TermLike for Narrowed {
    fn width(&self) -> u16 {
        TermLike::width(&self.0).saturating_sub(INTERRUPT_COLUMNS)
    }

    fn height(&self) -> u16 {
        TermLike::height(&self.0)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_up(n)
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_down(n)
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_right(n)
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_left(n)
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.0.write_line(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.write_str(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
}
