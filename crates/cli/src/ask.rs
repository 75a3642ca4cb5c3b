//! `transom ask`: one prompt, one answer, and an exit code for scripts.
//!
//! Rule: whatever ends the answer early, what was written so far stays, and ends with a newline.

use clap::Args;
use transom_engine::{
    ChatPrompt, Engine, EngineError, FinishReason, GenerationParams, JobControl, LoadedModel,
    Message, Prompt, Role, Stats,
};

use crate::arguments::ModelArgs;
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::load::load;
use crate::output::answer::{AnswerWriter, Reasoning};
use crate::output::json::{JsonLines, write_error};
use crate::output::stats::stats_line;
use crate::sampling_args::GenerationArgs;

/// Answer one prompt and end
///
/// The prompt is what you write after `ask`, or what you pipe in, or both: then the piped text
/// follows after a blank line.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = "\
Examples:
  transom ask \"What is the capital of France?\"
  transom ask \"Explain this error:\" < build.log
  git diff | transom ask \"Write a commit message\" --system \"You are brief\"
  transom ask \"Name a colour\" --temperature 0 --stats
  transom ask \"Hi\" --json          one JSON object a line: started, prefill, text, finished, error

Exit codes: 0 answered, 1 failed on the way, 2 bad request, 3 bad model, 130 interrupted.")]
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
    engine: &dyn Engine,
    console: &mut Console,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let result = answer_one(args, engine, console, interrupt);
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
    engine: &dyn Engine,
    console: &mut Console,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    args.generation.check()?;
    let text = prompt_text(&args.prompt.join(" "), console)?;
    let mut loaded = load(&args.model, engine, console, interrupt)?;
    let model = &mut *loaded.model;
    let prompt = prompt(args, text, model)?;
    let params = args.generation.params(&model.info().recommended_sampling);
    let control = JobControl::new();
    let watch = interrupt.watch(&control);
    let (reason, stats) = generate(args, model, &prompt, &params, &control, console)?;
    if args.stats {
        console.note(&stats_line(&stats));
    }
    match reason {
        FinishReason::Cancelled if watch.was_pressed() => Err(Failure::Interrupted),
        FinishReason::Length if args.generation.max_tokens.is_none() && !args.json => {
            console.note("The answer ends here because the context is full (--context-length).");
            Ok(())
        }
        FinishReason::Shed if !args.json => {
            console.note("The answer ends here because this computer is short of memory.");
            Ok(())
        }
        _ => Ok(()),
    }
}

fn generate(
    args: &AskArgs,
    model: &mut dyn LoadedModel,
    prompt: &Prompt,
    params: &GenerationParams,
    control: &JobControl,
    console: &mut Console,
) -> Result<(FinishReason, Stats), Failure> {
    let prepared = model.prepare(prompt)?;
    if args.json {
        let mut lines = JsonLines::new(console.out, control);
        let result = model.generate(&prepared, params, control, &mut lines);
        lines.finish().map_err(Failure::Output)?;
        return Ok(result?);
    }
    let reasoning = Reasoning::for_console(console, args.show_reasoning);
    let mut writer = AnswerWriter::new(console, control, reasoning);
    let result = model.generate(&prepared, params, control, &mut writer);
    writer.finish().map_err(Failure::Output)?;
    Ok(result?)
}

/// The prompt for this model: a conversation, or plain text for a model that only continues text.
fn prompt(args: &AskArgs, text: String, model: &dyn LoadedModel) -> Result<Prompt, Failure> {
    if !model.info().has_chat_template {
        return match args.system {
            Some(_) => Err(Failure::Usage(format!(
                "{} has no chat template, so it takes no --system; put the instructions into the \
                 prompt",
                model.info().name
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
