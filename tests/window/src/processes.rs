//! The processes of a test from `/proc`: found by a mark in their environment, measured, and
//! killed.
//!
//! Every program that a test starts inherits the mark, as do its child processes. So all of them
//! can be found at the end, even if their parents have exited.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The environment variable with the mark.
pub const MARK: &str = "TRANSOM_TEST_STAGE";

/// A running process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The process id.
    pub pid: i32,
    /// The parent's process id.
    pub parent: i32,
    /// The program's name, at most 15 characters.
    pub name: String,
}

/// Returns all processes with this mark.
pub fn with_mark(mark: &str) -> Vec<Process> {
    let wanted = format!("{MARK}={mark}");
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|&byte| byte == 0)
            .any(|variable| variable == wanted.as_bytes())
    })
    .filter_map(about)
    .collect()
}

/// Returns a process and all its descendants.
pub fn tree(root: i32, among: &[Process]) -> Vec<Process> {
    let mut found: Vec<Process> = among
        .iter()
        .filter(|process| process.pid == root)
        .cloned()
        .collect();
    let mut next = 0;
    while next < found.len() {
        let parent = found[next].pid;
        let children = among.iter().filter(|process| process.parent == parent);
        found.extend(children.cloned());
        next += 1;
    }
    found
}

/// Returns `None` if the process has exited or is a zombie.
fn about(pid: i32) -> Option<Process> {
    let fields = Stat::read(pid)?;
    (fields.state != "Z").then_some(Process {
        pid,
        parent: fields.parent,
        name: fields.name,
    })
}

/// Returns true if the process is running.
pub fn is_alive(pid: i32) -> bool {
    about(pid).is_some()
}

/// Kills a process like a crash. Does nothing if it has exited.
pub fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Asks a process to exit, like a logout.
pub fn terminate(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Returns a process's PSS in bytes: shared pages are divided among their users.
pub fn pss_bytes(pid: i32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Returns the CPU time of a process, user and system.
pub fn cpu_time(pid: i32) -> Option<Duration> {
    // Linux reports hundredths of a second to every program, whatever its internal clock.
    Stat::read(pid).map(|stat| Duration::from_millis(stat.ticks * 10))
}

/// The needed fields of `/proc/…/stat`.
struct Stat {
    name: String,
    state: String,
    parent: i32,
    ticks: u64,
}

impl Stat {
    fn read(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The name is in parentheses and may contain parentheses itself.
        let (before, after) = text.rsplit_once(')')?;
        let name = before.split_once('(')?.1.to_owned();
        let fields: Vec<&str> = after.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Self {
            name,
            state: (*fields.first()?).to_owned(),
            parent: fields.get(1)?.parse().ok()?,
            ticks: number(11)? + number(12)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_is_parsed() {
        let text = "42 (a (b) c) S 7 42 42 0 -1 4194304 1 2 3 4 150 50 0 0 20 0 1 0 99\n";
        let stat = Stat::parse(text).unwrap();
        assert_eq!(
            (stat.name.as_str(), stat.parent, stat.ticks),
            ("a (b) c", 7, 200)
        );
    }

    #[test]
    fn a_tree_is_a_process_with_its_descendants() {
        let process = |pid, parent| Process {
            pid,
            parent,
            name: String::new(),
        };
        let all = [
            process(1, 0),
            process(5, 1),
            process(6, 5),
            process(7, 6),
            process(8, 1),
        ];
        let pids: Vec<i32> = tree(5, &all).iter().map(|process| process.pid).collect();
        assert_eq!(pids, [5, 6, 7]);
    }
}
