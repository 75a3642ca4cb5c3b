//! Safe access to untrusted files and text, and sizes as text.
//!
//! A model folder may come from anywhere, so a file in it may be a FIFO that blocks forever, a link
//! to an endless device, or far too long. [`open`] and [`read`] return an error for these.
//! [`visible`] makes text from such a file safe to show.
//!
//! The errors are [`io::Error`]s without the path, like those of [`std::fs`]: callers add it.

mod sizes;
mod text;

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use serde::Serialize;

pub use sizes::{GB, disk_text, memory_text, of_disk, of_memory, size_text};
pub use text::{is_control, visible};

/// Opens a regular file for reading. Never blocks, and never opens a device.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] for anything but a regular file or a link to one, and the errors of
/// [`File::open`].
pub fn open(path: &Path) -> io::Result<File> {
    // Opening a device can already have an effect, so this looks first. It looks again after
    // opening because the file may have been replaced in between.
    check_regular(&fs::metadata(path)?)?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    check_regular(&file.metadata()?)?;
    Ok(file)
}

/// Reads a whole regular file of at most `limit` bytes. Reads at most one byte more than that, even
/// if the file grows meanwhile.
///
/// # Errors
/// [`ErrorKind::FileTooLarge`] for a longer file, and the errors of [`open`].
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_from(open(path)?, limit)
}

/// Reads a whole regular file of at most `limit` bytes as UTF-8.
///
/// # Errors
/// [`ErrorKind::InvalidData`] for text that is not UTF-8, and the errors of [`read`].
pub fn read_to_string(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, limit)?)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "is not UTF-8 text"))
}

/// Returns the last part of `path`; the whole path if it has none.
pub fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Returns true if the name at the end of `path` has this extension, in upper or lower case.
pub fn has_extension(path: &Path, extension: &str) -> bool {
    let found = path.extension();
    found.is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

/// Returns the bytes that the files below `folder` use on the disk. Holes and the targets of links
/// do not count. Returns 0 if there is no folder.
pub fn disk_usage_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => disk_usage_bytes(&entry.path()),
        Ok(metadata) => metadata.blocks().saturating_mul(512),
        Err(_) => 0,
    });
    bytes.fold(0, u64::saturating_add)
}

/// Creates a folder that only this user can enter, and its parents. An existing folder keeps its
/// permissions.
///
/// # Errors
/// The errors of [`fs::create_dir_all`].
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Lets this process and its children create files and folders for this user only, whatever the
/// umask that it was started with. Must be called first, before another thread starts.
#[expect(unsafe_code, reason = "the system call has no safe form")]
pub fn make_new_files_private() {
    // SAFETY: the call takes a number, cannot fail and touches no memory.
    unsafe { libc::umask(0o077) };
}

/// Replaces the file at `path` at once: other programs find the old or the new contents. The new file
/// is readable by this user only. After a power cut, the file may be empty.
///
/// # Errors
/// The system's error if the file can't be written. The old file is then unchanged.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    replace_with(path, contents, |_| Ok(()))
}

/// As [`replace`], with a value as JSON for people to read. After a power cut the file has the old or the
/// new contents.
///
/// # Errors
/// Those of [`replace`], and [`ErrorKind::InvalidData`] for a value that JSON cannot hold.
pub fn replace_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    replace_with(path, &text, File::sync_all)
}

fn replace_with(
    path: &Path,
    contents: &[u8],
    sync: impl Fn(&File) -> io::Result<()>,
) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(contents)?;
    sync(file.as_file())?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn read_from(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let too_large = |bytes: &str| {
        let reason = format!("has {bytes} bytes; the limit is {limit}");
        io::Error::new(ErrorKind::FileTooLarge, reason)
    };
    let length = file.metadata()?.len();
    if length > limit {
        return Err(too_large(&length.to_string()));
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX))?;
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(too_large(&format!("more than {limit}")));
    }
    Ok(bytes)
}

fn check_regular(metadata: &Metadata) -> io::Result<()> {
    let reason = match metadata {
        file if file.is_file() => return Ok(()),
        folder if folder.is_dir() => "is a folder",
        _ => "is not a regular file",
    };
    Err(io::Error::new(ErrorKind::InvalidInput, reason))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_file_is_replaced_by_a_private_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        replace(&path, b"newer").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"newer");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        replace_json(&path, &["newest"]).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"[\n  \"newest\"\n]\n");
        assert!(replace(&path.join("below a file"), b"").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "text").unwrap();
        symlink(at("file"), at("link")).unwrap();
        for name in ["file", "link"] {
            assert_eq!(read(&at(name), 4).unwrap(), b"text");
        }
        let made = Command::new("mkfifo").arg(at("fifo")).status().unwrap();
        assert!(made.success());
        let _socket = UnixListener::bind(at("socket")).unwrap();
        symlink("/dev/zero", at("device")).unwrap();
        for name in ["fifo", "socket", "device"] {
            let error = read(&at(name), 4).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name}");
            assert_eq!(error.to_string(), "is not a regular file");
        }
        let error = open(folder.path()).unwrap_err();
        assert_eq!(error.to_string(), "is a folder");
        let error = open(&at("none")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn no_more_than_the_limit_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read_to_string(&path, 5).unwrap(), "12345");
        let error = read(&path, 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "has 5 bytes; the limit is 4");
        // A sparse file takes no disk, but its length counts.
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let error = read(&path, u64::from(u32::MAX)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        fs::write(&path, [b'a', 0xff]).unwrap();
        let error = read_to_string(&path, 5).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn a_path_without_a_name_is_its_own_name() {
        let name = |path: &str| file_name(Path::new(path));
        assert_eq!(name("/a/b/Report 2.pdf"), "Report 2.pdf");
        assert_eq!(name("a/"), "a");
        assert_eq!((&*name("/"), &*name("..")), ("/", ".."));
    }

    #[test]
    fn an_extension_is_the_end_of_the_name_in_any_case() {
        let has = |path: &str| has_extension(Path::new(path), "gguf");
        assert!(has("/a/model.gguf") && has("Model.Q8_0.GGUF"));
        for other in ["/a.gguf/model", "model.gguf.part", "gguf", ".gguf", ""] {
            assert!(!has(other), "{other}");
        }
    }

    #[test]
    fn disk_usage_counts_files_without_holes_and_links() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert_eq!(disk_usage_bytes(&at("none")), 0);
        fs::create_dir(at("below")).unwrap();
        let empty = disk_usage_bytes(folder.path());
        File::create(at("hole")).unwrap().set_len(1 << 30).unwrap();
        symlink(folder.path(), at("below/round")).unwrap();
        assert!(disk_usage_bytes(folder.path()) < empty + (1 << 20));
        File::create(at("below/full"))
            .and_then(|mut file| {
                file.write_all(&vec![1; 2 << 20])?;
                file.sync_all()
            })
            .unwrap();
        assert!(disk_usage_bytes(folder.path()) >= empty + (2 << 20));
    }

    #[test]
    fn a_growing_file_is_read_only_to_the_limit() {
        // A pipe has the length zero and more to read, like a file that grows.
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"12345").unwrap();
        drop(writer);
        let reader = File::from(std::os::fd::OwnedFd::from(reader));
        let error = read_from(reader, 3).unwrap_err();
        assert_eq!(error.to_string(), "has more than 3 bytes; the limit is 3");
    }

    #[test]
    fn a_new_folder_and_its_parents_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        create_private_folder(&path).unwrap();
        create_private_folder(&path).unwrap();
        for path in [folder.path().join("a"), path] {
            let mode = fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
    }
}
