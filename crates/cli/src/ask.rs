//! `transom ask`: one prompt, one answer, and an exit code for scripts.
//!
//! Rule: whatever ends the answer early, what was written so far stays, and ends with a newline.

use clap::Args;
use transom_engine::{
    ChatPrompt, EngineError, FinishReason, Message, ModelInfo, Prompt, Role, Stats, TokenEvent,
    Truncation,
};
use transom_supervisor::{ModelRequest, Outcome};

use crate::arguments::ModelArgs;
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::{Followed, Link};
use crate::load::{Loaded, load};
use crate::output::answer::{AnswerWriter, Reasoning, dropped_at_start};
use crate::output::json::{JsonLines, write_error};
use crate::output::restraint::{Bounds, why_shed};
use crate::output::stats::stats_line;
use crate::sampling_args::GenerationArgs;

/// Answer one prompt and end
///
/// The prompt is what you write after `ask`, or what you pipe in, or both: then the piped text
/// follows after a blank line. Standard input is read to its end whenever it is not a terminal.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = "\
Examples:
  transom ask \"What is the capital of France?\"
  transom ask \"Explain this error:\" < build.log
  git diff | transom ask \"Write a commit message\" --system \"You are brief\"
  transom ask \"Name a colour\" --temperature 0 --stats
  transom ask \"Hi\" < /dev/null     in a loop or a service, whose own input is not meant
  transom ask \"Hi\" --json          one JSON object a line: started, prefill, text, finished, error
                                     (before them queued and loading, while it waits)

Exit codes: 0 answered, 1 failed on the way or no answers for now, 2 bad request, 3 bad model or
too large, 130 interrupted.")]
pub(crate) struct AskArgs {
    /// What to ask; quotes are needed only where the shell needs them
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Vec<String>,

    /// Instructions that the model follows in its answer
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// Show tokens, times, speeds and memory afterwards, on standard error
    #[arg(long)]
    pub(crate) stats: bool,

    /// Write events as JSON, one a line, for programs
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the reasoning too when the output is not a terminal, between <think> and </think>
    #[arg(long)]
    pub(crate) show_reasoning: bool,

    /// The model.
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// How to answer.
    #[command(flatten)]
    pub(crate) generation: GenerationArgs,
}

/// Runs the command; with `--json` a failure is also the last line of the output.
pub(crate) fn run(
    args: &AskArgs,
    link: &Link,
    console: &mut Console,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let result = answer_one(args, link, console, interrupt);
    if let Err(failure) = &result
        && args.json
        && let Some(message) = failure.message()
    {
        write_error(console.out, failure.exit_code(), &message).map_err(Failure::Output)?;
    }
    result
}

fn answer_one(
    args: &AskArgs,
    link: &Link,
    console: &mut Console,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    args.generation.check()?;
    let text = prompt_text(&args.prompt.join(" "), console)?;
    let loaded = load(&args.model, args.json, link, console, interrupt)?;
    let prompt = prompt(args, text, &loaded.info)?;
    let params = args.generation.params(&loaded.info.recommended_sampling);
    let ask = loaded.ask(prompt, Truncation::Disabled, params);
    let mut bounds = Bounds::default();
    let followed = if args.json {
        stream_json(&ask, link, console, interrupt)?
    } else {
        stream_text(args, &ask, &loaded, link, console, interrupt, &mut bounds)?
    };
    let was_interrupted = followed.was_interrupted;
    let (reason, stats) = followed.finished()?;
    loaded.remember(&stats);
    if args.stats {
        console.note(&stats_line(&stats));
    }
    if reason == FinishReason::Canceled && was_interrupted {
        return Err(Failure::Interrupted);
    }
    if !args.json
        && let Some(why) = why_early(args, reason, &stats, &bounds, link)
    {
        console.note(&why);
    }
    Ok(())
}

