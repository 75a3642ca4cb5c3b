//! Measures the app's speed and memory, and prints a table.
//!
//! `measure [NAME …] [--rounds N]`: runs these measurements, or all of them.

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{Write, stderr, stdout};
    use std::process::ExitCode;

    use transom_window_tests::measure::{NAMES, measure};
    use transom_window_tests::{Failure, Outcome};

    pub(super) fn main() -> ExitCode {
        let outcome = arguments().and_then(|(names, n_rounds)| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let runtime = runtime.map_err(Failure::doing("start"))?;
            runtime.block_on(all(&names, n_rounds))
        });
        match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                let _ = writeln!(stderr(), "{failure}");
                ExitCode::FAILURE
            }
        }
    }

    fn arguments() -> Outcome<(Vec<String>, usize)> {
        let (mut names, mut n_rounds) = (Vec::new(), 5);
        let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--");
        while let Some(argument) = arguments.next() {
            if argument == "--rounds" {
                let number = arguments.next().and_then(|number| number.parse().ok());
                n_rounds = number
                    .filter(|&number| number > 0)
                    .ok_or_else(|| Failure::Wrong("--rounds needs a number above 0".into()))?;
            } else if NAMES.contains(&&*argument) {
                names.push(argument);
            } else {
                let known = NAMES.join(", ");
                return Err(Failure::Wrong(format!("`{argument}` is none of {known}")));
            }
        }
        if names.is_empty() {
            names.extend(NAMES.map(str::to_owned));
        }
        Ok((names, n_rounds))
    }

    async fn all(names: &[String], n_rounds: usize) -> Outcome {
        let mut lines = vec![
            "| What | Median | Range | Rounds |".to_owned(),
            "|---|---|---|---|".to_owned(),
        ];
        let mut failed = Vec::new();
        for name in names {
            let _ = writeln!(stderr(), "{name}:");
            // A failed measurement does not stop the others.
            match measure(name, n_rounds).await {
                Ok(figures) => lines.extend(figures.iter().map(ToString::to_string)),
                Err(failure) => failed.push(format!("{name}: {failure}")),
            }
        }
        let _ = writeln!(stdout(), "{}", lines.join("\n"));
        match failed.is_empty() {
            true => Ok(()),
            false => Err(Failure::Wrong(failed.join("\n"))),
        }
    }
}
