use std::os::fd::AsRawFd;

use super::*;

/// Creates a file that nobody can write to, not even root, until the result is dropped.
pub(in crate::linux) fn read_only(path: &Path, text: &str) -> File {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let descriptor = memfd_create("read-only", MemfdFlags::ALLOW_SEALING).unwrap();
    let mut file = File::from(descriptor);
    file.write_all(text.as_bytes()).unwrap();
    fcntl_add_seals(&file, SealFlags::WRITE).unwrap();
    let target = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    std::os::unix::fs::symlink(target, path).unwrap();
    file
}

#[test]
fn averages_and_counters_are_read() {
    let text = "some avg10=1.53 avg60=0.87 avg300=0.20 total=1\n\
                full avg10=0.51 avg60=0.10 avg300=0.00 total=1\n";
    assert_eq!(average(text, "some"), Some(1.53));
    assert_eq!(average(text, "full"), Some(0.51));
    assert_eq!(average("", "full"), None);
    let folder = tempfile::tempdir().unwrap();
    let vmstat = "pswpin 4\npswpout 3\n";
    fs::write(folder.path().join("vmstat"), vmstat).unwrap();
    let page = rustix::param::page_size() as u64;
    assert_eq!(swapped_out_bytes(folder.path()), Some(3 * page));
    assert_eq!(swapped_out_bytes(&folder.path().join("absent")), None);
}

/// Writes what the kernel says of the memory, in gigabytes.
fn write_meminfo(proc: &Path, total: u64, available: u64, mapped: u64) {
    let line = |name: &str, gigabytes: u64| format!("{name}:   {} kB\n", gigabytes * 1_000_000);
    let lines = [
        line("MemTotal", total),
        line("MemAvailable", available),
        line("Mapped", mapped),
    ];
    fs::write(proc.join("meminfo"), lines.concat()).unwrap();
}

#[test]
fn mapped_files_are_not_plenty() {
    let folder = tempfile::tempdir().unwrap();
    let has_plenty = |total, available, mapped| {
        write_meminfo(folder.path(), total, available, mapped);
        has_plenty(folder.path())
    };
    assert!(has_plenty(24, 20, 1), "the cache of a large build");
    assert!(has_plenty(16, 5, 1));
    assert!(!has_plenty(16, 4, 1));
    assert!(!has_plenty(16, 14, 13), "the weights of a large model");
    assert!(!has_plenty(16, 1, 2));
    fs::write(folder.path().join("meminfo"), "MemTotal: 16 kB\n").unwrap();
    assert!(!super::has_plenty(folder.path()), "an old kernel");
    assert!(!super::has_plenty(&folder.path().join("absent")));
}

/// Also at the start, so a program that reads only once sees pressure that began earlier.
#[test]
fn averages_are_read_if_triggers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let files = [folder.path().join("memory"), folder.path().join("more")];
    let normal = "some avg10=0.00 avg60=0 avg300=0 total=1\n\
                full avg10=0.00 avg60=0 avg300=0 total=1\n";
    let critical = "some avg10=50.00 avg60=0 avg300=0 total=1\n\
                 full avg10=20.00 avg60=0 avg300=0 total=1\n";
    let _files = [read_only(&files[0], normal), read_only(&files[1], critical)];
    let start = |available| {
        write_meminfo(folder.path(), 16, available, 1);
        let paths = Paths {
            proc: folder.path().to_owned(),
            ..Paths::default()
        };
        let shared = Arc::new(SharedSignals::default());
        let watch = PressureWatch::start(&files, &paths, &shared).unwrap();
        (watch, shared.current().memory)
    };
    assert_eq!(start(12).1, MemoryPressure::Normal, "files are read again");
    let (watch, level) = start(2);
    assert_eq!(level, MemoryPressure::Critical);
    assert_eq!(watch.averages(), Some((50.0, 20.0)));
    let expected = "memory (read every 2 s)";
    assert!(watch.describe().contains(expected), "{}", watch.describe());
}

#[test]
fn a_group_without_a_limit_is_not_polled() {
    let folder = tempfile::tempdir().unwrap();
    let group = folder.path().join("around/own");
    fs::create_dir_all(&group).unwrap();
    let file = group.join("memory.pressure");
    fs::write(&file, "").unwrap();
    assert!(!is_worth_polling(&file) && !is_of_machine(&file));
    fs::write(group.join("memory.max"), "max\n").unwrap();
    assert!(!is_worth_polling(&file) && is_of_machine(&file));
    fs::write(folder.path().join("around/memory.high"), "1000000\n").unwrap();
    assert!(is_worth_polling(&file) && !is_of_machine(&file));
    assert!(is_worth_polling(Path::new("/proc/pressure/memory")));
}

/// In a real cgroup, if that is permitted.
#[cfg(feature = "test-support")]
#[test]
fn the_removal_of_a_group_is_not_pressure() {
    let Some(group) = crate::test_support::LimitedCgroup::new_or_skip("end", 16 << 20) else {
        return;
    };
    let mut thread = PressureThread {
        proc: PathBuf::new(),
        triggers: triggers(&group.pressure_file()).unwrap().into(),
        polled_files: Vec::new(),
        shared: Arc::new(SharedSignals::default()),
        began: Instant::now(),
        level: PressureLevel::default(),
        swap: SwapGrowth::default(),
    };
    let (stopped, _stop) = rustix::pipe::pipe().unwrap();
    drop(group);
    let timeout = Some(Duration::from_secs(20));
    assert_eq!(thread.wait(&stopped, timeout), Ok(true));
    assert!(thread.triggers.is_empty(), "they would wake us forever");
    assert_eq!(
        thread.level.at(thread.began.elapsed()),
        MemoryPressure::Normal
    );
}
