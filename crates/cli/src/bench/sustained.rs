//! `transom bench --sustained`: the speed over minutes, in each engine that has files of the model.
//!
//! Rule: a measurement that ends early, by Ctrl-C or by a limit, shows what was measured until then.

mod report;

use std::path::Path;
use std::time::Duration;

use transom_bench::{EarlyEnd, Measured, SustainedReport};
use transom_bench::{SustainedBench, SustainedOptions};
use transom_library::{InstalledModel, Library};

use crate::bench::{BenchArgs, finish};
use crate::library;
use crate::load::{ModelArgs, load_from};
use crate::{Client, Console, Failure, Result};

/// Returns the time since the start of the command.
type Clock<'a> = &'a dyn Fn() -> Duration;

pub(super) fn run(
    args: &BenchArgs,
    length: Duration,
    clock: Clock<'_>,
    client: &Client,
    console: &mut Console,
) -> Result {
    let [prompt_tokens] = args.prompt_tokens[..] else {
        let message = "--sustained takes one length; give --prompt-tokens one number";
        return Err(Failure::usage(message));
    };
    let options = SustainedOptions {
        prompt_tokens,
        generate_tokens: args.generate_tokens,
        length,
    };
    let (library, model) = library::open_for(args.model.model.as_deref(), client, console)?;
    let paths = &model.files.paths;
    let mut reports = Vec::new();
    let mut first_failure = None;
    for path in paths {
        let measured = measure_form(
            &library, &model, path, args, options, clock, client, console,
        );
        match measured {
            Ok(report) => {
                console.print_result(args.json, &report, report::text)?;
                reports.push(report);
            }
            Err(Failure::Interrupted) => return Err(Failure::Interrupted),
            // The other form may run here.
            Err(failure) => {
                if paths.len() > 1 {
                    console.note(&format!("{}: {failure}", path.display()));
                }
                first_failure.get_or_insert(failure);
            }
        }
        if reports.last().is_some_and(is_interrupted) {
            break;
        }
    }
    if let Some(failure) = first_failure.filter(|_| reports.is_empty()) {
        return Err(failure);
    }
    let was_interrupted = reports.iter().any(is_interrupted);
    let benchmark = library.benchmark(&model, Measured::Sustained { forms: reports });
    finish(&benchmark, args.plot.as_deref(), client, console)?;
    match was_interrupted {
        true => Err(Failure::Interrupted),
        false => Ok(()),
    }
}

fn is_interrupted(report: &SustainedReport) -> bool {
    report.ended_early == Some(EarlyEnd::Interrupted)
}

/// Loads one form of the model and measures it.
#[expect(clippy::too_many_arguments, reason = "the parts of one call")]
fn measure_form(
    library: &Library,
    model: &InstalledModel,
    path: &Path,
    args: &BenchArgs,
    options: SustainedOptions,
    clock: Clock<'_>,
    client: &Client,
    console: &mut Console,
) -> Result<SustainedReport> {
    let needed = options.context_needed();
    let mut model_args: ModelArgs = args.model.clone();
    let context_length = options.context_length();
    model_args.context_length.get_or_insert(context_length);
    let model_of = model.clone();
    let path = Some(path);
    let loaded = load_from(library, model_of, path, &model_args, false, client, console)?;
    let (handle, info) = (client.handle()?, loaded.info.clone());
    let mut bench = SustainedBench::new(handle, loaded.load_request.clone(), info, options, clock)?;
    let progress = console.progress();
    client.interrupt.ignore_when_idle();
    let running = bench.run(|time| {
        progress.show(&match time {
            Some(time) => format!("{} of {} s", time.as_secs(), options.length.as_secs()),
            None => "warming up".to_owned(),
        });
    });
    let ended = client.wait(async { Ok(running.await?) });
    client.interrupt.end_when_idle();
    progress.clear();
    let ended_early = match ended {
        Err(Failure::Interrupted) => Some(EarlyEnd::Interrupted),
        ended => ended?,
    };
    let predicted = path.and_then(|path| library.predicted_speed(model, path, needed));
    let predicted = predicted.map(|speed| (speed.low, speed.high));
    Ok(client
        .runtime()?
        .block_on(bench.finish(ended_early, predicted)))
}

#[cfg(test)]
mod tests;
