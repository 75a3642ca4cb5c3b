//! Reads a line that the terminal does not show while it is typed.
//!
//! Rule: however the read ends, Ctrl-C included, the terminal shows typed text again.

use std::io::{self, BufRead, Write, stdin};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::Interrupt;

/// Reads one line from `input`, which is standard input, and returns it without its end. If a person
/// types it (`is_typed`), writes `prompt` to `err` and hides the typed text.
///
/// # Errors
/// Those of reading.
pub fn read_hidden_line(
    prompt: &str,
    input: &mut dyn BufRead,
    err: &mut dyn Write,
    is_typed: bool,
    interrupt: &Interrupt,
) -> io::Result<String> {
    let hidden = is_typed.then(HiddenText::begin).flatten();
    let at_interrupt = hidden.clone();
    let _watch = interrupt.watch(move || {
        if let Some(hidden) = &at_interrupt {
            hidden.end();
        }
        // The read cannot be interrupted, and nothing else is running.
        signal_hook::low_level::exit(130);
    });
    // Write errors are ignored: they cannot be reported anywhere.
    let mut show = |text: &str| {
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    };
    if is_typed {
        show(prompt);
    }
    let mut line = String::new();
    let read = input.read_line(&mut line);
    if let Some(hidden) = hidden {
        hidden.end();
        show("\n");
    }
    read?;
    line.truncate(line.trim_end_matches(['\n', '\r']).len());
    Ok(line)
}

/// The terminal of standard input while it does not show typed text.
#[derive(Debug, Clone)]
struct HiddenText {
    /// The settings that show typed text.
    shown: Termios,
}

impl HiddenText {
    /// Stops the terminal from showing typed text. Returns `None` if standard input is not a terminal.
    fn begin() -> Option<Self> {
        let shown = tcgetattr(stdin()).ok()?;
        let mut hidden = shown.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(stdin(), OptionalActions::Now, &hidden).ok()?;
        Some(Self { shown })
    }

    /// Lets the terminal show typed text again.
    fn end(&self) {
        // This fails only if the terminal is gone.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.shown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piped_line_is_read_without_its_end_or_a_prompt() {
        for (typed, expect) in [("hf_x\n", "hf_x"), ("hf_x\r\nmore\n", "hf_x"), ("", "")] {
            let (mut input, mut err) = (typed.as_bytes(), Vec::<u8>::new());
            let interrupt = Interrupt::default();
            let line = read_hidden_line("Token: ", &mut input, &mut err, false, &interrupt);
            assert_eq!(line.unwrap(), expect);
            assert!(err.is_empty());
        }
    }
}
