//! Parses a line of the chat: a message, or a command that begins with a slash.
//!
//! Rule: a mistyped command is never sent to the model, and `//` sends a slash.

use std::path::PathBuf;

use transom_terminal::expand_tilde;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// White space only.
    Empty,
    /// Text for the model.
    Message(String),
    Help,
    Reset,
    ShowSystem,
    /// `/system TEXT`; `None` for `/system off`
    SetSystem(Option<String>),
    Stats,
    /// `/save [--force] FILE`
    Save {
        path: PathBuf,
        /// Whether an existing file is replaced.
        overwrite: bool,
    },
    Quit,
    /// Looks like a command but is none; the text is a hint.
    Mistake(String),
}

/// Every command, for completion.
pub(super) const NAMES: [&str; 6] = ["/help", "/quit", "/reset", "/save", "/stats", "/system"];

pub(super) const HELP: &str = include_str!("../help/chat-commands.txt");

/// Parses one line, or several that make one message.
pub(super) fn parse(line: &str) -> Input {
    let line = line.trim();
    if line.is_empty() {
        return Input::Empty;
    }
    let Some(after_slash) = line.strip_prefix('/') else {
        return Input::Message(line.to_owned());
    };
    if after_slash.starts_with('/') {
        return Input::Message(after_slash.to_owned());
    }
    let (name, rest) = match after_slash.split_once(char::is_whitespace) {
        Some((name, rest)) => (name, rest.trim()),
        None => (after_slash, ""),
    };
    match (name, rest) {
        ("help" | "?", "") => Input::Help,
        ("reset", "") => Input::Reset,
        ("stats", "") => Input::Stats,
        ("quit" | "exit" | "bye", "") => Input::Quit,
        ("system", "") => Input::ShowSystem,
        ("system", "off") => Input::SetSystem(None),
        ("system", text) => Input::SetSystem(Some(text.to_owned())),
        ("save", rest) => parse_save(rest),
        ("help" | "reset" | "stats" | "quit", _) => {
            Input::Mistake(format!("/{name} takes nothing after it."))
        }
        _ => Input::Mistake(format!(
            "/{name} is no command; /help lists them. To send a message that begins with a slash, \
             type two."
        )),
    }
}

fn parse_save(rest: &str) -> Input {
    let (overwrite, file) = match rest.strip_prefix("--force") {
        Some(file) if file.is_empty() || file.starts_with(char::is_whitespace) => {
            (true, file.trim())
        }
        _ => (false, rest),
    };
    match file {
        "" => Input::Mistake("Name a file: /save chat.md".into()),
        file => Input::Save {
            path: expand_tilde(file),
            overwrite,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_message_a_command_or_a_mistake() {
        let check = |line: &str, expect: Input| assert_eq!(parse(line), expect, "{line}");
        let save = |path: &str, overwrite| Input::Save {
            path: path.into(),
            overwrite,
        };
        check("  ", Input::Empty);
        check(" Hello\nthere ", Input::Message("Hello\nthere".into()));
        check("//etc/hosts", Input::Message("/etc/hosts".into()));
        check("/help", Input::Help);
        check("/reset ", Input::Reset);
        check("/stats", Input::Stats);
        check("/quit", Input::Quit);
        check("/system", Input::ShowSystem);
        check("/system off", Input::SetSystem(None));
        check(
            "/system Be brief.\nAlways.",
            Input::SetSystem(Some("Be brief.\nAlways.".into())),
        );
        check("/save my chat.md", save("my chat.md", false));
        check("/save --force a.json", save("a.json", true));
        check("/save --forced", save("--forced", false));
    }

    #[test]
    fn a_mistake_gets_a_hint() {
        let check = |line: &str, expect: &str| match parse(line) {
            Input::Mistake(hint) => assert!(hint.contains(expect), "{hint}"),
            other => panic!("{line}: {other:?}"),
        };
        check("/rest", "/help");
        check("/", "no command");
        check("/quit now", "takes nothing");
        check("/save", "/save chat.md");
        check("/save --force", "/save chat.md");
    }

    #[test]
    fn the_help_explains_every_command() {
        for name in NAMES {
            assert!(HELP.lines().any(|line| line.starts_with(name)), "{name}");
        }
    }
}
