//! Which answers are due, and whether what the child says is one of them.
//!
//! Rule: commands are answered in order, each once. Anything else means that the child is not what
//! it should be, and nothing it says can be believed.

use std::collections::VecDeque;

use transom_engine::TokenEvent;

use crate::wire::{Command, JobId, PROTOCOL, Report};
use crate::worker::watchdog::Due;

/// A command whose answer has not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Measure,
    Load,
    Generate(JobId),
    Trim,
    Unload,
}

/// What a report means to the parent's side.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    /// For the worker's owner.
    News(Report),
    /// For the watchdog: seconds for which the engine's thread has been silent.
    Pong(f64),
    /// The child is there.
    Greeting,
}

/// One child's talk with its parent.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    has_greeted: bool,
    asked: VecDeque<Asked>,
}

impl Conversation {
    /// Notes a command that is on its way.
    pub(super) fn ask(&mut self, command: &Command) {
        self.asked.extend(match command {
            Command::Measure { .. } => Some(Asked::Measure),
            Command::Load { .. } => Some(Asked::Load),
            Command::Generate { job, .. } => Some(Asked::Generate(*job)),
            Command::Trim { .. } => Some(Asked::Trim),
            Command::Unload { .. } => Some(Asked::Unload),
            Command::Hello { .. } | Command::Stop { .. } | Command::Ping { .. } => None,
        });
    }

    pub(super) fn due(&self) -> Due {
        match (self.has_greeted, self.asked.is_empty()) {
            (false, _) => Due::Greeting,
            (true, true) => Due::Nothing,
            (true, false) => Due::Answer,
        }
    }

    /// Takes a report in.
    ///
    /// # Errors
    /// Why it is out of turn.
    pub(super) fn hear(&mut self, report: Report) -> Result<Heard, String> {
        if let Report::Hello { protocol } = report {
            return self.greeting(protocol).map(|()| Heard::Greeting);
        }
        if !self.has_greeted {
            return Err("it did not greet first".to_owned());
        }
        let next = self.asked.front().copied();
        let is_last = match (&report, next) {
            (Report::Pong { silent_seconds, .. }, _) => return Ok(Heard::Pong(*silent_seconds)),
            (Report::Broken { .. } | Report::Footprint { .. } | Report::MemoryNotice, _) => false,
            (Report::LoadProgress { .. }, Some(Asked::Load)) => false,
            (Report::Event { job, event }, Some(Asked::Generate(asked)))
                if *job == asked && !matches!(event, TokenEvent::Finished { .. }) =>
            {
                false
            }
            (Report::Measured { .. }, Some(Asked::Measure))
            | (Report::Loaded { .. } | Report::LoadFailed { .. }, Some(Asked::Load))
            | (Report::Trimmed { .. }, Some(Asked::Trim))
            | (Report::Unloaded { .. }, Some(Asked::Unload)) => true,
            (Report::JobEnded { job, .. }, Some(Asked::Generate(asked))) if *job == asked => true,
            _ => return Err(out_of_turn(&report, next)),
        };
        if is_last {
            self.asked.pop_front();
        }
        Ok(Heard::News(report))
    }

    fn greeting(&mut self, protocol: u32) -> Result<(), String> {
        if self.has_greeted {
            return Err("it greeted twice".to_owned());
        }
        if protocol != PROTOCOL {
            return Err(format!(
                "it speaks version {protocol} of the protocol and this program version {PROTOCOL}; \
                 the program was replaced while it was running, so restart it"
            ));
        }
        self.has_greeted = true;
        Ok(())
    }
}

fn out_of_turn(report: &Report, next: Option<Asked>) -> String {
    let said = match report {
        Report::Hello { .. } => "a hello",
        Report::Measured { .. } => "a memory need",
        Report::LoadProgress { .. } => "a load's progress",
        Report::Loaded { .. } => "the end of a load",
        Report::LoadFailed { .. } => "the failure of a load",
        Report::Event { .. } => "a job's event",
        Report::JobEnded { .. } => "a job's end",
        Report::Trimmed { .. } => "a trim's result",
        Report::Unloaded { .. } => "the end of an unload",
        Report::Broken { .. } => "a broken model",
        Report::Footprint { .. } => "its footprint",
        Report::MemoryNotice => "memory pressure",
        Report::Pong { .. } => "a pong",
    };
    match next {
        Some(next) => format!("it reported {said} when {next:?} was asked"),
        None => format!("it reported {said} when nothing was asked"),
    }
}

#[cfg(test)]
mod tests;
