//! Text that the terminal does not show while it is typed.

use std::io::stdin;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// The terminal of standard input while it does not show typed text.
#[derive(Debug, Clone)]
pub struct HiddenText {
    /// The settings that show typed text.
    shown: Termios,
}

impl HiddenText {
    /// Stops the terminal from showing typed text. Returns `None` if standard input is not a terminal.
    pub fn begin() -> Option<Self> {
        let shown = tcgetattr(stdin()).ok()?;
        let mut hidden = shown.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(stdin(), OptionalActions::Now, &hidden).ok()?;
        Some(Self { shown })
    }

    /// Lets the terminal show typed text again.
    pub fn end(&self) {
        // This fails only if the terminal is gone.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.shown);
    }
}
