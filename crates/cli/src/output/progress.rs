//! What a command waits for, in one line.

use transom_supervisor::ResponseEvent;

use crate::output::{Progress, percent};

/// Shows why the response of the model called `name` has not started. Other events change nothing.
pub(crate) fn show_wait(progress: &Progress, name: &str, event: &ResponseEvent) {
    let text = match event {
        ResponseEvent::Queued {
            blocked_by: Some(reason),
            ..
        } => format!("Waiting: {reason} …"),
        ResponseEvent::Queued { position: 0, .. } => "Waiting …".to_owned(),
        ResponseEvent::Queued { position: 1, .. } => "Waiting for one response …".to_owned(),
        ResponseEvent::Queued { position, .. } => format!("Waiting for {position} responses …"),
        ResponseEvent::Loading { progress } => match progress.and_then(percent) {
            Some(percent) => format!("Loading {name} … {percent} %"),
            None => format!("Loading {name} …"),
        },
        ResponseEvent::Token { .. }
        | ResponseEvent::Embedded { .. }
        | ResponseEvent::Ended { .. } => return,
    };
    progress.show(&text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_console::TestConsole;
    use transom_engine::LoadProgress;
    use transom_supervisor::LimitReason;

    /// Shows `event` for a model called `name`, and returns what is on the screen then and after.
    fn shown(name: &str, event: &ResponseEvent) -> (String, String) {
        let mut streams = TestConsole::default().on_terminal(40);
        let progress = streams.console().progress();
        show_wait(&progress, name, event);
        let during = streams.screen.contents();
        drop(progress);
        assert_eq!(streams.err_text() + &streams.out_text(), "");
        (during, streams.screen.contents())
    }

    fn loading(done_bytes: u64, total_bytes: u64) -> ResponseEvent {
        let progress = Some(LoadProgress {
            done_bytes,
            total_bytes,
        });
        ResponseEvent::Loading { progress }
    }

    #[test]
    fn the_line_is_replaced_and_removed_at_the_end() {
        let mut streams = TestConsole::default().on_terminal(40);
        let progress = streams.console().progress();
        for percent in [0, 50, 100] {
            show_wait(&progress, "m", &loading(percent, 100));
            let expect = format!("Loading m … {percent} %");
            assert_eq!(streams.screen.contents(), expect);
        }
        progress.clear();
        assert_eq!(streams.screen.contents(), "");
        progress.show("Thinking …");
        assert_eq!(streams.screen.contents(), "Thinking …");
        drop(progress);
        assert_eq!(streams.screen.contents(), "");
    }

    #[test]
    fn a_name_with_escape_sequences_stays_on_the_line() {
        let mut streams = TestConsole::default().on_terminal(40);
        let progress = streams.console().progress();
        show_wait(
            &progress,
            "m\x1b]0;b\x07\nn",
            &ResponseEvent::Loading { progress: None },
        );
        let drawn = streams.screen.moves_since_last_check();
        assert!(drawn.contains("Loading m�]0;b� n …"), "{drawn}");
        assert!(!drawn.contains("\\u{1b}]"), "{drawn}");
    }

    #[test]
    fn a_long_name_never_wraps_the_line() {
        let (during, after) = shown(&"long name ".repeat(20), &loading(1, 2));
        assert_eq!(during.lines().count(), 1, "{during}");
        assert_eq!(after, "");
    }

    #[test]
    fn without_a_terminal_nothing_is_drawn() {
        let mut streams = TestConsole::default().on_terminal(40);
        streams.terminals.stderr = false;
        streams.console().progress().show("Loading");
        assert_eq!(streams.screen.moves_since_last_check(), "");
    }

    #[test]
    fn a_wait_shows_its_reason() {
        let check = |event: ResponseEvent, expect: &str| assert_eq!(shown("m", &event).0, expect);
        let queued = |position, held| ResponseEvent::Queued {
            position,
            blocked_by: held,
        };
        check(queued(0, None), "Waiting …");
        check(queued(1, None), "Waiting for one response …");
        check(queued(3, None), "Waiting for 3 responses …");
        let held = Some(LimitReason::LowPower);
        check(queued(0, held), "Waiting: Low Power Mode …");
        check(ResponseEvent::Loading { progress: None }, "Loading m …");
    }

    #[test]
    fn a_model_without_weights_has_no_percentage() {
        assert_eq!(shown("m", &loading(0, 0)).0, "Loading m …");
    }
}
