//! Memory pressure from the kernel's pressure stall information
//! (<https://docs.kernel.org/accounting/psi.html>).
//!
//! A trigger written into an open pressure file makes the kernel wake us when tasks stall for
//! longer than a share of the window. Where triggers are refused, the averages in the file are read
//! every two seconds instead.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::decide::{PressureLevel, pressure_of_averages};
use super::{Clock, Paths};
use crate::board::Board;
use crate::growth::GrowthMeter;
use crate::signal::MemoryPressure;

/// Some task stalls for 150 ms of 2 s. Programs without privileges may only use windows of whole
/// multiples of 2 s.
const WARNING: &str = "some 150000 2000000";
/// All tasks stall for 200 ms of 2 s: nothing gets done in that time.
const CRITICAL: &str = "full 200000 2000000";

/// Time between two looks at swap and silence while there is pressure, and at the averages where
/// there are no triggers.
const TICK: Duration = Duration::from_secs(2);

/// The running watch. Dropping it ends its thread.
pub(super) struct PressureWatch {
    files: Vec<PathBuf>,
    description: String,
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// A trigger's file, and what it means when the kernel wakes us.
struct Trigger {
    file: File,
    level: MemoryPressure,
}

impl PressureWatch {
    /// Watches `files`; says why if that cannot be.
    pub(super) fn start(
        files: &[PathBuf],
        paths: &Paths,
        board: &Arc<Board>,
    ) -> Result<Self, String> {
        let fail = |why: String| {
            tracing::info!(why, "no memory pressure; it counts as normal");
            why
        };
        if files.is_empty() {
            return Err(fail(
                "this kernel has no pressure stall information".to_owned(),
            ));
        }
        let triggers = triggers(files);
        let names: Vec<String> = files
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        let way = if triggers.is_empty() {
            "read every 2 s"
        } else {
            "triggers"
        };
        let (stopped, stop) = rustix::pipe::pipe().map_err(|error| fail(error.to_string()))?;
        let state = Watching {
            files: files.to_vec(),
            vmstat: paths.proc.join("vmstat"),
            triggers,
            board: board.clone(),
            clock: Clock::start(),
            level: PressureLevel::default(),
            swap: GrowthMeter::default(),
        };
        let thread = std::thread::Builder::new()
            .name("memory-pressure".to_owned())
            .spawn(move || state.run(&stopped))
            .map_err(|error| fail(error.to_string()))?;
        Ok(Self {
            files: files.to_vec(),
            description: format!("{} ({way})", names.join(", ")),
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where it comes from, for people.
    pub(super) fn describe(&self) -> &str {
        &self.description
    }

    /// The greatest averages over ten seconds: some tasks stalled, all did; in percent.
    pub(super) fn averages(&self) -> Option<(f64, f64)> {
        greatest_averages(&self.files)
    }
}

impl Drop for PressureWatch {
    fn drop(&mut self) {
        // The other end of the pipe hears of it.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Watching {
    files: Vec<PathBuf>,
    vmstat: PathBuf,
    triggers: Vec<Trigger>,
    board: Arc<Board>,
    clock: Clock,
    level: PressureLevel,
    swap: GrowthMeter,
}

impl Watching {
    fn run(mut self, stopped: &OwnedFd) {
        loop {
            let is_calm = self.board.current().memory == MemoryPressure::Normal;
            // Nothing wakes a calm machine but the kernel itself.
            let wait = (!is_calm || self.triggers.is_empty()).then_some(TICK);
            match self.wait(stopped, wait) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(%error, "memory pressure is no longer watched");
                    self.board.update(|signals| {
                        signals.memory = MemoryPressure::Normal;
                        signals.is_thrashing = false;
                    });
                    return;
                }
            }
            self.look();
        }
    }

    /// Waits for a notice or the time; `false` when the watch ends.
    fn wait(&mut self, stopped: &OwnedFd, wait: Option<Duration>) -> rustix::io::Result<bool> {
        let mut fds = vec![PollFd::new(stopped, PollFlags::IN)];
        let triggers = self.triggers.iter();
        fds.extend(triggers.map(|trigger| PollFd::new(&trigger.file, PollFlags::PRI)));
        let wait = wait.map(|wait| Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: 0,
        });
        match poll(&mut fds, wait.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(true),
            Err(error) => return Err(error),
        }
        let woken: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        drop(fds);
        let now = self.clock.now();
        for (trigger, flags) in self.triggers.iter().zip(woken.iter().skip(1)) {
            if flags.contains(PollFlags::PRI) {
                self.level.notice(trigger.level, now);
            }
        }
        // A group that was removed raises an error on its triggers for ever.
        let mut flags = woken.iter().skip(1);
        self.triggers.retain(|_| {
            flags
                .next()
                .is_none_or(|flags| !flags.contains(PollFlags::ERR))
        });
        Ok(woken.first().is_none_or(PollFlags::is_empty))
    }

    fn look(&mut self) {
        let now = self.clock.now();
        if self.triggers.is_empty()
            && let Some((some, full)) = greatest_averages(&self.files)
        {
            self.level.notice(pressure_of_averages(some, full), now);
        }
        let memory = self.level.at(now);
        let is_thrashing = if memory == MemoryPressure::Normal {
            self.swap.clear();
            false
        } else {
            swapped_out_bytes(&self.vmstat).is_some_and(|bytes| self.swap.is_thrashing(bytes, now))
        };
        self.board.update(|signals| {
            signals.memory = memory;
            signals.is_thrashing = is_thrashing;
        });
    }
}

/// Both triggers on each file; none at all if any is refused, so that levels stay comparable.
fn triggers(files: &[PathBuf]) -> Vec<Trigger> {
    let mut triggers = Vec::new();
    for path in files {
        for (level, text) in [
            (MemoryPressure::Warning, WARNING),
            (MemoryPressure::Critical, CRITICAL),
        ] {
            match trigger(path, text) {
                Ok(file) => triggers.push(Trigger { file, level }),
                Err(error) => {
                    tracing::info!(path = %path.display(), %error, "no pressure trigger here");
                    break;
                }
            }
        }
    }
    triggers
}

fn trigger(path: &Path, text: &str) -> std::io::Result<File> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    // The kernel wants the closing zero of a C string.
    file.write_all(format!("{text}\0").as_bytes())?;
    Ok(file)
}

fn greatest_averages(files: &[PathBuf]) -> Option<(f64, f64)> {
    let averages = files.iter().filter_map(|path| {
        let text = fs::read_to_string(path).ok()?;
        Some((average(&text, "some")?, average(&text, "full")?))
    });
    averages.reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)))
}

