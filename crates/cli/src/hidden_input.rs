//! Reads a line that the terminal does not show while it is typed.
//!
//! Rule: however the read ends, Ctrl-C included, the terminal shows typed text again.

use transom_terminal::{HiddenText, Interrupt};

use crate::{Console, Failure, Result};

/// Reads one line from standard input and returns it without its end. Shows `prompt` if a person types.
pub(crate) fn read_line(
    prompt: &str,
    console: &mut Console,
    interrupt: &Interrupt,
) -> Result<String> {
    let hidden = console.terminals.stdin.then(HiddenText::begin).flatten();
    let at_interrupt = hidden.clone();
    let _watch = interrupt.watch(move || {
        if let Some(hidden) = &at_interrupt {
            hidden.end();
        }
        // The read cannot be interrupted, and nothing else is running.
        signal_hook::low_level::exit(130);
    });
    if console.terminals.stdin {
        console.write_err(prompt);
    }
    let mut line = String::new();
    let read = console.input.read_line(&mut line);
    if let Some(hidden) = hidden {
        hidden.end();
        console.write_err("\n");
    }
    read.map_err(Failure::input)?;
    line.truncate(line.trim_end_matches(['\n', '\r']).len());
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_console::TestConsole;

    #[test]
    fn a_piped_line_is_read_without_its_end_or_a_prompt() {
        for (typed, expect) in [("hf_x\n", "hf_x"), ("hf_x\r\nmore\n", "hf_x"), ("", "")] {
            let mut streams = TestConsole::typing(typed);
            let interrupt = Interrupt::default();
            let line = read_line("Token: ", &mut streams.console(), &interrupt).unwrap();
            assert_eq!(line, expect);
            assert_eq!(streams.err_text(), "");
        }
    }
}
