//! `transom pause` and `transom resume`: stop all responses and unload all models, and start again.

use crate::{Client, Console, Failure, Result};

pub(crate) fn run(is_paused: bool, client: &Client, console: &mut Console) -> Result {
    let Some(handle) = client.running()? else {
        return console.print("Nothing is running, so there is nothing to pause or resume.\n");
    };
    let mut status = handle.status();
    handle.set_paused(is_paused);
    let applied = status.wait_for(|status| status.is_paused == is_paused);
    let applied = client.runtime()?.block_on(applied);
    let status = applied
        .map_err(|_| Failure::failed("the running instance ended"))?
        .clone();
    let text = match (is_paused, status.is_answering(), status.queue.len()) {
        (true, true, _) => "Paused after the running response.\n".to_owned(),
        (true, false, _) => "Paused. `transom resume` continues.\n".to_owned(),
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
    fn pausing_and_resuming_change_the_status() {
        let engine = TestEngine::answering(&[]);
        let client = engine.client();
        for (is_paused, expected) in [(true, "Paused. "), (false, "Resumed.")] {
            let mut streams = TestConsole::default();
            run(is_paused, &client, &mut streams.console()).unwrap();
            let text = streams.out_text();
            assert!(text.starts_with(expected), "{text}");
            assert_eq!(client.status().unwrap().is_paused, is_paused);
        }
    }
}