/// `avg10` of the line that begins with `kind`, in percent.
fn average(text: &str, kind: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with(kind))?;
    let field = line
        .split(' ')
        .find_map(|field| field.strip_prefix("avg10="))?;
    field.parse().ok()
}

/// Bytes that were ever moved to swap, from `/proc/vmstat`.
fn swapped_out_bytes(vmstat: &Path) -> Option<u64> {
    let text = fs::read_to_string(vmstat).ok()?;
    let pages = text
        .lines()
        .find_map(|line| line.strip_prefix("pswpout "))?;
    let pages: u64 = pages.trim().parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_and_counters_are_read() {
        let text = "some avg10=1.53 avg60=0.87 avg300=0.20 total=1\n\
                    full avg10=0.51 avg60=0.10 avg300=0.00 total=1\n";
        assert_eq!(average(text, "some"), Some(1.53));
        assert_eq!(average(text, "full"), Some(0.51));
        assert_eq!(average("", "full"), None);
        let folder = tempfile::tempdir().unwrap();
        let vmstat = folder.path().join("vmstat");
        fs::write(&vmstat, "pswpin 4\npswpout 3\n").unwrap();
        let page = rustix::param::page_size() as u64;
        assert_eq!(swapped_out_bytes(&vmstat), Some(3 * page));
        assert_eq!(swapped_out_bytes(&folder.path().join("absent")), None);
    }

    /// A plain file takes no trigger, but its averages can be read.
    #[test]
    fn where_triggers_are_refused_the_averages_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("memory");
        let text = "some avg10=50.00 avg60=0 avg300=0 total=1\n\
                    full avg10=20.00 avg60=0 avg300=0 total=1\n";
        fs::write(&file, text).unwrap();
        let board = Arc::new(Board::default());
        let mut watching = Watching {
            files: vec![file.clone()],
            vmstat: folder.path().join("vmstat"),
            triggers: Vec::new(),
            board: board.clone(),
            clock: Clock::start(),
            level: PressureLevel::default(),
            swap: GrowthMeter::default(),
        };
        watching.look();
        assert_eq!(board.current().memory, MemoryPressure::Critical);
        assert_eq!(greatest_averages(&[file]), Some((50.0, 20.0)));
    }
}
