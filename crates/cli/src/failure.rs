//! Why a command ended without its result, and the exit code that says so.
//!
//! Rule: every failure is one line on standard error that begins with `transom:` and says what to
//! do. The exit codes are an interface; `--help` lists them.

use std::any::Any;
use std::io::{self, Write};

use transom_engine::EngineError;
use transom_files::visible;
use transom_hub::HubError;
use transom_supervisor::RequestError;

/// A command that did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The request itself is wrong.
    #[error("{0}")]
    Usage(String),
    /// No command was given: the short help is the answer.
    #[error("{0}")]
    HelpNeeded(String),
    /// The model cannot be found or used.
    #[error("{0}")]
    Model(String),
    /// The engine refused or failed.
    #[error("{0}")]
    Engine(#[from] EngineError),
    /// The supervisor refused, or the model's process came to an end.
    #[error("{error}{}", advice(.error))]
    Ask {
        /// Why.
        error: RequestError,
    },
    /// The hub, or what was asked of it, or the way there and the disk here.
    #[error("{}{}", .0, hub_advice(.0))]
    Hub(#[from] HubError),
    /// Some of what was asked for was not done; each was reported when it happened.
    #[error("{0}")]
    SomeFailed(String),
    /// The running instance could not be reached, nor one started.
    #[error("{0}")]
    Instance(String),
    /// The machine allows less than the command needs.
    #[error("{0}")]
    Restrained(String),
    /// Standard input could not be read.
    #[error("cannot read standard input: {0}")]
    Input(io::Error),
    /// Standard output could not be written. A reader that went away is not worth a message.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    /// Ctrl-C could not be taken over.
    #[error("cannot listen for Ctrl-C: {0}")]
    Signals(io::Error),
    /// The system refused a thread or a timer.
    #[error("cannot begin: {0}")]
    System(io::Error),
    /// One or more answers of a scripted chat failed; each was reported when it happened.
    #[error("{0}")]
    SomeAnswersFailed(String),
    /// A mistake in this program.
    #[error("internal error: {0}; please report it (TRANSOM_LOG=debug shows more)")]
    Internal(String),
    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl Failure {
    /// The process's exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::HelpNeeded(_) => 2,
            Self::Model(_) => 3,
            Self::Engine(error) => engine_exit_code(error),
            Self::Hub(error) => hub_exit_code(error),
            Self::Ask {
                error: RequestError::TooLarge { .. } | RequestError::NoVariantRuns { .. },
            } => 3,
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Input(_)
            | Self::Output(_)
            | Self::Signals(_)
            | Self::System(_)
            | Self::Ask { .. }
            | Self::Instance(_)
            | Self::Restrained(_)
            | Self::SomeAnswersFailed(_)
            | Self::SomeFailed(_)
            | Self::Internal(_) => 1,
            Self::Interrupted => 130,
        }
    }

    /// The line for people, or nothing when the ending speaks for itself.
    pub(crate) fn message(&self) -> Option<String> {
        match self {
            Self::Interrupted | Self::Engine(EngineError::Canceled) => None,
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => None,
            Self::HelpNeeded(help) => Some(help.trim_end().to_owned()),
            _ => Some(format!("transom: {}", one_line(&self.to_string()))),
        }
    }

    /// Why there is no instance to talk to.
    pub(crate) fn instance(reason: impl std::fmt::Display) -> Self {
        Self::Instance(reason.to_string())
    }

    /// Turns clap's several lines into one: what is wrong, its tip, and where the help is.
    pub(crate) fn from_clap(rendered: &str) -> Self {
        let mut lines = rendered
            .lines()
            .map(str::trim)
            .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
            .filter(|line| !line.is_empty());
        let what = lines.next().unwrap_or("bad usage");
        let mut message = what.strip_prefix("error: ").unwrap_or(what).to_owned();
        for line in lines {
            let joint = if message.ends_with(':') { " " } else { "; " };
            message.push_str(joint);
            message.push_str(line);
        }
        message.push_str("; see --help");
        Self::Usage(message)
    }

    /// The message of a caught panic.
    pub(crate) fn from_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self::Internal(text.unwrap_or("unknown").to_owned())
    }
}

impl From<RequestError> for Failure {
    /// The engine's own refusals keep their words and exit codes.
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Engine { source } => Self::Engine(source),
            error => Self::Ask { error },
        }
    }
}

/// What this command line offers about a refusal.
fn advice(error: &RequestError) -> &'static str {
    match error {
        RequestError::TooLarge { .. } => "; --over-budget loads it all the same",
        _ => "",
    }
}

/// What this command line offers about a trouble with the hub.
fn hub_advice(error: &HubError) -> &'static str {
    match error {
        HubError::TokenNeeded { .. } | HubError::TokenRefused { .. } | HubError::Gated { .. } => {
            " `transom models token set` keeps one."
        }
        _ => "",
    }
}

fn hub_exit_code(error: &HubError) -> u8 {
    match error {
        HubError::TokenNeeded { .. }
        | HubError::Gated { .. }
        | HubError::Forbidden { .. }
        | HubError::RepositoryNotFound { .. }
        | HubError::RevisionNotFound { .. }
        | HubError::FileNotFound { .. }
        | HubError::NoModelFiles { .. } => 3,
        HubError::SeveralPackings { .. }
        | HubError::BadName { .. }
        | HubError::BadEndpoint { .. }
        | HubError::NotAToken => 2,
        _ => 1,
    }
}

