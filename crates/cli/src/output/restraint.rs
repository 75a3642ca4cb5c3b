//! What the machine holds back, told in one calm line where it shortened an answer.
//!
//! Rule: a restraint that changed nothing for this answer is not mentioned.

use transom_supervisor::{ActiveLimit, Allowance, Limit};

use crate::link::Link;

/// The bounds of one answer, as they were when it began.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bounds {
    max_tokens: Option<usize>,
    context_length: Option<usize>,
    restraints: Vec<ActiveLimit>,
}

impl Bounds {
    /// The bounds in force now.
    pub(crate) fn now(link: &Link) -> Self {
        let status = link.status();
        status.map_or_else(|_| Self::default(), |status| Self::new(&status.allowance))
    }

    fn new(allowance: &Allowance) -> Self {
        Self {
            max_tokens: allowance.max_tokens,
            context_length: allowance.context_length,
            restraints: allowance.limits.clone(),
        }
    }

    /// Why an answer of `n_generated` tokens that ended at a limit did so, if the machine's bound
    /// was the least.
    pub(crate) fn on_length(&self, n_generated: usize) -> Option<String> {
        let max_tokens = self.max_tokens.filter(|most| n_generated >= *most)?;
        Some(
            self.told(|limit| matches!(limit, Limit::AnswerLength { .. }))
                .unwrap_or_else(|| {
                    format!(
                        "answers have at most {max_tokens} tokens for now, to spare this computer"
                    )
                }),
        )
    }

    /// The context that a conversation was shortened to, and why, if it is less than the model's.
    pub(crate) fn on_context(&self, of_model: usize) -> Option<String> {
        let context_length = self.context_length.filter(|n| *n < of_model)?;
        Some(
            self.told(|limit| matches!(limit, Limit::Context { .. }))
                .unwrap_or_else(|| {
                    format!("a context of {context_length} tokens for now, to spare this computer")
                }),
        )
    }

    /// The restraint of that kind, in words.
    fn told(&self, is_it: impl Fn(&Limit) -> bool) -> Option<String> {
        let mut restraints = self.restraints.iter();
        let restraint = restraints.find(|restraint| is_it(&restraint.limit));
        restraint.map(ToString::to_string)
    }
}

/// Why the machine ended an answer, in words.
pub(crate) fn why_shed(link: &Link) -> String {
    match link.status() {
        Ok(status) => match status.allowance.blocked_by {
            Some(because) => because.to_string(),
            None => SHORT_OF_MEMORY.to_owned(),
        },
        Err(_) => SHORT_OF_MEMORY.to_owned(),
    }
}

const SHORT_OF_MEMORY: &str = "this computer is short of memory";

#[cfg(test)]
mod tests {
    use super::*;
    use transom_supervisor::LimitReason;

    fn bounds() -> Bounds {
        let restraint = |limit| ActiveLimit {
            limit,
            reason: LimitReason::LowPower,
        };
        Bounds {
            max_tokens: Some(1024),
            context_length: Some(4096),
            restraints: vec![
                restraint(Limit::RunningAnswers),
                restraint(Limit::Context { tokens: 4096 }),
                restraint(Limit::AnswerLength { tokens: 1024 }),
            ],
        }
    }

    #[test]
    fn only_an_answer_that_reached_the_bound_was_shortened_by_it() {
        assert_eq!(bounds().on_length(1023), None);
        let told = bounds().on_length(1024).unwrap();
        assert!(
            told.starts_with("shorter answers (1024 tokens): "),
            "{told}"
        );
        assert_eq!(Bounds::default().on_length(5000), None);
    }

    #[test]
    fn only_a_context_below_the_models_own_is_held_back() {
        assert_eq!(bounds().on_context(4096), None);
        let told = bounds().on_context(8192).unwrap();
        assert!(
            told.starts_with("conversations remember less (4096 tokens): "),
            "{told}"
        );
    }

    #[test]
    fn a_bound_without_its_reason_is_told_all_the_same() {
        let bounds = Bounds {
            restraints: Vec::new(),
            ..bounds()
        };
        assert!(bounds.on_length(1024).unwrap().contains("1024"));
        assert!(bounds.on_context(8192).unwrap().contains("4096"));
    }
}
