//! Why a command failed, and the exit code that says so.
//!
//! Rule: every failure is one line on standard error that begins with `transom:` and says what to
//! do. The exit codes are an interface; `--help` lists them.

use std::any::Any;
use std::fmt::Display;
use std::io::{self, Write};

use transom_documents::{DocumentError, DocumentProblem};
use transom_engine::EngineError;
use transom_files::visible;
use transom_hub::HubError;
use transom_supervisor::RequestError;

/// The result of a command, or of a part of one.
pub(crate) type Result<T = (), E = Failure> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The request itself is wrong.
    #[error("{0}")]
    Usage(String),
    /// No command was given, so the short help is shown.
    #[error("{0}")]
    HelpNeeded(String),
    /// The model is missing or cannot be used.
    #[error("{0}")]
    Model(String),
    /// Anything else failed: the hub, the network, the disk, the running instance, the response.
    #[error("{0}")]
    Failed(String),
    /// The response does not match what the user asked for.
    #[error("{0}")]
    NoValidResponse(String),
    /// Standard output could not be written. A reader that went away is not an error.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl Failure {
    /// Returns a failure with this message and exit code 1.
    pub(crate) fn failed(message: impl Display) -> Self {
        Self::Failed(message.to_string())
    }

    /// Returns the failure of a request that is wrong.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self::Usage(message.to_string())
    }

    /// Returns the failure of a read of standard input.
    pub(crate) fn input(error: io::Error) -> Self {
        Self::Failed(format!("cannot read standard input: {error}"))
    }

    /// Returns the failure for a bug in this program.
    pub(crate) fn internal(message: &str) -> Self {
        Self::Failed(format!(
            "internal error: {message}; please report it (TRANSOM_LOG=debug shows more)"
        ))
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Failed(_) | Self::Output(_) => 1,
            Self::Usage(_) | Self::HelpNeeded(_) => 2,
            Self::Model(_) => 3,
            Self::NoValidResponse(_) => 4,
            Self::Interrupted => 130,
        }
    }

    /// Returns the line for people, or `None` for an interruption or a reader that went away.
    pub(crate) fn message(&self) -> Option<String> {
        match self {
            Self::Interrupted => None,
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => None,
            Self::HelpNeeded(help) => Some(help.trim_end().to_owned()),
            _ => {
                // A message may quote a library or a file, and have several lines.
                let text = self.to_string();
                let words: Vec<&str> = text.split_whitespace().collect();
                Some(format!("transom: {}", visible(&words.join(" "))))
            }
        }
    }

    /// Turns clap's several lines into one: the mistake, clap's tip, and where the help is.
    pub(crate) fn from_clap(rendered: &str) -> Self {
        let mut lines = rendered
            .lines()
            .map(str::trim)
            .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
            .filter(|line| !line.is_empty());
        let first = lines.next().unwrap_or("bad usage");
        let mut message = first.strip_prefix("error: ").unwrap_or(first).to_owned();
        for line in lines {
            let separator = if message.ends_with(':') { " " } else { "; " };
            message.push_str(separator);
            message.push_str(line);
        }
        message.push_str("; see --help");
        Self::Usage(message)
    }

    /// Returns the failure for a caught panic.
    pub(crate) fn from_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self::internal(text.unwrap_or("unknown"))
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let message = error.to_string();
        match error {
            EngineError::NotFound { .. }
            | EngineError::BadFile { .. }
            | EngineError::Unsupported { .. }
            | EngineError::OutOfMemory { .. } => Self::Model(message),
            EngineError::EmptyPrompt
            | EngineError::PromptTooLong { .. }
            | EngineError::InvalidConstraint { .. }
            | EngineError::InvalidParameter { .. } => Self::Usage(message),
            EngineError::ConstraintFailed { .. } => Self::NoValidResponse(message),
            EngineError::Template { .. } | EngineError::Backend { .. } => Self::Failed(message),
            EngineError::Canceled => Self::Interrupted,
        }
    }
}

impl From<DocumentError> for Failure {
    fn from(error: DocumentError) -> Self {
        match error.problem {
            DocumentProblem::NotStarted { .. } => Self::failed(error),
            _ => Self::Usage(error.to_string()),
        }
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Engine { source } => source.into(),
            RequestError::TooLarge { .. } => {
                Self::Model(format!("{error}; --over-budget loads it anyway"))
            }
            RequestError::NoVariantRuns { .. } => Self::Model(error.to_string()),
            error => Self::failed(error),
        }
    }
}

