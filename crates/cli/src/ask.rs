//! `transom ask`: one prompt, one response, and an exit code for scripts.
//!
//! Rule: if the response ends early, the text written so far stays and ends with a newline.

mod attachments;
mod constraint_args;

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use transom_engine::{
    ChatPrompt, EngineError, FinishReason, Message, ModelInfo, Prompt, ResponseCheck, Role,
    Section, TokenEvent, Truncation,
};
use transom_supervisor::{ModelRequest, Outcome, ResponseEvent};

use crate::ask::constraint_args::ConstraintArgs;
pub(crate) use crate::ask::constraint_args::read_schema;
use crate::load::{ModelArgs, load};
use crate::output::{
    AnswerForm, EarlyEnd, JsonLines, ResponseLimits, Written, stats_line, write_response,
};
use crate::sampling_args::GenerationArgs;
use crate::{Client, Console, Failure, Result};

/// Respond to one prompt and exit
///
/// The prompt is what you write after `ask`, or what you pipe in, or both: then the piped text
/// follows after a blank line. Standard input is read to its end whenever it is not a terminal.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = include_str!("help/ask.txt"))]
pub(crate) struct AskArgs {
    /// What to ask; quotes are needed only where the shell needs them
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Vec<String>,

    /// A document that the prompt is about: text, a web page, a PDF, an EPUB book, or a Word, Excel,
    /// PowerPoint or OpenDocument (ODT) document; repeat for more
    #[arg(short, long, value_name = "FILE")]
    pub(crate) attach: Vec<PathBuf>,

    /// Instructions that the model follows in its response
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// Show tokens, times, speeds and memory afterwards, on standard error
    #[arg(long)]
    pub(crate) stats: bool,

    /// Write events as JSON, one per line, for programs
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the reasoning too when the output is not a terminal, between <think> and </think>
    #[arg(long)]
    pub(crate) show_reasoning: bool,

    /// What the response must match.
    #[command(flatten)]
    pub(crate) constraint: ConstraintArgs,

    /// The model.
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// The options for the response.
    #[command(flatten)]
    pub(crate) generation: GenerationArgs,
}

/// Runs the command. With `--json` a failure is also the last line of the output.
pub(crate) fn run(args: &AskArgs, client: &Client, console: &mut Console) -> Result {
    let result = respond(args, client, console);
    if let Err(failure) = &result
        && args.json
        && let Some(message) = failure.message()
    {
        let exit_code = failure.exit_code();
        let line = json!({ "event": "error", "exit_code": exit_code, "message": message });
        console.print_json(&line)?;
    }
    result
}

