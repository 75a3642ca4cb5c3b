//! `transom pause` and `transom resume`: nothing is computed and no memory is held until it goes on.

use clap::Args;

use crate::console::Console;
use crate::failure::Failure;
use crate::link::Link;

/// Stop answering and give all memory back, until `transom resume`
///
/// The running answer is finished first. Questions asked meanwhile wait; nothing is lost. A pause
/// ends with the Transom that runs.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = "Exit codes: 0 it is paused; 1 it could not be done.")]
pub(crate) struct PauseArgs {}

/// Answer again after `transom pause`
///
/// Questions that wait are answered now; the model is loaded for the first of them.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = "Exit codes: 0 it goes on; 1 it could not be done.")]
pub(crate) struct ResumeArgs {}

/// Runs either command.
pub(crate) fn run(is_paused: bool, link: &Link, console: &mut Console) -> Result<(), Failure> {
    if link.running()?.is_none() {
        return console.print("Nothing is running, so there is nothing to pause or resume.\n");
    }
    let status = link.pause(is_paused)?;
    let text = match (is_paused, status.is_answering(), status.queue.len()) {
        (true, true, _) => "Paused, after the answer that is being written.\n".to_owned(),
        (true, false, _) => "Paused. `transom resume` goes on.\n".to_owned(),
        (false, _, 0) => "Resumed.\n".to_owned(),
        (false, _, 1) => "Resumed; 1 question waited.\n".to_owned(),
        (false, _, n) => format!("Resumed; {n} questions waited.\n"),
    };
    console.print(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_console::TestConsole;
    use crate::test_engine::TestEngine;

    #[test]
    fn a_pause_and_its_end_are_told_and_shown() {
        let engine = TestEngine::answering(&[]);
        let link = engine.link();
        for (is_paused, expected) in [(true, "Paused. "), (false, "Resumed.")] {
            let mut streams = TestConsole::default();
            run(is_paused, &link, &mut streams.console()).unwrap();
            let text = streams.out_text();
            assert!(text.starts_with(expected), "{text}");
            assert_eq!(link.status().unwrap().is_paused, is_paused);
        }
    }
}
