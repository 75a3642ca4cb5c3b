//! The state of the protocol with one child: which responses are awaited, and whether a report is
//! one of them.
//!
//! Rule: each command gets one response, in order. Only jobs that follow each other run at the same time,
//! and end in any order. Any other report means that the child is broken, and none of its reports can be
//! trusted.

use std::collections::VecDeque;

use transom_engine::TokenEvent;

use crate::wire::{Command, JobId, PROTOCOL, Report};
use crate::worker::watchdog::Awaited;

/// A command without a response so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pending {
    Measure,
    Load,
    Generate(JobId),
    Embed(JobId),
    Trim,
    Save,
    Unload,
}

/// A report, by the part of the parent that handles it.
#[derive(Debug, PartialEq)]
pub(super) enum Received {
    /// For the owner of the worker.
    Report(Report),
    /// For the watchdog: seconds since the last heartbeat of the engine thread.
    Pong(f64),
    Hello,
}

#[derive(Debug, Clone, Default)]
pub(super) struct ProtocolState {
    has_hello: bool,
    pending: VecDeque<Pending>,
}

impl ProtocolState {
    pub(super) fn sent(&mut self, command: &Command) {
        self.pending.extend(match command {
            Command::Measure { .. } => Some(Pending::Measure),
            Command::Load { .. } => Some(Pending::Load),
            Command::Generate { job, .. }
            | Command::Count { job, .. }
            | Command::Tokenize { job, .. } => Some(Pending::Generate(*job)),
            Command::Embed { job, .. } => Some(Pending::Embed(*job)),
            Command::Trim { .. } | Command::Forget { .. } => Some(Pending::Trim),
            Command::Save { .. } => Some(Pending::Save),
            Command::Unload { .. } => Some(Pending::Unload),
            Command::Hello { .. } | Command::Stop { .. } | Command::Ping { .. } => None,
        });
    }

    /// Returns what the child must send next.
    pub(super) fn awaited(&self) -> Awaited {
        match (self.has_hello, self.pending.is_empty()) {
            (false, _) => Awaited::Hello,
            (true, true) => Awaited::Nothing,
            (true, false) => Awaited::Response,
        }
    }

    /// Records a report.
    ///
    /// # Errors
    /// The reason why the report is not expected.
    pub(super) fn receive(&mut self, report: Report) -> Result<Received, String> {
        if let Report::Hello { protocol } = report {
            return self.receive_hello(protocol).map(|()| Received::Hello);
        }
        if !self.has_hello {
            return Err("its first message was not a hello".to_owned());
        }
        let front = self.pending.front().copied();
        let answered = match &report {
            Report::Event { job, .. }
            | Report::Embedded { job, .. }
            | Report::JobEnded { job, .. } => self.job(*job),
            _ => front.map(|pending| (0, pending)),
        };
        let next = answered.map(|(_, pending)| pending);
        let is_last = match (&report, next) {
            (Report::Pong { silent_seconds, .. }, _) => return Ok(Received::Pong(*silent_seconds)),
            (Report::Broken { .. } | Report::Footprint { .. } | Report::MemoryNotice, _)
            | (Report::LoadProgress { .. }, Some(Pending::Load))
            | (Report::Saved { .. }, Some(Pending::Save | Pending::Unload))
            | (Report::Embedded { .. }, Some(Pending::Embed(_))) => false,
            (Report::Event { event, .. }, Some(Pending::Generate(_)))
                if !matches!(event, TokenEvent::Finished { .. }) =>
            {
                false
            }
            (Report::Measured { .. }, Some(Pending::Measure))
            | (Report::Loaded { .. } | Report::LoadFailed { .. }, Some(Pending::Load))
            | (Report::Trimmed { .. }, Some(Pending::Trim))
            | (Report::SaveEnded, Some(Pending::Save))
            | (Report::Unloaded { .. }, Some(Pending::Unload))
            | (Report::JobEnded { .. }, Some(Pending::Generate(_) | Pending::Embed(_))) => true,
            _ => return Err(unexpected(&report, front)),
        };
        if let Some((index, _)) = answered
            && is_last
        {
            self.pending.remove(index);
        }
        Ok(Received::Report(report))
    }

    /// Returns the position of a job that may run now: no other command is before it.
    fn job(&self, job: JobId) -> Option<(usize, Pending)> {
        let pending = self.pending.iter().copied().enumerate();
        let mut jobs = pending.map_while(|(index, pending)| match pending {
            Pending::Generate(id) | Pending::Embed(id) => Some((index, pending, id)),
            _ => None,
        });
        let (index, pending, _) = jobs.find(|(_, _, id)| *id == job)?;
        Some((index, pending))
    }

    fn receive_hello(&mut self, protocol: u32) -> Result<(), String> {
        if self.has_hello {
            return Err("it sent a second hello".to_owned());
        }
        if protocol != PROTOCOL {
            return Err(format!(
                "it uses version {protocol} of the protocol and this program version {PROTOCOL}; \
                 the program was replaced while it was running, so restart it"
            ));
        }
        self.has_hello = true;
        Ok(())
    }
}

fn unexpected(report: &Report, next: Option<Pending>) -> String {
    // Only the name, because the contents may quote a response.
    let report = format!("{report:?}");
    let kind = report.split(' ').next().unwrap_or_default();
    match next {
        Some(next) => format!("it reported {kind} in response to {next:?}"),
        None => format!("it reported {kind} without a command"),
    }
}

#[cfg(test)]
mod tests;
