//! The summary of messages that the model no longer sees, for `--overflow summarize`. The model writes
//! it after a response.
//!
//! Rule: without a summary the conversation continues. It is tried again after the next response.

use transom_engine::{FinishReason, Truncation, summary};
use transom_supervisor::{Outcome, ResponseEvent};

use crate::Console;
use crate::chat::Overflow;
use crate::chat::session::Chat;
use crate::client::too_long;

/// A prompt that is too long is not shortened below this, because little would be left of it.
const MIN_MESSAGE_BYTES: usize = 1_000;

impl Chat<'_> {
    /// Summarizes dropped messages, if that was requested and there are new ones. Notes the result.
    /// Returns true if Ctrl-C was pressed meanwhile.
    pub(super) fn summarize(&mut self, console: &mut Console) -> bool {
        let (earlier, messages) = self.transcript.unsummarized();
        if self.args.overflow != Overflow::Summarize || messages.is_empty() {
            return false;
        }
        let info = &self.loaded.info;
        let mut max_bytes = summary::max_message_bytes(info.context_length);
        let (written, was_interrupted) = loop {
            let prompt = summary::prompt(earlier, messages, max_bytes);
            let params = summary::params(&info.recommended_sampling);
            let request = self.loaded.request(prompt, Truncation::Disabled, params);
            let mut text = summary::SummaryText::default();
            let progress = console.progress();
            let sent = self.client.send(&request, &mut |event| {
                progress.show("Summarizing the earlier messages … Ctrl-C skips this");
                if let ResponseEvent::Token { event } = &event {
                    text.push(event);
                }
                Ok(())
            });
            progress.clear();
            let completion = match sent {
                Ok(completion) => completion,
                Err(failure) => break (Err(failure.message()), false),
            };
            let written = match completion.outcome {
                // The estimate of its tokens was too low.
                outcome if too_long(&outcome).is_some() && max_bytes >= 2 * MIN_MESSAGE_BYTES => {
                    max_bytes /= 2;
                    continue;
                }
                Outcome::Failed { error } => Err(Some(error.to_string())),
                Outcome::Finished {
                    reason: FinishReason::Stop | FinishReason::Length,
                    ..
                } => text.finish().ok_or(None),
                Outcome::Finished { .. } | Outcome::Loaded { .. } => Err(None),
            };
            break (written, completion.was_interrupted);
        };
        console.note(&match written {
            Ok(summary) => {
                self.transcript.set_summary(summary);
                "(The model summarized the earlier messages; it sees the summary from now on.)"
                    .to_owned()
            }
            Err(Some(reason)) => format!("(The earlier messages were not summarized: {reason}.)"),
            Err(None) => "(The earlier messages were not summarized.)".to_owned(),
        });
        was_interrupted
    }
}
