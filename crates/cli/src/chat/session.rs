//! A running conversation: the effect of each line. Messages that no longer fit the context are
//! dropped in the engine's process, where tokens can be counted, and then here.
//!
//! Rule: the transcript changes only with a complete response; a failed message leaves it unchanged.

use std::ops::ControlFlow;

use transom_engine::{
    ChatPrompt, ConversationId, FinishReason, GenerationParams, Prompt, Stats, Truncation,
};
use transom_supervisor::{ModelRequest, Outcome, Status};

use crate::chat::commands::{self, Input};
use crate::chat::transcript::Transcript;
use crate::chat::{ChatArgs, Overflow};
use crate::client::too_long;
use crate::load::Loaded;
use crate::output::{
    AnswerForm, ResponseLimits, Rows, memory_use_text, passed_over_text, rough_time, runs_text,
    stats_line, write_response,
};
use crate::{Client, Console, Failure, Layout, Result};

pub(super) struct Chat<'a> {
    pub(super) args: &'a ChatArgs,
    pub(super) client: &'a Client,
    pub(super) loaded: Loaded,
    params: GenerationParams,
    pub(super) transcript: Transcript,
    last_stats: Option<Stats>,
    /// The number of messages that got no response.
    pub(super) n_failed: usize,
}

impl<'a> Chat<'a> {
    /// Returns an empty conversation with this model.
    pub(super) fn new(args: &'a ChatArgs, client: &'a Client, loaded: Loaded) -> Self {
        let info = &loaded.info;
        let params = args.generation.params(&info.recommended_sampling);
        Self {
            params: GenerationParams {
                // A response that outgrows the context may still come to an end; one that is as long
                // as the context repeats itself.
                shift_context: args.overflow != Overflow::Stop,
                max_tokens: params.max_tokens.or(Some(info.context_length)),
                read_ahead: true,
                conversation: Some(ConversationId::random()),
                ..params
            },
            args,
            client,
            loaded,
            transcript: Transcript::new(args.system.clone()),
            last_stats: None,
            n_failed: 0,
        }
    }