fn stream_json(
    ask: &ModelRequest,
    link: &Link,
    console: &mut Console,
    interrupt: &Interrupt,
) -> Result<Followed, Failure> {
    let mut lines = JsonLines::new(console.out);
    let followed = link.follow(ask, interrupt, &mut |event| lines.on_event(&event))?;
    if let Outcome::Finished { reason, stats } = followed.outcome {
        // Whether the reader is still there, `finish` says.
        let _ = lines.write(&TokenEvent::Finished { reason, stats });
    }
    lines.finish().map_err(Failure::Output)?;
    Ok(followed)
}

fn stream_text(
    args: &AskArgs,
    ask: &ModelRequest,
    loaded: &Loaded,
    link: &Link,
    console: &mut Console,
    interrupt: &Interrupt,
    bounds: &mut Bounds,
) -> Result<Followed, Failure> {
    let reasoning = Reasoning::for_console(console, args.show_reasoning);
    let mut writer = AnswerWriter::new(console, &loaded.info.name, reasoning);
    let followed = link.follow(ask, interrupt, &mut |event| {
        if dropped_at_start(&event).is_some() {
            *bounds = Bounds::now(link);
        }
        writer.on_event(event)
    })?;
    writer.finish().map_err(Failure::Output)?;
    Ok(followed)
}

/// Why an answer ended before the model wanted it to, if the user did not ask for that.
fn why_early(
    args: &AskArgs,
    reason: FinishReason,
    stats: &Stats,
    bounds: &Bounds,
    link: &Link,
) -> Option<String> {
    match reason {
        FinishReason::Length => match bounds.on_length(stats.generated_tokens) {
            Some(restraint) => Some(format!("The answer ends here: {restraint}.")),
            None if args.generation.max_tokens.is_some() => None,
            None => Some(
                "The answer ends here because the context is full (--context-length).".to_owned(),
            ),
        },
        FinishReason::Shed => Some(format!("The answer ends here: {}.", why_shed(link))),
        // Neither Ctrl-C nor a reader that left: somebody took the model away.
        FinishReason::Canceled => Some("The answer ends here: the model was unloaded.".to_owned()),
        FinishReason::Stop => None,
    }
}

/// The prompt for this model: a conversation, or plain text for a model that only continues text.
fn prompt(args: &AskArgs, text: String, info: &ModelInfo) -> Result<Prompt, Failure> {
    if !info.has_chat_template {
        return match args.system {
            Some(_) => Err(Failure::Usage(format!(
                "{} has no chat template, so it takes no --system; put the instructions into the \
                 prompt",
                info.name
            ))),
            None => Ok(Prompt::Text(text)),
        };
    }
    let system = args.system.iter();
    let system = system.map(|system| Message::new(Role::System, system));
    Ok(Prompt::Chat(ChatPrompt {
        messages: system.chain([Message::new(Role::User, text)]).collect(),
        enable_thinking: args.generation.enable_thinking(),
        tools: Vec::new(),
    }))
}

/// The words of the command line, then what is piped in.
fn prompt_text(words: &str, console: &mut Console) -> Result<String, Failure> {
    let mut piped = Vec::new();
    if !console.terminals.stdin {
        console
            .input
            .read_to_end(&mut piped)
            .map_err(Failure::Input)?;
    } else if words.trim().is_empty() {
        return Err(Failure::Usage(
            "there is no prompt; write it after `ask`, as in: transom ask \"What is a haiku?\""
                .into(),
        ));
    }
    let piped = std::str::from_utf8(&piped).map_err(|error| {
        Failure::Usage(format!(
            "standard input is not UTF-8 text (byte {}); convert it first, for example with iconv",
            error.valid_up_to()
        ))
    })?;
    let parts: Vec<&str> = [words, piped.trim_end()]
        .into_iter()
        .filter(|part| !part.trim().is_empty())
        .collect();
    if parts.is_empty() {
        return Err(EngineError::EmptyPrompt.into());
    }
    Ok(parts.join("\n\n"))
}

#[cfg(test)]
mod tests;
