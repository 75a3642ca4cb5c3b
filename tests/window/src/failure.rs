//! What went wrong, and the one way to wait.
//!
//! A probe that fails is a state that is not there yet: pages change while they are asked. When the
//! time is over the last failure is in the sentence.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

/// How a test, a picture or a measurement ended.
pub type Outcome<T = ()> = Result<T, Failure>;

/// Why it ended.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// What should be so is not.
    #[error("{0}")]
    Wrong(String),
    /// A state did not come.
    #[error("waited {seconds} s in vain until {what}; last: {last}")]
    TooLate {
        /// Seconds waited.
        seconds: u64,
        /// The state.
        what: String,
        /// What was seen instead.
        last: String,
    },
    /// A file or program of the stage.
    #[error("could not {doing}: {cause}")]
    Stage {
        /// What was tried.
        doing: String,
        /// What the system said.
        cause: String,
    },
    /// The page refused; what the driver said.
    #[error("the page: {0}")]
    Page(String),
}

impl From<fantoccini::error::CmdError> for Failure {
    fn from(error: fantoccini::error::CmdError) -> Self {
        Self::Page(error.to_string())
    }
}

impl Failure {
    /// For what the system refused; `doing` completes "could not …".
    pub fn stage(doing: impl Into<String>, cause: impl ToString) -> Self {
        Self::Stage {
            doing: doing.into(),
            cause: cause.to_string(),
        }
    }

    /// The rest of an error of the stage.
    pub fn doing<E: ToString>(doing: &str) -> impl FnOnce(E) -> Self + '_ {
        move |error| Self::stage(doing, error)
    }
}

/// Fails with the sentence if it is not so.
///
/// # Errors
/// [`Failure::Wrong`] with the sentence.
pub fn check(is_so: bool, sentence: impl FnOnce() -> String) -> Outcome {
    if is_so {
        return Ok(());
    }
    Err(Failure::Wrong(sentence()))
}

/// The longest that any state may take to come, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(45);

/// Asks again and again until the probe finds something; `what` completes "waited in vain until".
///
/// # Errors
/// [`Failure::TooLate`] with what the probe saw last.
pub async fn until<T>(what: &str, probe: impl AsyncFnMut() -> Outcome<Option<T>>) -> Outcome<T> {
    until_within(PATIENCE, what, probe).await
}

/// As [`until`], with another patience.
///
/// # Errors
/// [`Failure::TooLate`] with what the probe saw last.
pub async fn until_within<T>(
    patience: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> Outcome<Option<T>>,
) -> Outcome<T> {
    let deadline = Instant::now() + patience;
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
                seconds: patience.as_secs(),
                what: what.to_owned(),
                last,
            });
        }
    }
}
