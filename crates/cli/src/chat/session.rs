//! A conversation under way: what each line does to it, and how it is kept within the context.
//!
//! Rule: the transcript changes only when an answer stands; a failed message leaves it as it was.

use transom_engine::{
    ChatPrompt, EngineError, FinishReason, GenerationParams, JobControl, LoadedModel,
    PreparedPrompt, Prompt, Stats,
};

use crate::chat::ChatArgs;
use crate::chat::commands::{self, Command, Input};
use crate::chat::transcript::Transcript;
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::answer::{AnswerWriter, Reasoning};
use crate::output::stats::{bytes_text, stats_line};

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
    model: Box<dyn LoadedModel>,
    params: GenerationParams,
    transcript: Transcript,
    last_stats: Option<Stats>,
    n_failed: usize,
}

impl<'a> Chat<'a> {
    /// An empty conversation with `model`, as `args` have it.
    pub(super) fn new(args: &'a ChatArgs, model: Box<dyn LoadedModel>) -> Self {
        Self {
            params: args.generation.params(&model.info().recommended_sampling),
            args,
            model,
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
            Command::Stats => console.print(&self.stats_text())?,
            Command::Save { path, overwrite } => {
                let name = &self.model.info().name;
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
        let control = JobControl::new();
        let watch = interrupt.watch(&control);
        self.transcript.push_user(message);
        match self.prepare(console) {
            Ok(prepared) => self.generate(&prepared, &control, console)?,
            Err(error) => self.give_up(error, console),
        }
        if console.is_interactive() {
            // A blank line parts the answer from the next prompt.
            console.print("\n")
        } else if watch.was_pressed() {
            Err(Failure::Interrupted)
        } else {
            Ok(())
        }
    }

    fn generate(
        &mut self,
        prepared: &PreparedPrompt,
        control: &JobControl,
        console: &mut Console,
    ) -> Result<(), Failure> {
        let reasoning = Reasoning::for_console(console, self.args.show_reasoning);
        let mut writer = AnswerWriter::new(console, control, reasoning);
        let result = self
            .model
            .generate(prepared, &self.params, control, &mut writer);
        let answer = writer.finish().map_err(Failure::Output)?;
        match result {
            Err(error) => self.give_up(error, console),
            Ok((reason, stats)) => {
                self.transcript.push_assistant(answer);
                self.last_stats = Some(stats);
                self.explain_ending(reason, console);
                if self.args.stats {
                    console.note(&stats_line(&stats));
                }
            }
        }
        Ok(())
    }

    /// Reports why there is no answer, and takes the message back so that it can be sent again.
    fn give_up(&mut self, error: EngineError, console: &mut Console) {
        self.transcript.take_back_user();
        self.n_failed += 1;
        if let Some(message) = Failure::from(error).message() {
            console.note(&message);
        }
    }

    /// The conversation as the model gets it: without its oldest exchanges, if they no longer fit
    /// beside some room for the answer.
    fn prepare(&mut self, console: &mut Console) -> Result<PreparedPrompt, EngineError> {
        let context_length = self.model.info().context_length;
        let room = self
            .params
            .max_tokens
            .unwrap_or(ROOM_FOR_AN_ANSWER)
            .min(context_length / 4);
        let mut shortened = self.transcript.clone();
        let mut n_dropped = 0;
        loop {
            let prompt = Prompt::Chat(ChatPrompt {
                messages: shortened.messages(),
                enable_thinking: self.args.generation.enable_thinking(),
                tools: Vec::new(),
            });
            let result = self.model.prepare(&prompt);
            let is_too_long = match &result {
                Ok(prepared) => prepared.tokens.len() + room > context_length,
                Err(error) => matches!(error, EngineError::PromptTooLong { .. }),
            };
            if is_too_long && shortened.forget_oldest_exchange() {
                n_dropped += 1;
                continue;
            }
            if result.is_ok() && n_dropped > 0 {
                self.transcript = shortened;
                console.note(&format!(
                    "(The conversation outgrew the context of {context_length} tokens; the model \
                     no longer sees its {}.)",
                    match n_dropped {
                        1 => "oldest exchange".to_owned(),
                        n => format!("{n} oldest exchanges"),
                    }
                ));
            }
            return result;
        }
    }

    fn explain_ending(&self, reason: FinishReason, console: &mut Console) {
        match reason {
            FinishReason::Stop => {}
            FinishReason::Cancelled => console.note("(stopped)"),
            FinishReason::Shed => console.note("(ended early: this computer is short of memory)"),
            FinishReason::Length if self.params.max_tokens.is_some() => {
                console.note("(ended by --max-tokens)");
            }
            FinishReason::Length => console.note("(ended here: the context is full)"),
        }
    }

    fn stats_text(&self) -> String {
        let info = self.model.info();
        let memory = self.model.memory();
        let last = match &self.last_stats {
            Some(stats) => stats_line(stats),
            None => "none yet".into(),
        };
        let n_used = self
            .last_stats
            .map_or(0, |stats| stats.prompt_tokens + stats.generated_tokens);
        format!(
            "last answer  {last}\n\
             context      {n_used} of {} tokens, {} messages\n\
             memory       {} weights, {} conversation, {} kept for reuse, {} at most\n\
             model        {}: {}; runs as {} ({})\n",
            info.context_length,
            self.transcript.n_messages(),
            bytes_text(memory.weight_bytes),
            bytes_text(memory.kv_cache_bytes),
            bytes_text(memory.allocator_cache_bytes),
            bytes_text(memory.peak_bytes),
            info.name,
            info.stored_as,
            info.computed_as,
            info.engine,
        )
    }
}

/// Tokens kept free for an answer when no `--max-tokens` says how long it may get; a quarter of
/// the context if that is less.
const ROOM_FOR_AN_ANSWER: usize = 256;

#[cfg(test)]
mod tests;
