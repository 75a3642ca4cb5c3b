//! A conversation under way: what each line does to it. What no longer fits the context is left
//! out beside the model, where tokens can be counted, and forgotten here.
//!
//! Rule: the transcript changes only when an answer stands; a failed message leaves it as it was.

use transom_engine::{
    ChatPrompt, ConversationId, FinishReason, GenerationParams, Prompt, Stats, Truncation,
};
use transom_files::visible;
use transom_supervisor::{ModelRequest, Status};

use crate::chat::ChatArgs;
use crate::chat::commands::{self, Command, Input};
use crate::chat::transcript::Transcript;
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::{Followed, Link};
use crate::load::Loaded;
use crate::output::answer::{AnswerWriter, Reasoning, dropped_at_start};
use crate::output::restraint::{Bounds, why_shed};
use crate::output::rows::passed_over_text;
use crate::output::stats::{bytes_text, rough_time, runs_text, stats_line};

/// What follows a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Wait for the next line.
    GoOn,
    /// Leave.
    Quit,
}

/// A conversation with its model.
pub(super) struct Chat<'a> {
    args: &'a ChatArgs,
    link: &'a Link,
    loaded: Loaded,
    params: GenerationParams,
    transcript: Transcript,
    last_stats: Option<Stats>,
    n_failed: usize,
}

impl<'a> Chat<'a> {
    /// An empty conversation with the model that was `loaded`, as `args` have it.
    pub(super) fn new(args: &'a ChatArgs, link: &'a Link, loaded: Loaded) -> Self {
        let info = &loaded.info;
        let params = args.generation.params(&info.recommended_sampling);
        Self {
            params: GenerationParams {
                // An answer that outgrows the context is still worth its end; one that is as long
                // as all of it goes round in circles.
                shift_context: true,
                max_tokens: params.max_tokens.or(Some(info.context_length)),
                conversation: Some(ConversationId::random()),
                ..params
            },
            args,
            link,
            loaded,
            transcript: Transcript::new(args.system.clone()),
            last_stats: None,
            n_failed: 0,
        }
    }

    /// Messages that got no answer.
    pub(super) fn n_failed(&self) -> usize {
        self.n_failed
    }

    /// Acts on one message or command.
    pub(super) fn take(
        &mut self,
        text: &str,
        console: &mut Console,
        interrupt: &Interrupt,
    ) -> Result<Next, Failure> {
        match commands::parse(text) {
            Input::Nothing => {}
            Input::Message(message) => self.answer(message, console, interrupt)?,
            Input::Command(Command::Quit) => return Ok(Next::Quit),
            Input::Command(command) => self.obey(command, console)?,
            Input::Mistake(hint) => console.note(&hint),
        }
        Ok(Next::GoOn)
    }

    fn obey(&mut self, command: Command, console: &mut Console) -> Result<(), Failure> {
        match command {
            Command::Help => console.print(commands::HELP)?,
            Command::Reset => {
                self.transcript.clear();
                self.params.conversation = Some(ConversationId::random());
                self.last_stats = None;
                console.note("The conversation starts anew; the system prompt stays.");
            }
            Command::ShowSystem => match self.transcript.system() {
                Some(system) => console.print(&format!("{system}\n"))?,
                None => console.note("There is no system prompt; /system TEXT sets one."),
            },
            Command::SetSystem(system) => {
                console.note(match system {
                    Some(_) => "The system prompt is set; it holds from the next message on.",
                    None => "The system prompt is removed.",
                });
                self.transcript.set_system(system);
            }
            Command::Stats => console.print(&self.stats_text()?)?,
            Command::Save { path, overwrite } => {
                let name = &self.loaded.info.name;
                match self.transcript.save(&path, overwrite, name) {
                    Ok(()) => console.note(&format!("Saved to {}.", path.display())),
                    Err(hint) => console.note(&hint),
                }
            }
            Command::Quit => {}
        }
        Ok(())
    }

    /// Asks the model, and keeps what it said, even if the user stopped it half way.
    ///
    /// # Errors
    /// Only those that end the chat: nobody reads any more, or Ctrl-C in a piped one.
    pub(super) fn answer(
        &mut self,
        message: String,
        console: &mut Console,
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        self.transcript.push_user(message);
        let ask = self.ask();
        let mut bounds = Bounds::default();
        let (followed, text) = self.stream(&ask, &mut bounds, console, interrupt)?;
        let was_interrupted = followed.as_ref().is_ok_and(|end| end.was_interrupted);
        match followed.and_then(Followed::finished) {
            Err(failure) => self.give_up(&failure, console),
            Ok((reason, stats)) => {
                self.transcript.push_assistant(text);
                self.last_stats = Some(stats);
                self.loaded.remember(&stats);
                if stats.shifted_tokens > 0 {
                    console.note(FORGOT_ON_THE_WAY);
                }
                match reason {
                    FinishReason::Canceled if was_interrupted => console.note("(stopped)"),
                    reason => self.explain_ending(reason, &stats, &bounds, console),
                }
                if self.args.stats {
                    console.note(&stats_line(&stats));
                }
            }
        }
        if console.is_interactive() {
            // A blank line parts the answer from the next prompt.
            console.print("\n")
        } else if was_interrupted {
            Err(Failure::Interrupted)
        } else {
            Ok(())
        }
    }

