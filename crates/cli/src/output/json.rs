//! Events for programs: one JSON object a line.
//!
//! Rule: the lines are `TokenEvent` as `transom-engine` serializes it. Before them come `queued` and
//! `loading` while the response waits for its turn or its model. `error` is always the last.

use serde_json::json;
use transom_engine::LoadProgress;
use transom_supervisor::ResponseEvent;

use crate::output::percent;
use crate::{Console, Result};

pub(crate) struct JsonLines<'a, 'c> {
    console: &'a mut Console<'c>,
    /// Tenths of the load that were last written.
    loaded_tenths: Option<u64>,
}

impl<'a, 'c> JsonLines<'a, 'c> {
    pub(crate) fn new(console: &'a mut Console<'c>) -> Self {
        Self {
            console,
            loaded_tenths: None,
        }
    }

    /// Writes one event of a request. The command writes the last one itself.
    pub(crate) fn on_event(&mut self, event: &ResponseEvent) -> Result {
        match event {
            ResponseEvent::Token { event } => self.console.print_json(event),
            ResponseEvent::Queued {
                position,
                blocked_by,
            } => {
                let reason = blocked_by.map(|reason| reason.to_string());
                let line = json!({ "event": "queued", "position": position, "blocked_by": reason });
                self.console.print_json(&line)
            }
            ResponseEvent::Loading {
                progress: Some(progress),
            } => self.on_load(*progress),
            ResponseEvent::Loading { progress: None }
            | ResponseEvent::Embedded { .. }
            | ResponseEvent::Ended { .. } => Ok(()),
        }
    }

    /// Writes one line for each tenth, because a load reports thousands of steps.
    fn on_load(&mut self, progress: LoadProgress) -> Result {
        let tenths = percent(progress).map(|percent| percent / 10);
        if tenths.is_none() || tenths == self.loaded_tenths {
            return Ok(());
        }
        self.loaded_tenths = tenths;
        self.console.print_json(&json!({
            "event": "loading",
            "done_bytes": progress.done_bytes,
            "total_bytes": progress.total_bytes,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_console::TestConsole;
    use transom_supervisor::LimitReason;

    #[test]
    fn a_load_is_written_in_tenths_and_a_wait_with_its_reason() {
        let mut streams = TestConsole::default();
        let mut console = streams.console();
        let mut lines = JsonLines::new(&mut console);
        let queued = ResponseEvent::Queued {
            position: 2,
            blocked_by: Some(LimitReason::LowPower),
        };
        lines.on_event(&queued).unwrap();
        for done_bytes in 0..=1000 {
            let total_bytes = 1000;
            let progress = Some(LoadProgress {
                done_bytes,
                total_bytes,
            });
            let event = ResponseEvent::Loading { progress };
            lines.on_event(&event).unwrap();
        }
        let text = streams.out_text();
        let mut lines = text.lines();
        let queued = r#"{"event":"queued","position":2,"blocked_by":"Low Power Mode"}"#;
        assert_eq!(lines.next(), Some(queued));
        let begun = r#"{"event":"loading","done_bytes":0,"total_bytes":1000}"#;
        assert_eq!(lines.next(), Some(begun));
        assert_eq!(lines.count(), 10);
    }
}
