//! The error type, and the only ways to wait.
//!
//! A probe that fails counts as a state that is not reached yet, because pages change while they
//! are read. After the timeout, the error contains the last failure.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

/// The result of a test, a screenshot or a measurement.
pub type Outcome<T = ()> = Result<T, Failure>;

/// An error.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An expected condition is not true.
    #[error("{0}")]
    Wrong(String),
    /// A state was not reached in time.
    #[error("waited {seconds} s in vain until {what}; last: {last}")]
    TooLate {
        /// Seconds waited.
        seconds: u64,
        /// The expected state.
        what: String,
        /// The last result of the probe.
        last: String,
    },
    /// A file or program of the test setup failed.
    #[error("could not {doing}: {cause}")]
    Setup {
        /// The action that failed.
        doing: String,
        /// The system's error.
        cause: String,
    },
    /// An error of the driver.
    #[error("the page: {0}")]
    Page(String),
}

impl From<fantoccini::error::CmdError> for Failure {
    fn from(error: fantoccini::error::CmdError) -> Self {
        Self::Page(error.to_string())
    }
}

impl Failure {
    /// Creates an error of the system; `doing` completes "could not …".
    pub fn setup(doing: impl Into<String>, cause: impl ToString) -> Self {
        Self::Setup {
            doing: doing.into(),
            cause: cause.to_string(),
        }
    }

    /// Returns a function that converts an error of the system.
    pub fn doing<E: ToString>(doing: &str) -> impl FnOnce(E) -> Self + '_ {
        move |error| Self::setup(doing, error)
    }
}

/// Fails with this sentence if the condition is false.
///
/// # Errors
/// [`Failure::Wrong`] with the sentence.
pub fn check(is_so: bool, sentence: impl FnOnce() -> String) -> Outcome {
    if is_so {
        return Ok(());
    }
    Err(Failure::Wrong(sentence()))
}

/// The timeout for any state, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(45);

/// Runs an action that must end in time, such as a call of the driver; `what` completes "waited in
/// vain until".
///
/// # Errors
/// The error of the action, or [`Failure::TooLate`].
pub async fn in_time<T, E: Into<Failure>>(
    what: &str,
    action: impl Future<Output = Result<T, E>>,
) -> Outcome<T> {
    match tokio::time::timeout(TIMEOUT, action).await {
        Ok(result) => result.map_err(Into::into),
        Err(_) => Err(Failure::TooLate {
            seconds: TIMEOUT.as_secs(),
            what: what.to_owned(),
            last: "no answer".to_owned(),
        }),
    }
}

/// Repeats the probe until it returns a value; `what` completes "waited in vain until".
///
/// # Errors
/// [`Failure::TooLate`] with the last result of the probe.
pub async fn until<T>(what: &str, probe: impl AsyncFnMut() -> Outcome<Option<T>>) -> Outcome<T> {
    until_within(TIMEOUT, what, probe).await
}

/// Like [`until`], with another timeout.
///
/// # Errors
/// [`Failure::TooLate`] with the last result of the probe.
pub async fn until_within<T>(
    limit: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> Outcome<Option<T>>,
) -> Outcome<T> {
    let deadline = Instant::now() + limit;
    let mut ticks = interval(Duration::from_millis(25));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = String::from("no answer");
    loop {
        ticks.tick().await;
        match tokio::time::timeout_at(deadline, probe()).await {
            Ok(Ok(Some(found))) => return Ok(found),
            Ok(Ok(None)) => last = "not yet".to_owned(),
            Ok(Err(failure)) => last = failure.to_string(),
            Err(_) => {}
        }
        if Instant::now() >= deadline {
            return Err(Failure::TooLate {
                seconds: limit.as_secs(),
                what: what.to_owned(),
                last,
            });
        }
    }
}
