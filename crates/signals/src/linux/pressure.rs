//! Memory pressure from the kernel's pressure stall information, PSI
//! (<https://docs.kernel.org/accounting/psi.html>).
//!
//! A trigger that is written into an open pressure file makes the kernel wake us when tasks stall
//! for longer than a share of the window. If the kernel refuses triggers, the averages in the file
//! are read every two seconds instead. The file of a control group without a limit is then left
//! out, because it says no more than that of the whole machine.
//!
//! Tasks also stall while the kernel reads files again that it dropped from its cache, as in a large
//! build on a machine with much free memory. Unloading a model would not help then, so stalls of the
//! whole machine count only while little memory is available ([`has_plenty`]).

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use super::levels::{PressureLevel, pressure_of_averages};
use super::{Paths, StoppableThread};
use crate::shared_signals::SharedSignals;
use crate::signal::MemoryPressure;
use crate::swap_growth::SwapGrowth;

/// Some task stalls for 150 ms of 2 s, which a person notices. Programs without privileges may only
/// use windows of multiples of 2 s; with privileges the kernel checks ten times per window.
const WARNING: Threshold = Threshold {
    level: MemoryPressure::Warning,
    kind: "some",
    stall: Duration::from_millis(150),
};
/// All tasks stall for 200 ms of 2 s.
const CRITICAL: Threshold = Threshold {
    level: MemoryPressure::Critical,
    kind: "full",
    stall: Duration::from_millis(200),
};

const WINDOW: Duration = Duration::from_secs(2);

/// Stalls do not count while this part of the memory, or more, is free or holds files that no program
/// maps.
const PLENTY: f64 = 0.25;

/// Time between two reads of swap and of the hold time under pressure, and of the averages if there
/// are no triggers.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The running watch. Dropping it ends its thread.
pub(super) struct PressureWatch {
    files: Vec<PathBuf>,
    description: String,
    /// Ends when its pipe is closed.
    _thread: StoppableThread<OwnedFd>,
}

/// When a trigger notifies.
#[derive(Clone, Copy)]
struct Threshold {
    level: MemoryPressure,
    /// The line of the file: whether some or all tasks stall.
    kind: &'static str,
    /// The time of stalls within [`WINDOW`].
    stall: Duration,
}

/// A trigger of a file.
struct Trigger {
    file: File,
    level: MemoryPressure,
    is_of_machine: bool,
}

impl Trigger {
    fn create(path: &Path, threshold: Threshold) -> std::io::Result<Self> {
        let Threshold { level, kind, stall } = threshold;
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        // The kernel expects a C string, which ends in zero.
        let text = format!("{kind} {} {}\0", stall.as_micros(), WINDOW.as_micros());
        file.write_all(text.as_bytes())?;
        Ok(Self {
            file,
            level,
            is_of_machine: is_of_machine(path),
        })
    }
}

impl PressureWatch {
    /// Watches `files`, or returns the reason why that is not possible.
    pub(super) fn start(
        files: &[PathBuf],
        paths: &Paths,
        shared: &Arc<SharedSignals>,
    ) -> Result<Self, String> {
        let fail = |why: String| {
            tracing::info!(why, "memory pressure is unknown and counts as normal");
            why
        };
        let OpenFiles {
            triggers,
            polled_files,
            files,
            names,
        } = OpenFiles::open(files);
        if names.is_empty() {
            return Err(fail(
                "this kernel has no pressure stall information".to_owned(),
            ));
        }
        // CLOEXEC, because a child process that inherited the writing end would prevent the stop.
        let (stopped, stop) =
            pipe_with(PipeFlags::CLOEXEC).map_err(|error| fail(error.to_string()))?;
        let mut thread = PressureThread {
            proc: paths.proc.clone(),
            triggers,
            polled_files,
            shared: shared.clone(),
            began: Instant::now(),
            level: PressureLevel::default(),
            swap: SwapGrowth::default(),
        };
        // Triggers only notify of pressure that begins later.
        thread.read_averages(&files);
        thread.publish();
        let run = move || thread.run(&stopped);
        let spawned = StoppableThread::spawn("memory-pressure", stop, run);
        Ok(Self {
            files,
            description: names.join(", "),
            _thread: spawned.map_err(|error| fail(error.to_string()))?,
        })
    }

    pub(super) fn describe(&self) -> &str {
        &self.description
    }

    /// Returns the greatest averages over ten seconds, in percent, in which some and all tasks
    /// stalled.
    pub(super) fn averages(&self) -> Option<(f64, f64)> {
        greatest_averages(self.files.iter())
    }
}

struct PressureThread {
    /// `/proc`.
    proc: PathBuf,
    triggers: Vec<Trigger>,
    polled_files: Vec<PathBuf>,
    shared: Arc<SharedSignals>,
    began: Instant,
    level: PressureLevel,
    swap: SwapGrowth,
}

