//! Serves a folder as a hub, with faults from flags, for tests that run whole programs.
//!
//! Rule: the first line of the output is the address, and the program ends with its standard input.

use std::env;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use transom_hub::test_support::LocalHub;

const USAGE: &str = "\
Usage: local-hub FOLDER [--port PORT] [--token TOKEN] [--gated OWNER/NAME] [--fault FAULT]

FOLDER holds repositories as OWNER/NAME/files. The address is printed as the first line, for
HF_ENDPOINT. The program ends with its standard input.

FAULT is ROUTE:KIND[=VALUE][*TIMES], and may be given several times: blob:drop=100000*3,
resolve:status=429/2*1, blob:slow=2000000, any:status=503*5, blob:wrong*1, blob:change*1.";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            let _ = writeln!(io::stderr(), "{reason}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), String> {
    let mut words = env::args().skip(1);
    let (mut folder, mut port, mut token) = (None, 0, None);
    let (mut gated, mut faults) = (Vec::new(), Vec::new());
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .ok_or(format!("{word} requires a value.\n\n{USAGE}"))
        };
        match &*word {
            "--port" => port = value()?.parse().map_err(|_| USAGE)?,
            "--token" => token = Some(value()?),
            "--gated" => gated.push(value()?),
            "--fault" => faults.push(value()?),
            "--help" => return Err(USAGE.to_owned()),
            _ if folder.is_none() && !word.starts_with('-') => folder = Some(PathBuf::from(&word)),
            _ => return Err(format!("Unknown argument {word}.\n\n{USAGE}")),
        }
    }
    let folder = folder.ok_or(USAGE)?;
    let hub = LocalHub::start_at(port).map_err(|error| error.to_string())?;
    hub.put_folder(&folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    if let Some(token) = token {
        hub.accept_token(&token);
    }
    for repository in &gated {
        hub.gate(repository);
    }
    for fault in &faults {
        hub.fail_from_text(fault)?;
    }
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", hub.address()).map_err(|error| error.to_string())?;
    stdout.flush().map_err(|error| error.to_string())?;
    let _ = io::copy(&mut io::stdin().lock().take(u64::MAX), &mut io::sink());
    Ok(())
}