fn engine_exit_code(error: &EngineError) -> u8 {
    match error {
        EngineError::NotFound { .. }
        | EngineError::BadFile { .. }
        | EngineError::Unsupported { .. }
        | EngineError::OutOfMemory { .. } => 3,
        EngineError::EmptyPrompt
        | EngineError::PromptTooLong { .. }
        | EngineError::InvalidParameter { .. } => 2,
        EngineError::Template { .. } | EngineError::Backend { .. } => 1,
        EngineError::Canceled => 130,
    }
}

/// Writes the failure's line, if it has one, and returns the exit code.
pub(crate) fn report(result: Result<(), Failure>, err: &mut dyn Write) -> u8 {
    let Err(failure) = result else { return 0 };
    if let Some(message) = failure.message() {
        // Nothing is left to do about an error stream that is closed as well.
        let _ = writeln!(err, "{message}");
    }
    failure.exit_code()
}

/// Joins the lines of a message, which may quote a library or a file, and makes it safe to show.
fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    visible(&line).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_engine::MemoryNeed;
    use transom_engine_host::WorkerEnd;
    use transom_supervisor::LimitReason;

    #[test]
    fn clap_errors_become_one_line_with_their_tip() {
        let rendered = "error: unexpected argument '--modle' found\n\n  tip: a similar argument \
                        exists: '--model'\n\nUsage: transom ask\n\nFor more information, try.\n";
        assert_eq!(
            Failure::from_clap(rendered).message().unwrap(),
            "transom: unexpected argument '--modle' found; tip: a similar argument exists: \
             '--model'; see --help"
        );
    }

    #[test]
    fn a_reader_that_went_away_ends_quietly() {
        let failure = Failure::Output(io::ErrorKind::BrokenPipe.into());
        let mut err = Vec::new();
        assert_eq!(report(Err(failure), &mut err), 0);
        assert!(err.is_empty());
    }

    #[test]
    fn refusals_of_the_supervisor_have_their_exit_codes() {
        let check = |error: RequestError, code: u8, expect: &str| {
            let failure = Failure::from(error);
            let message = failure.message().unwrap();
            assert_eq!(failure.exit_code(), code, "{message}");
            assert!(message.contains(expect), "{message}");
        };
        let source = EngineError::EmptyPrompt;
        check(RequestError::Engine { source }, 2, "the prompt is empty");
        check(RequestError::Busy { waiting: 8 }, 1, "8 requests");
        let held = RequestError::Blocked {
            reason: LimitReason::LowPower,
            retry_after: std::time::Duration::from_secs(30),
        };
        check(held, 1, "try again in 30 s");
        let gone = RequestError::WorkerGone {
            end: WorkerEnd::Unresponsive { seconds: 20 },
            during: "answering".into(),
        };
        check(gone, 1, "did not respond for 20 s");
        let too_large = RequestError::TooLarge {
            name: "big".into(),
            need: MemoryNeed::default(),
            budget_bytes: 1,
            in_use_bytes: 0,
            context_that_fits: None,
        };
        check(too_large, 3, "--over-budget");
        let no_form_runs = RequestError::NoVariantRuns {
            name: "odd".into(),
            variants: Vec::new(),
        };
        check(no_form_runs, 3, "no variant of odd runs on this machine");
    }

    #[test]
    fn troubles_with_the_hub_have_their_exit_codes_and_say_what_to_do() {
        let check = |error: HubError, code: u8, expect: &str| {
            let failure = Failure::from(error);
            let message = failure.message().unwrap();
            assert_eq!(failure.exit_code(), code, "{message}");
            assert!(message.contains(expect), "{message}");
        };
        let repository = || "owner/name".to_owned();
        let needed = HubError::TokenNeeded {
            repository: repository(),
        };
        check(needed, 3, "`transom models token set`");
        let none = HubError::RepositoryNotFound {
            repository: repository(),
        };
        check(none, 3, "owner/name");
        let packings = vec!["Q8_0".to_owned(), "Q5_K_M".to_owned()];
        let several = HubError::SeveralPackings {
            repository: repository(),
            packings,
        };
        check(several, 2, "Q8_0, Q5_K_M");
        check(HubError::Offline, 1, "HF_HUB_OFFLINE");
        check(HubError::NotAToken, 2, "not a token");
    }

    #[test]
    fn a_message_that_quotes_a_file_has_no_control_characters() {
        let failure = Failure::Model("a\x1b]0;b\x07 \u{202e}c\u{9b}2J".to_owned());
        assert_eq!(failure.message().unwrap(), "transom: a�]0;b� �c�2J");
    }

    #[test]
    fn messages_of_several_lines_are_joined() {
        let failure = Failure::Engine(EngineError::Backend {
            during: "decode".into(),
            message: "out of\n  luck".into(),
        });
        let mut err = Vec::new();
        assert_eq!(report(Err(failure), &mut err), 1);
        assert_eq!(
            String::from_utf8(err).unwrap(),
            "transom: decode: out of luck\n"
        );
    }
}