impl From<HubError> for Failure {
    fn from(error: HubError) -> Self {
        let advice = match error {
            HubError::TokenNeeded { .. }
            | HubError::TokenRefused { .. }
            | HubError::Gated { .. } => " `transom models token set` stores a token.",
            _ => "",
        };
        let message = format!("{error}{advice}");
        match error {
            HubError::TokenNeeded { .. }
            | HubError::Gated { .. }
            | HubError::Forbidden { .. }
            | HubError::RepositoryNotFound { .. }
            | HubError::RevisionNotFound { .. }
            | HubError::FileNotFound { .. }
            | HubError::NoModelFiles { .. } => Self::Model(message),
            HubError::SeveralQuantizations { .. }
            | HubError::BadName { .. }
            | HubError::BadEndpoint { .. }
            | HubError::NotAToken => Self::Usage(message),
            _ => Self::Failed(message),
        }
    }
}

/// Writes the failure's line, if it has one, and returns the exit code.
pub(crate) fn report(result: Result, err: &mut dyn Write) -> u8 {
    let Err(failure) = result else { return 0 };
    if let Some(message) = failure.message() {
        // An error stream that is closed cannot be reported anywhere.
        let _ = writeln!(err, "{message}");
    }
    failure.exit_code()
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_engine::MemoryNeed;
    use transom_engine_host::WorkerEnd;
    use transom_supervisor::{ClientId, LimitReason};

    #[test]
    fn a_clap_error_becomes_one_line_with_its_tip() {
        let rendered = "error: unexpected argument '--modle' found\n\n  tip: a similar argument \
                        exists: '--model'\n\nUsage: transom ask\n\nFor more information, try.\n";
        assert_eq!(
            Failure::from_clap(rendered).message().unwrap(),
            "transom: unexpected argument '--modle' found; tip: a similar argument exists: \
             '--model'; see --help"
        );
    }

    #[test]
    fn a_closed_pipe_is_not_an_error() {
        let failure = Failure::Output(io::ErrorKind::BrokenPipe.into());
        let mut err = Vec::new();
        assert_eq!(report(Err(failure), &mut err), 0);
        assert!(err.is_empty());
    }

    /// Checks the exit code of an error, and that its message contains `expect`.
    fn check(error: impl Into<Failure>, code: u8, expect: &str) {
        let failure = error.into();
        let message = failure.message().unwrap();
        assert_eq!(failure.exit_code(), code, "{message}");
        assert!(message.contains(expect), "{message}");
    }

    #[test]
    fn supervisor_errors_have_their_exit_codes() {
        let source = EngineError::EmptyPrompt;
        check(RequestError::Engine { source }, 2, "the prompt is empty");
        let retry_after = std::time::Duration::from_secs(20);
        let full = RequestError::Busy {
            waiting: 16,
            retry_after,
        };
        let expected = "16 requests are waiting already; try again in 20 s";
        check(full, 1, expected);
        let full_for_client = RequestError::ClientBusy {
            client: ClientId::cli(),
            waiting: 8,
            retry_after,
        };
        check(full_for_client, 1, "8 requests of cli");
        let held = RequestError::Blocked {
            reason: LimitReason::LowPower,
            retry_after: std::time::Duration::from_secs(30),
        };
        check(held, 1, "try again in 30 s");
        let gone = RequestError::WorkerGone {
            end: WorkerEnd::Unresponsive { seconds: 20 },
            during: "generating".into(),
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
    fn hub_errors_have_their_exit_codes_and_say_what_to_do() {
        let repository = || "owner/name".to_owned();
        let needed = HubError::TokenNeeded {
            repository: repository(),
        };
        check(needed, 3, "`transom models token set`");
        let none = HubError::RepositoryNotFound {
            repository: repository(),
        };
        check(none, 3, "owner/name");
        let quantizations = vec!["Q8_0".to_owned(), "Q5_K_M".to_owned()];
        let several = HubError::SeveralQuantizations {
            repository: repository(),
            quantizations,
        };
        check(several, 2, "Q8_0, Q5_K_M");
        check(HubError::Offline, 1, "HF_HUB_OFFLINE");
        check(HubError::NotAToken, 2, "not a token");
    }

    #[test]
    fn control_characters_of_a_quoted_file_are_replaced() {
        let failure = Failure::Model("a\x1b]0;b\x07 \u{202e}c\u{9b}2J".to_owned());
        assert_eq!(failure.message().unwrap(), "transom: a�]0;b� �c�2J");
    }

    #[test]
    fn a_message_of_several_lines_is_joined() {
        let failure = Failure::from(EngineError::Backend {
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

    #[test]
    fn a_canceled_request_exits_with_130_and_no_message() {
        let failure = Failure::from(EngineError::Canceled);
        assert_eq!((failure.exit_code(), failure.message()), (130, None));
    }
}