impl PressureThread {
    fn run(mut self, stopped: &OwnedFd) {
        loop {
            let is_normal = self.shared.current().memory == MemoryPressure::Normal;
            // Under normal pressure, only the kernel wakes this thread.
            let wait = (!is_normal || !self.polled_files.is_empty()).then_some(POLL_INTERVAL);
            match self.wait(stopped, wait) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(%error, "memory pressure is no longer watched");
                    self.shared.update(|signals| {
                        signals.memory = MemoryPressure::Normal;
                        signals.is_thrashing = false;
                    });
                    return;
                }
            }
            let files = std::mem::take(&mut self.polled_files);
            self.read_averages(&files);
            self.polled_files = files;
            self.publish();
        }
    }

    /// Waits for a notification or for `wait`. Returns false when the watch ends.
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
        let now = self.began.elapsed();
        let (level, mut flags) = (&mut self.level, woken.iter().skip(1));
        self.triggers.retain(|trigger| {
            let flags = flags.next().copied().unwrap_or(PollFlags::empty());
            // The triggers of a removed group wake forever and mean nothing.
            let is_gone = flags.contains(PollFlags::ERR);
            let is_notified = flags.contains(PollFlags::PRI) && !is_gone;
            if is_notified && !(trigger.is_of_machine && has_plenty(&self.proc)) {
                level.notify(trigger.level, now);
            }
            !is_gone
        });
        Ok(woken.first().is_none_or(PollFlags::is_empty))
    }

    /// Reads the averages in `files` and records them like a notification.
    fn read_averages(&mut self, files: &[PathBuf]) {
        let counts = |path: &&PathBuf| !(is_of_machine(path) && has_plenty(&self.proc));
        let counted = files.iter().filter(counts);
        if let Some((some, full)) = greatest_averages(counted) {
            let level = pressure_of_averages(some, full);
            self.level.notify(level, self.began.elapsed());
        }
    }

    fn publish(&mut self) {
        let now = self.began.elapsed();
        let memory = self.level.at(now);
        let swapped_out = || swapped_out_bytes(&self.proc);
        let is_thrashing = self.swap.update(memory, swapped_out, now);
        self.shared.update(|signals| {
            signals.memory = memory;
            signals.is_thrashing = is_thrashing;
        });
    }
}

/// The pressure files, with triggers or polled.
#[derive(Default)]
struct OpenFiles {
    triggers: Vec<Trigger>,
    polled_files: Vec<PathBuf>,
    /// All files, and their names for people.
    files: Vec<PathBuf>,
    names: Vec<String>,
}

impl OpenFiles {
    fn open(files: &[PathBuf]) -> Self {
        let mut sources = Self::default();
        for path in files {
            let name = path.display();
            match triggers(path) {
                Ok(triggers) => {
                    sources.triggers.extend(triggers);
                    sources.names.push(format!("{name} (triggers)"));
                }
                Err(error) if is_worth_polling(path) => {
                    tracing::info!(path = %name, %error, "no pressure trigger; polling instead");
                    sources.polled_files.push(path.clone());
                    sources.names.push(format!("{name} (read every 2 s)"));
                }
                Err(error) => {
                    tracing::debug!(path = %name, %error, "no pressure trigger");
                    continue;
                }
            }
            sources.files.push(path.clone());
        }
        sources
    }
}

/// Returns false for the file of a control group without a limit.
fn is_worth_polling(path: &Path) -> bool {
    !path.ends_with("memory.pressure") || is_limited(path)
}

/// Returns true if the file belongs to a control group that is limited, itself or by a parent.
fn is_limited(path: &Path) -> bool {
    limits(path).any(|limit| limit != "max")
}

/// Returns true if the stalls in the file are about the memory of the whole machine: it is the file of
/// the machine, or that of a group without a limit. Limits of cgroup v1 are unknown here.
fn is_of_machine(path: &Path) -> bool {
    let is_unlimited = || limits(path).next().is_some() && !is_limited(path);
    !path.ends_with("memory.pressure") || is_unlimited()
}

/// Returns the limits of the control group of a file and of its parents.
fn limits(path: &Path) -> impl Iterator<Item = String> {
    let groups = path.ancestors().skip(1);
    let files = groups.flat_map(|group| ["memory.max", "memory.high"].map(|name| group.join(name)));
    files
        .filter_map(|file| fs::read_to_string(file).ok())
        .map(|text| text.trim().to_owned())
}

fn triggers(path: &Path) -> std::io::Result<[Trigger; 2]> {
    Ok([
        Trigger::create(path, WARNING)?,
        Trigger::create(path, CRITICAL)?,
    ])
}

fn greatest_averages<'a>(files: impl Iterator<Item = &'a PathBuf>) -> Option<(f64, f64)> {
    let averages = files.filter_map(|path| {
        let text = fs::read_to_string(path).ok()?;
        Some((average(&text, "some")?, average(&text, "full")?))
    });
    averages.reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)))
}

/// Returns `avg10` of the line that begins with `kind`, in percent.
fn average(text: &str, kind: &str) -> Option<f64> {
    field(text, kind, "avg10=")?.parse().ok()
}

fn field<'a>(text: &'a str, kind: &str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(kind))?;
    line.split(' ').find_map(|field| field.strip_prefix(name))
}

/// Returns true if much memory is free or holds files that no program maps, from `/proc/meminfo`. Files
/// that programs map, such as the weights of a model, are in use, but the kernel calls them available.
fn has_plenty(proc: &Path) -> bool {
    let text = fs::read_to_string(proc.join("meminfo")).unwrap_or_default();
    let kilobytes = |name| -> Option<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    let numbers = ["MemTotal:", "MemAvailable:", "Mapped:"].map(kilobytes);
    matches!(numbers, [Some(total), Some(available), Some(mapped)]
        if available - mapped >= PLENTY * total)
}

/// Returns the bytes that were swapped out since the start of the machine, from `/proc/vmstat`.
fn swapped_out_bytes(proc: &Path) -> Option<u64> {
    let text = fs::read_to_string(proc.join("vmstat")).ok()?;
    let pages = text
        .lines()
        .find_map(|line| line.strip_prefix("pswpout "))?;
    let pages: u64 = pages.trim().parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
pub(in crate::linux) mod tests;