    /// Handles one message or command. Breaks if the user leaves the chat.
    pub(super) fn handle_line(
        &mut self,
        text: &str,
        console: &mut Console,
    ) -> Result<ControlFlow<()>> {
        match commands::parse(text) {
            Input::Empty => {}
            Input::Message(message) => self.respond(message, console)?,
            Input::Help => console.print(commands::HELP)?,
            Input::Reset => {
                self.transcript.clear();
                self.params.conversation = Some(ConversationId::random());
                self.last_stats = None;
                console.note("The conversation is cleared; the system prompt stays.");
            }
            Input::ShowSystem => match &self.transcript.system {
                Some(system) => console.print(&format!("{system}\n"))?,
                None => console.note("There is no system prompt; /system TEXT sets one."),
            },
            Input::SetSystem(system) => {
                console.note(match system {
                    Some(_) => "The system prompt is set, from the next message on.",
                    None => "The system prompt is removed.",
                });
                self.transcript.system = system;
            }
            Input::Stats => console.print(&self.stats_text(console.layout())?)?,
            Input::Save { path, overwrite } => {
                let model = &self.loaded.info.name;
                let saved = self.transcript.save(&path, overwrite, model);
                let saved = saved.map(|()| format!("Saved to {}.", path.display()));
                console.note(&saved.unwrap_or_else(|hint| hint));
            }
            Input::Quit => return Ok(ControlFlow::Break(())),
            Input::Mistake(hint) => console.note(&hint),
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Requests a response and keeps its text, even if the user stopped it.
    ///
    /// # Errors
    /// Only those that end the chat: nobody reads the output, or Ctrl-C in a piped chat.
    fn respond(&mut self, message: String, console: &mut Console) -> Result {
        self.transcript.push_user(message);
        let request = self.request();
        let (info, transcript) = (&self.loaded.info, &mut self.transcript);
        let mut note_dropped = |n_dropped: usize, limits: &ResponseLimits| {
            let n_exchanges = transcript.drop_oldest(n_dropped);
            (n_dropped > 0).then(|| dropped_text(n_exchanges, info.context_length, limits))
        };
        let form = AnswerForm {
            shows_reasoning: self.args.show_reasoning,
            ..AnswerForm::default()
        };
        let written = write_response(
            &request,
            &info.name,
            form,
            self.client,
            console,
            &mut note_dropped,
        );
        let mut was_interrupted = written
            .as_ref()
            .is_ok_and(|written| written.completion.was_interrupted);
        let is_whole = self.args.overflow == Overflow::Stop && self.transcript.n_messages() > 1;
        let finished = written.and_then(|written| {
            if is_whole && let Some(failure) = outgrown(&written.completion.outcome) {
                return Err(failure);
            }
            let (reason, stats) = written.completion.finished()?;
            Ok((reason, stats, written.text, written.limits))
        });
        match finished {
            Err(failure @ Failure::Output(_)) => return Err(failure),
            Err(failure) => {
                // The user can send the message again.
                self.transcript.remove_unanswered();
                self.n_failed += 1;
                if let Some(message) = failure.message() {
                    console.note(&message);
                }
            }
            Ok((reason, stats, text, limits)) => {
                self.transcript.push_assistant(text);
                self.last_stats = Some(stats);
                self.loaded.record(&stats);
                if stats.shifted_tokens > 0 {
                    console.note(CONTEXT_SHIFTED);
                }
                let has_max_tokens = self.args.generation.max_tokens.is_some();
                let status = || self.client.status().ok();
                let cause = limits.early_end(reason, &stats, has_max_tokens, status);
                if reason == FinishReason::Canceled && was_interrupted {
                    console.note("(stopped)");
                } else if let Some(cause) = cause {
                    console.note(&format!("(The response ended early: {cause}.)"));
                }
                if self.args.stats {
                    console.note(&stats_line(&stats));
                }
                if !was_interrupted {
                    was_interrupted = self.summarize(console);
                }
            }
        }
        if console.is_interactive() {
            // A blank line separates the response from the next prompt.
            return console.print("\n");
        }
        match was_interrupted {
            true => Err(Failure::Interrupted),
            false => Ok(()),
        }
    }

    /// Returns the request to continue the conversation.
    fn request(&self) -> ModelRequest {
        let generation = &self.args.generation;
        let prompt = Prompt::Chat(ChatPrompt {
            messages: self.transcript.messages(),
            enable_thinking: generation.enable_thinking(),
            ..ChatPrompt::default()
        });
        let truncation = match self.args.overflow {
            Overflow::Drop | Overflow::Summarize => Truncation::DropOldest {
                response_tokens: generation.max_tokens.unwrap_or(RESERVED_FOR_RESPONSE),
                context_limit: None,
            },
            Overflow::Stop => Truncation::Disabled,
        };
        self.loaded.request(prompt, truncation, self.params.clone())
    }

    fn stats_text(&self, layout: Layout) -> Result<String> {
        let info = &self.loaded.info;
        let last = self.last_stats;
        let n_used = last.map_or(0, |stats| stats.prompt_tokens + stats.generated_tokens);
        let (length, n_messages) = (info.context_length, self.transcript.n_messages());
        let mut rows = Rows::new(13, layout);
        let line = last.map_or("none yet".to_owned(), |stats| stats_line(&stats));
        rows.row("last response", &line);
        let context = format!("{n_used} of {length} tokens, {n_messages} messages");
        rows.row("context", &context);
        let status = self.client.status()?;
        rows.row("memory", &self.memory_text(&status));
        let model = format!("{}: {}; {}", info.name, info.stored_as, runs_text(info));
        rows.row("model", &model);
        for form in &self.loaded.passed_over {
            rows.row("", &passed_over_text(form));
        }
        Ok(rows.finish())
    }

    /// Returns the memory that the model uses now, and when it is unloaded.
    fn memory_text(&self, status: &Status) -> String {
        let Some(model) = self.loaded.find_in(status) else {
            return "none: unloaded; the next message loads the model again".to_owned();
        };
        let mut lines = match &model.memory {
            Some(memory) => memory_use_text(memory, model.footprint_bytes),
            None => vec!["not known yet".to_owned()],
        };
        if let Some(time) = model.unloads_in {
            lines.push(format!("unloads in {} without a message", rough_time(time)));
        }
        lines.join("\n")
    }
}

/// Returns the failure of a conversation that outgrew the context, if that is the outcome.
fn outgrown(outcome: &Outcome) -> Option<Failure> {
    let (prompt_tokens, context_length) = too_long(outcome)?;
    Some(Failure::Usage(format!(
        "the conversation has {prompt_tokens} tokens, but the context holds {context_length}; \
         /reset starts a new one, --context-length raises the limit, and --overflow drop leaves \
         the oldest exchanges out"
    )))
}

/// Returns a note that the model no longer sees all messages, and why.
fn dropped_text(n_exchanges: usize, context_length: usize, limits: &ResponseLimits) -> String {
    let dropped = match n_exchanges {
        1 => "oldest exchange".to_owned(),
        n => format!("{n} oldest exchanges"),
    };
    match limits.on_context(context_length) {
        Some(limit) => format!("({limit}; the model no longer sees the {dropped}.)"),
        None => format!(
            "(The conversation outgrew the context of {context_length} tokens; the model no \
             longer sees its {dropped}.)"
        ),
    }
}

/// The note after a response that is longer than the rest of the context.
const CONTEXT_SHIFTED: &str =
    "(The response filled the context, so the model no longer sees how the conversation began.)";

/// Tokens kept free for a response without `--max-tokens`; a quarter of the context if that is less.
const RESERVED_FOR_RESPONSE: usize = 256;

#[cfg(test)]
mod tests;