fn respond(args: &AskArgs, client: &Client, console: &mut Console) -> Result {
    args.generation.check()?;
    let mut expected = args.constraint.read()?;
    let text = prompt_text(&args.prompt.join(" "), console)?;
    let documents = attachments::read_all(&args.attach)?;
    let text = attachments::before(&documents, &text);
    let prompt_bytes = text.len();
    // Where a program reads the answer, one that may be followed by a better one is held back.
    let is_held_back = expected.is_checked() && !args.json && !console.terminals.stdout;
    let form = AnswerForm {
        shows_reasoning: args.show_reasoning,
        is_held_back,
    };
    let loaded = load(&args.model, args.json, client, console)?;
    let name = &loaded.info.name;
    let prompt = prompt(args, text, &loaded.info)?;
    let params = args.generation.params(&loaded.info.recommended_sampling);
    if expected.is_free() {
        tell_that_it_is_free(args, console);
    }
    loop {
        let (prompt, params) = expected.request(&prompt, &params);
        let request = loaded.request(prompt, Truncation::Disabled, params);
        let written = match args.json {
            true => stream_json(&request, client, console),
            false => write_response(&request, name, form, client, console, &mut |_, _| None),
        }?;
        let answer = &*written.text;
        let held_back = Some(answer).filter(|_| is_held_back);
        let outcome = &written.completion.outcome;
        if let Some(failure) = attachments::too_long(outcome, &documents, prompt_bytes) {
            return Err(failure);
        }
        if expected.falls_back(outcome) {
            tell_that_it_is_free(args, console);
            continue;
        }
        let was_interrupted = written.completion.was_interrupted;
        let finished = written.completion.finished();
        if finished.is_err() {
            print_held_back(held_back, console)?;
        }
        let (reason, stats) = finished?;
        loaded.record(&stats);
        if args.stats {
            console.note(&stats_line(&stats));
        }
        let verdict = expected.check(answer, reason);
        if let ResponseCheck::Retry(problem) = &verdict {
            tell_retry(args, problem, console)?;
            continue;
        }
        print_held_back(held_back, console)?;
        if reason == FinishReason::Canceled && was_interrupted {
            return Err(Failure::Interrupted);
        }
        let has_max_tokens = args.generation.max_tokens.is_some();
        let cause = written
            .limits
            .early_end(reason, &stats, has_max_tokens, || client.status().ok());
        if let Some(cause) = cause.filter(|cause| !args.json && *cause != EarlyEnd::MaxTokens) {
            console.note(&format!("The response ended early: {cause}."));
        }
        let ResponseCheck::Invalid(problem) = verdict else {
            return Ok(());
        };
        let advice = match reason {
            FinishReason::Length => "; allow more with --max-tokens",
            _ => "",
        };
        let message = format!("the response is not valid: {problem}{advice}");
        return Err(Failure::NoValidResponse(message));
    }
}

/// Prints an answer that was held back, with a newline at its end.
fn print_held_back(answer: Option<&str>, console: &mut Console) -> Result {
    let Some(answer) = answer.filter(|answer| !answer.is_empty()) else {
        return Ok(());
    };
    let end = if answer.ends_with('\n') { "" } else { "\n" };
    console.print(&format!("{answer}{end}"))
}

fn tell_that_it_is_free(args: &AskArgs, console: &mut Console) {
    if !args.json {
        console.note("The model can't be held to this schema; its response is checked instead.");
    }
}

fn tell_retry(args: &AskArgs, problem: &str, console: &mut Console) -> Result {
    if args.json {
        return console.print_json(&json!({ "event": "retry", "problem": problem }));
    }
    console.note(&format!(
        "The response is not valid: {problem}. Asking again."
    ));
    Ok(())
}

fn stream_json(request: &ModelRequest, client: &Client, console: &mut Console) -> Result<Written> {
    let mut lines = JsonLines::new(console);
    let mut answer = String::new();
    let completion = client.send(request, &mut |event| {
        if let ResponseEvent::Token {
            event:
                TokenEvent::Text {
                    section: Section::Answer,
                    text,
                    ..
                },
        } = &event
        {
            answer.push_str(text);
        }
        lines.on_event(&event)
    })?;
    if let Outcome::Finished { reason, stats } = completion.outcome {
        console.print_json(&TokenEvent::Finished { reason, stats })?;
    }
    Ok(Written {
        completion,
        text: answer,
        limits: ResponseLimits::default(),
    })
}

/// Returns the prompt for this model: a conversation, or plain text if the model has no chat template.
fn prompt(args: &AskArgs, text: String, info: &ModelInfo) -> Result<Prompt> {
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
        ..ChatPrompt::default()
    }))
}

/// Returns the words of the command line, then the piped text.
fn prompt_text(words: &str, console: &mut Console) -> Result<String> {
    let mut piped = Vec::new();
    if !console.terminals.stdin {
        let read = console.input.read_to_end(&mut piped);
        read.map_err(Failure::input)?;
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
    let parts = [words, piped.trim_end()].into_iter();
    let parts: Vec<&str> = parts.filter(|part| !part.trim().is_empty()).collect();
    match parts.is_empty() {
        true => Err(EngineError::EmptyPrompt.into()),
        false => Ok(parts.join("\n\n")),
    }
}

#[cfg(test)]
mod tests;