    /// The conversation so far, to be continued.
    fn ask(&self) -> ModelRequest {
        let prompt = Prompt::Chat(ChatPrompt {
            messages: self.transcript.messages(),
            enable_thinking: self.args.generation.enable_thinking(),
            tools: Vec::new(),
        });
        let fit = Truncation::DropOldest {
            response_tokens: self
                .args
                .generation
                .max_tokens
                .unwrap_or(ROOM_FOR_AN_ANSWER),
            context_limit: None,
        };
        self.loaded.ask(prompt, fit, self.params.clone())
    }

    /// Streams the answer; returns its end and its text.
    ///
    /// # Errors
    /// Only that nobody reads any more.
    fn stream(
        &mut self,
        ask: &ModelRequest,
        bounds: &mut Bounds,
        console: &mut Console,
        interrupt: &Interrupt,
    ) -> Result<(Result<Followed, Failure>, String), Failure> {
        let reasoning = Reasoning::for_console(console, self.args.show_reasoning);
        let info = &self.loaded.info;
        let transcript = &mut self.transcript;
        let link = self.link;
        let mut writer = AnswerWriter::new(console, &info.name, reasoning);
        let followed = link.follow(ask, interrupt, &mut |event| {
            if let Some(n_dropped) = dropped_at_start(&event) {
                *bounds = Bounds::now(link);
                if n_dropped > 0 {
                    let n_exchanges = transcript.forget(n_dropped);
                    writer.note(&outgrown(n_exchanges, info.context_length, bounds));
                }
            }
            writer.on_event(event)
        });
        let text = writer.finish().map_err(Failure::Output)?;
        Ok((followed, text))
    }

    /// Reports why there is no answer, and takes the message back so that it can be sent again.
    fn give_up(&mut self, failure: &Failure, console: &mut Console) {
        self.transcript.take_back_user();
        self.n_failed += 1;
        if let Some(message) = failure.message() {
            console.note(&message);
        }
    }

    fn explain_ending(
        &self,
        reason: FinishReason,
        stats: &Stats,
        bounds: &Bounds,
        console: &mut Console,
    ) {
        match reason {
            FinishReason::Stop => {}
            FinishReason::Canceled => console.note("(ended early: the model was unloaded)"),
            FinishReason::Shed => {
                console.note(&format!("(ended early: {})", why_shed(self.link)));
            }
            FinishReason::Length => console.note(&match bounds.on_length(stats.generated_tokens) {
                Some(restraint) => format!("(ended here: {restraint})"),
                None if self.args.generation.max_tokens.is_some() => {
                    "(ended by --max-tokens)".to_owned()
                }
                None if stats.shifted_tokens > 0 => {
                    "(ended here: the answer is as long as the whole context)".to_owned()
                }
                None => "(ended here: the context is full)".to_owned(),
            }),
        }
    }

    fn stats_text(&self) -> Result<String, Failure> {
        let info = &self.loaded.info;
        let last = match &self.last_stats {
            Some(stats) => stats_line(stats),
            None => "none yet".into(),
        };
        let n_used = self
            .last_stats
            .map_or(0, |stats| stats.prompt_tokens + stats.generated_tokens);
        let status = self.link.status()?;
        let passed_over = self.loaded.passed_over.iter().map(passed_over_text);
        let passed_over: String = passed_over
            .map(|text| format!("             {}\n", visible(&text)))
            .collect();
        Ok(format!(
            "last answer  {last}\n\
             context      {n_used} of {} tokens, {} messages\n\
             memory       {}\n\
             model        {}: {}; {}\n{passed_over}",
            info.context_length,
            self.transcript.n_messages(),
            self.memory_text(&status),
            visible(&info.name),
            visible(&info.stored_as),
            visible(&runs_text(info)),
        ))
    }

    /// What the model takes now, on one line or two.
    fn memory_text(&self, status: &Status) -> String {
        let Some(model) = self.loaded.find_in(status) else {
            return "none: unloaded; the next message loads the model again".to_owned();
        };
        let parts = model.memory.map_or_else(
            || "not known yet".to_owned(),
            |memory| {
                format!(
                    "{} weights, {} conversation, {} kept for reuse, {} at most",
                    bytes_text(memory.weight_bytes),
                    bytes_text(memory.kv_cache_bytes),
                    bytes_text(memory.allocator_cache_bytes),
                    bytes_text(memory.peak_bytes),
                )
            },
        );
        let process = model
            .footprint_bytes
            .map(|bytes| format!("{} in its process", bytes_text(bytes)));
        let unload = model
            .unloads_in
            .map(|time| format!("unloads in {} without a message", rough_time(time)));
        let more: Vec<String> = process.into_iter().chain(unload).collect();
        if more.is_empty() {
            parts
        } else {
            format!("{parts}\n             {}", more.join("; "))
        }
    }
}

/// Says that the model no longer sees everything, and why.
fn outgrown(n_exchanges: usize, context_length: usize, bounds: &Bounds) -> String {
    let what = match n_exchanges {
        1 => "oldest exchange".to_owned(),
        n => format!("{n} oldest exchanges"),
    };
    match bounds.on_context(context_length) {
        Some(restraint) => format!("({restraint}; the model no longer sees the {what}.)"),
        None => format!(
            "(The conversation outgrew the context of {context_length} tokens; the model no \
             longer sees its {what}.)"
        ),
    }
}

/// Said where an answer is longer than what was free of the context.
const FORGOT_ON_THE_WAY: &str =
    "(The answer outgrew the context; to go on, the model forgot how the conversation began.)";

/// Tokens kept free for an answer when no `--max-tokens` says how long it may get; a quarter of
/// the context if that is less.
const ROOM_FOR_AN_ANSWER: usize = 256;

#[cfg(test)]
mod tests;
