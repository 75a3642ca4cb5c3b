//! `transom bench --conversations`: what turns of conversations cost, as a table and as JSON.

use std::sync::mpsc;

use transom_bench::{BenchError, Case, CaseKind, ConversationBench, Options, Report};
use transom_files::visible;
use transom_library::LoadSettings;
use transom_supervisor::{SavingLimits, Supervisor, Tuning};

use crate::bench::BenchArgs;
use crate::output::{Table, disk_text, memory_text, numbers, paragraph, seconds, words};
use crate::{Client, Console, Failure, Layout, Result, client, library};

/// Measures with a supervisor that `start` returns, and not with the running instance.
pub(super) fn run(
    args: &BenchArgs,
    client: &Client,
    start: impl Fn(Tuning) -> Supervisor,
    console: &mut Console,
) -> Result {
    let [prompt_tokens] = args.prompt_tokens[..] else {
        let message = "--conversations takes one length; give --prompt-tokens one number";
        return Err(Failure::usage(message));
    };
    let (library, model) = library::open_for(args.model.model.as_deref(), client, console)?;
    let settings = LoadSettings {
        context_length: args.model.context_length,
        ..LoadSettings::default()
    };
    let options = Options {
        model: library.spec(&model, &settings),
        over_budget: args.model.over_budget,
        prompt_tokens,
        tuning: client::tuning(client.data_folder()?),
        saving_limits: SavingLimits::default(),
    };
    // A signal that ends the program waits until the model and the temporary folder are gone.
    let (open, closed) = mpsc::channel::<()>();
    client.interrupt.before_exit(move || {
        let _ = closed.recv_timeout(client::SHUTDOWN_LIMIT);
    });
    let progress = console.progress();
    progress.show("loading the model");
    let mut bench = None;
    let measuring = async {
        let bench = bench.insert(ConversationBench::open(options, start).await?);
        let report = bench.run(|kind| progress.show(title(kind))).await?;
        Ok::<_, Failure>(report)
    };
    let result = client.wait(measuring);
    if let Some(bench) = bench {
        client.runtime()?.block_on(bench.close());
    }
    drop(open);
    progress.clear();
    console.print_result(args.json, &result?, table)
}

/// Returns the name of a case for people.
fn title(kind: CaseKind) -> &'static str {
    match kind {
        CaseKind::SecondTurn => "turn 2",
        CaseKind::Switch => "back from another chat",
        CaseKind::SharedSystemPrompt => "new chat, same system prompt",
        CaseKind::EditLastQuestion => "last question edited",
        CaseKind::EditEarlierQuestion => "earlier question edited",
        CaseKind::IdleUnload => "after an idle unload",
        CaseKind::SwitchAndUnload => "another chat, then an idle unload",
        CaseKind::PauseAndResume => "after a pause",
        CaseKind::Restart => "after a restart",
        CaseKind::Overflow => "10 turns, context full",
    }
}

fn table(report: &Report, layout: Layout) -> String {
    let columns = [
        words("CASE", |case: &Case| title(case.case).to_owned()),
        numbers("TTFT", "first token after ", |case| seconds(case.ttft)),
        numbers("COLD", "cold ", |case: &Case| seconds(case.cold_ttft)).optional(1),
        numbers("RATIO", "", |case| format!("{:.1} %", case.ratio * 100.0)),
        numbers("NEW", "new tokens ", |case| case.new_tokens.to_string()),
        numbers("READ AGAIN", "read again ", |case| {
            case.reread_tokens.to_string()
        }),
        numbers("WRITTEN", "written ", |case| match case.written_bytes {
            0 => String::new(),
            bytes => disk_text(bytes),
        }),
        numbers("LOAD", "load ", |case| {
            case.load_time.map_or_else(String::new, seconds)
        }),
        numbers("PEAK", "peak ", |case: &Case| {
            case.peak_memory_bytes.map_or_else(String::new, memory_text)
        })
        .optional(2),
    ];
    let heading = format!(
        "{}: {}, {} ({}), context of {} tokens, prompts of about {}",
        report.model,
        report.stored_as,
        report.computed_as,
        report.engine,
        report.context_length,
        report.prompt_tokens
    );
    let full = report
        .cases
        .iter()
        .find(|case| case.case == CaseKind::Overflow);
    let full = full.map_or_else(String::new, |case| {
        let (n_reread, n_turns) = (case.n_turns_reread, case.turns.len());
        let text = format!(
            "In the full context, {n_reread} of {n_turns} turns read more than 30 % of their prompt \
             again."
        );
        format!("\n{}", paragraph(&text, layout))
    });
    let table = Table::new(columns).with(&report.cases).text(layout);
    format!("{}\n\n{table}{full}", visible(&heading))
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Request(error) => error.into(),
            BenchError::NoTemplate { .. } => Self::Model(error.to_string()),
            BenchError::ContextTooShort { .. } | BenchError::LengthsTooLong { .. } => {
                Self::usage(error)
            }
            BenchError::Folder(_)
            | BenchError::Instance(_)
            | BenchError::Stopped
            | BenchError::NotCold { .. }
            | BenchError::NeverFull { .. } => Self::failed(error),
        }
    }
}

#[cfg(test)]
mod tests;
