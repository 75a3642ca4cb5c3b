//! The processes of a stage, from `/proc`: found by a mark in their environment, measured, ended.
//!
//! Every program that a stage starts inherits the mark, and so do the programs that those start.
//! That is how all of them are found at the end, also those whose parents are gone.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The variable that marks them.
pub const MARK: &str = "TRANSOM_TEST_STAGE";

/// A process that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Its parent's id.
    pub parent: i32,
    /// Its program's name, at most 15 characters.
    pub name: String,
}

/// All that carry the mark.
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

/// The process and all that descend from it.
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

/// `None` when it is gone, or only waits to be forgotten by its parent.
fn about(pid: i32) -> Option<Process> {
    let fields = Stat::read(pid)?;
    (fields.state != "Z").then_some(Process {
        pid,
        parent: fields.parent,
        name: fields.name,
    })
}

/// Whether it still runs.
pub fn is_alive(pid: i32) -> bool {
    about(pid).is_some()
}

/// Ends a process at once, as a crash would. One that is gone is no problem.
pub fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Asks a process to end, as a logout would.
pub fn terminate(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Bytes of memory that are a process's own share: pages used by several are divided among them.
pub fn pss_bytes(pid: i32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Processor time that a process has used so far, by user and system.
pub fn cpu_time(pid: i32) -> Option<Duration> {
    // Linux counts in hundredths of a second for every program, whatever its own clock does.
    Stat::read(pid).map(|stat| Duration::from_millis(stat.ticks * 10))
}

/// What we need of `/proc/…/stat`.
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
        // The name stands in brackets and may hold brackets itself.
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
    fn a_name_with_brackets_is_read() {
        let text = "42 (a (b) c) S 7 42 42 0 -1 4194304 1 2 3 4 150 50 0 0 20 0 1 0 99\n";
        let stat = Stat::parse(text).unwrap();
        assert_eq!(
            (stat.name.as_str(), stat.parent, stat.ticks),
            ("a (b) c", 7, 200)
        );
    }

    #[test]
    fn a_tree_is_a_process_with_all_that_descend_from_it() {
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
