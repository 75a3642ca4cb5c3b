//! Memory pressure from the kernel's pressure stall information
//! (<https://docs.kernel.org/accounting/psi.html>).
//!
//! A trigger written into an open pressure file makes the kernel wake us when tasks stall for
//! longer than a share of the window. Where triggers are refused, the averages in the file are read
//! every two seconds instead, unless it is that of a control group without a limit, which says no
//! more than the whole machine's.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use super::decide::{PressureLevel, pressure_of_averages};
use super::{Clock, Paths};
use crate::board::Board;
use crate::growth::GrowthMeter;
use crate::signal::MemoryPressure;

/// Some task stalls for 150 ms of 2 s: a person notices. Programs without privileges may only use
/// windows of whole multiples of 2 s; with privileges the kernel looks ten times a window.
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
    path: PathBuf,
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
        let sources = Sources::open(files);
        if sources.names.is_empty() {
            return Err(fail(
                "this kernel has no pressure stall information".to_owned(),
            ));
        }
        // A child that inherited the writing end would keep the watch from ever being told to stop.
        let (stopped, stop) =
            pipe_with(PipeFlags::CLOEXEC).map_err(|error| fail(error.to_string()))?;
        let files = sources.files();
        let mut state = Watching {
            vmstat: paths.proc.join("vmstat"),
            triggers: sources.triggers,
            to_read: sources.to_read,
            board: board.clone(),
            clock: Clock::start(),
            level: PressureLevel::default(),
            swap: GrowthMeter::default(),
        };
        // Triggers tell of what begins; this, of what has begun.
        state.read(&files);
        state.look();
        let thread = std::thread::Builder::new()
            .name("memory-pressure".to_owned())
            .spawn(move || state.run(&stopped))
            .map_err(|error| fail(error.to_string()))?;
        Ok(Self {
            files,
            description: sources.names.join(", "),
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
    vmstat: PathBuf,
    triggers: Vec<Trigger>,
    to_read: Vec<PathBuf>,
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
            let wait = (!is_calm || !self.to_read.is_empty()).then_some(TICK);
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
            let files = std::mem::take(&mut self.to_read);
            self.read(&files);
            self.to_read = files;
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
        let (level, mut flags) = (&mut self.level, woken.iter().skip(1));
        self.triggers.retain(|trigger| {
            let flags = flags.next().copied().unwrap_or(PollFlags::empty());
            // A group that was removed wakes its triggers for ever, and means nothing by it.
            let is_gone = flags.contains(PollFlags::ERR);
            if flags.contains(PollFlags::PRI) && !is_gone {
                level.notice(trigger.level, now);
            }
            !is_gone
        });
        Ok(woken.first().is_none_or(PollFlags::is_empty))
    }

    /// Takes the averages in `files` for a notice.
    fn read(&mut self, files: &[PathBuf]) {
        if let Some((some, full)) = greatest_averages(files) {
            let level = pressure_of_averages(some, full);
            self.level.notice(level, self.clock.now());
        }
    }

    /// Concludes from what was noticed so far.
    fn look(&mut self) {
        let now = self.clock.now();
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

/// Where pressure is told of, and how.
#[derive(Default)]
struct Sources {
    triggers: Vec<Trigger>,
    /// Files without triggers.
    to_read: Vec<PathBuf>,
    /// All of them, for people.
    names: Vec<String>,
}

impl Sources {
    fn open(files: &[PathBuf]) -> Self {
        let mut sources = Self::default();
        for path in files {
            let name = path.display();
            match triggers(path) {
                Ok(triggers) => {
                    sources.triggers.extend(triggers);
                    sources.names.push(format!("{name} (triggers)"));
                }
                Err(error) if says_more_than_the_machine(path) => {
                    tracing::info!(path = %name, %error, "no pressure trigger; it is read instead");
                    sources.to_read.push(path.clone());
                    sources.names.push(format!("{name} (read every 2 s)"));
                }
                Err(error) => {
                    tracing::debug!(path = %name, %error, "no pressure trigger");
                }
            }
        }
        sources
    }

    fn files(&self) -> Vec<PathBuf> {
        let triggers = self.triggers.iter().map(|trigger| &trigger.path);
        let mut files: Vec<PathBuf> = triggers.chain(&self.to_read).cloned().collect();
        files.dedup();
        files
    }
}

/// Whether a file is the machine's own, or that of a group with a limit, be it of a group around it.
/// Others need not cost a look every two seconds.
fn says_more_than_the_machine(path: &Path) -> bool {
    let is_limit = |path: PathBuf| {
        let text = fs::read_to_string(path);
        text.is_ok_and(|text| text.trim() != "max")
    };
    let is_limited = |group: &Path| {
        ["memory.max", "memory.high"]
            .into_iter()
            .any(|name| is_limit(group.join(name)))
    };
    !path.ends_with("memory.pressure") || path.ancestors().skip(1).any(is_limited)
}

/// Both triggers of a file.
fn triggers(path: &Path) -> std::io::Result<[Trigger; 2]> {
    Ok([
        trigger(path, MemoryPressure::Warning, WARNING)?,
        trigger(path, MemoryPressure::Critical, CRITICAL)?,
    ])
}

fn trigger(path: &Path, level: MemoryPressure, text: &str) -> std::io::Result<Trigger> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    // The kernel wants the closing zero of a C string.
    file.write_all(format!("{text}\0").as_bytes())?;
    let path = path.to_path_buf();
    Ok(Trigger { file, path, level })
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
pub(in crate::linux) mod tests;
