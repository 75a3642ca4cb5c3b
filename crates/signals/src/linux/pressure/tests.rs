use std::os::fd::AsRawFd;

use super::*;

/// A file that nobody may write to, not even root, as long as the result is kept.
pub(in crate::linux) fn read_only(path: &Path, text: &str) -> File {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let descriptor = memfd_create("read-only", MemfdFlags::ALLOW_SEALING).unwrap();
    let mut file = File::from(descriptor);
    file.write_all(text.as_bytes()).unwrap();
    fcntl_add_seals(&file, SealFlags::WRITE).unwrap();
    let kept = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    std::os::unix::fs::symlink(kept, path).unwrap();
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
    let vmstat = folder.path().join("vmstat");
    fs::write(&vmstat, "pswpin 4\npswpout 3\n").unwrap();
    let page = rustix::param::page_size() as u64;
    assert_eq!(swapped_out_bytes(&vmstat), Some(3 * page));
    assert_eq!(swapped_out_bytes(&folder.path().join("absent")), None);
}

/// Also at once, so that who looks only once sees pressure that has lasted for a while.
#[test]
fn where_triggers_are_refused_the_averages_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let files = [folder.path().join("memory"), folder.path().join("more")];
    let calm = "some avg10=0.00 avg60=0 avg300=0 total=1\n\
                full avg10=0.00 avg60=0 avg300=0 total=1\n";
    let tight = "some avg10=50.00 avg60=0 avg300=0 total=1\n\
                 full avg10=20.00 avg60=0 avg300=0 total=1\n";
    let _kept = [read_only(&files[0], calm), read_only(&files[1], tight)];
    let board = Arc::new(Board::default());
    let watch = PressureWatch::start(&files, &Paths::default(), &board).unwrap();
    assert_eq!(board.current().memory, MemoryPressure::Critical);
    assert_eq!(watch.averages(), Some((50.0, 20.0)));
    let expected = "memory (read every 2 s)";
    assert!(watch.describe().contains(expected), "{}", watch.describe());
}

#[test]
fn a_group_without_limit_and_triggers_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let group = folder.path().join("around/own");
    fs::create_dir_all(&group).unwrap();
    let file = group.join("memory.pressure");
    fs::write(&file, "").unwrap();
    assert!(!says_more_than_the_machine(&file));
    fs::write(group.join("memory.max"), "max\n").unwrap();
    assert!(!says_more_than_the_machine(&file));
    fs::write(folder.path().join("around/memory.high"), "1000000\n").unwrap();
    assert!(says_more_than_the_machine(&file));
    assert!(says_more_than_the_machine(Path::new(
        "/proc/pressure/memory"
    )));
}

/// In a real group, where that is permitted.
#[cfg(feature = "test-support")]
#[test]
fn the_end_of_a_group_is_no_pressure() {
    let Some(group) = crate::test_support::LimitedGroup::new_or_skip("end", 16 << 20) else {
        return;
    };
    let mut watching = Watching {
        vmstat: PathBuf::new(),
        triggers: triggers(&group.pressure_file()).unwrap().into(),
        to_read: Vec::new(),
        board: Arc::new(Board::default()),
        clock: Clock::start(),
        level: PressureLevel::default(),
        swap: GrowthMeter::default(),
    };
    let (stopped, _stop) = rustix::pipe::pipe().unwrap();
    drop(group);
    let patience = Some(Duration::from_secs(20));
    assert_eq!(watching.wait(&stopped, patience), Ok(true));
    assert!(watching.triggers.is_empty(), "they would wake us for ever");
    assert_eq!(
        watching.level.at(watching.clock.now()),
        MemoryPressure::Normal
    );
}
