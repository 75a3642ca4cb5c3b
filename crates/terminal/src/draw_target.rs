//! The terminal as indicatif draws on it.

use std::io;

use console::Term;
use indicatif::{ProgressDrawTarget, TermLike};

/// Redraws per second, indicatif's own default.
const MAX_HZ: u8 = 20;

/// The columns of the `^C` that a terminal writes at the cursor when a command is interrupted. indicatif
/// fills its line, so the `^C` would start a new one, and the drawn line could not be removed.
const INTERRUPT_COLUMNS: u16 = 2;

/// Returns the terminal of standard error, to draw one line on it.
pub fn draw_target() -> ProgressDrawTarget {
    let term = Narrowed(Term::buffered_stderr());
    ProgressDrawTarget::term_like_with_hz(Box::new(term), MAX_HZ)
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
