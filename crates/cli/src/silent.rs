//! A line that is typed without being shown.
//!
//! Rule: whatever ends the reading, Ctrl-C included, the terminal shows again what is typed.

use std::sync::Arc;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// Asks with `prompt` where a person types, and reads one line in any case, without its end.
pub(crate) fn read_line(
    prompt: &str,
    console: &mut Console,
    interrupt: &Interrupt,
) -> Result<String, Failure> {
    let hidden = console.terminals.stdin.then(Hidden::begin).flatten();
    let shown_again = hidden.as_ref().map(|hidden| hidden.before.clone());
    let _watch = interrupt.watch(move || {
        if let Some(before) = &shown_again {
            restore(before);
        }
        // The read cannot be woken, and nothing else is under way.
        signal_hook::low_level::exit(130);
    });
    if console.terminals.stdin {
        console.ask(prompt);
    }
    let mut line = String::new();
    let read = console.input.read_line(&mut line);
    if hidden.is_some() {
        console.ask("\n");
    }
    read.map_err(Failure::Input)?;
    line.truncate(line.trim_end_matches(['\n', '\r']).len());
    Ok(line)
}

/// While it lives, the terminal does not show what is typed.
struct Hidden {
    before: Arc<Termios>,
}

impl Hidden {
    /// `None` where standard input is no terminal after all.
    fn begin() -> Option<Self> {
        let before = tcgetattr(std::io::stdin()).ok()?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(std::io::stdin(), OptionalActions::Now, &silent).ok()?;
        Some(Self {
            before: Arc::new(before),
        })
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        restore(&self.before);
    }
}

fn restore(before: &Termios) {
    // A terminal that went away shows nothing anyway.
    let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_console::TestConsole;

    #[test]
    fn a_piped_line_is_read_without_its_end_and_nothing_is_asked() {
        for (typed, expect) in [("hf_x\n", "hf_x"), ("hf_x\r\nmore\n", "hf_x"), ("", "")] {
            let mut streams = TestConsole::typing(typed);
            let interrupt = Interrupt::detached();
            let line = read_line("Token: ", &mut streams.console(), &interrupt).unwrap();
            assert_eq!(line, expect);
            assert_eq!(streams.err_text(), "");
        }
    }
}
