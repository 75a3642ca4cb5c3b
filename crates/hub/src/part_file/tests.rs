use super::*;
use crate::disk::RealDisk;

fn identity(bytes: &[u8]) -> FileIdentity {
    let digest = Digest::Sha256(String::new());
    let mut hasher = digest.hasher(0);
    hasher.update(bytes);
    FileIdentity {
        name: "sub/model.safetensors".to_owned(),
        size_bytes: bytes.len() as u64,
        digest: hasher.finish(),
    }
}

struct Fixture {
    folder: tempfile::TempDir,
    lock: Arc<Lock>,
    disk: Arc<dyn Disk>,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let lock = Arc::new(Lock::take(folder.path(), "a").unwrap());
        Self {
            folder,
            lock,
            disk: Arc::new(RealDisk),
        }
    }

    fn open(&self, file: &FileIdentity) -> PartFile {
        PartFile::open(self.folder.path(), file, &self.lock, &self.disk).unwrap()
    }
}

const TEXT: &[u8] = b"0123456789abcdefghij";

#[tokio::test]
async fn saved_bytes_survive_a_crash_and_unsaved_ones_are_missing() {
    let fixture = Fixture::new();
    let file = identity(TEXT);
    let part = fixture.open(&file);
    part.write(10, TEXT[10..15].to_vec()).await.unwrap();
    part.save().await.unwrap();
    part.write(0, TEXT[..5].to_vec()).await.unwrap();
    drop(part);
    let part = fixture.open(&file);
    assert_eq!(part.missing(100), [0..10, 15..20]);
    assert_eq!(PartFile::len_on_disk(fixture.folder.path(), &file), 5);
    assert_eq!(part.write(0, TEXT.to_vec()).await.unwrap(), 15);
    assert_eq!(part.hash_as_written(|_| ()).await.unwrap(), file.digest);
    let place = fixture.folder.path().join("whole/sub/model.safetensors");
    part.finish(&place).unwrap();
    assert_eq!(fs::read(place).unwrap(), TEXT);
    let left: Vec<_> = fs::read_dir(fixture.folder.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "the lock and the verified file: {left:?}");
}

#[tokio::test]
async fn the_checksum_is_computed_from_writes_in_any_order() {
    let fixture = Fixture::new();
    let file = identity(TEXT);
    let part = fixture.open(&file);
    let writes = async {
        for start in [15, 5, 10, 0] {
            let bytes = TEXT[start..start + 5].to_vec();
            part.write(start as u64, bytes).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let (digest, ()) = tokio::join!(part.hash_as_written(|_| ()), writes);
    assert_eq!(digest.unwrap(), file.digest);
}

#[tokio::test]
async fn a_checksum_dropped_midway_starts_over() {
    let fixture = Fixture::new();
    let file = identity(TEXT);
    let part = fixture.open(&file);
    part.write(0, TEXT[..12].to_vec()).await.unwrap();
    {
        let mut hash_as_written = std::pin::pin!(part.hash_as_written(|_| ()));
        let first_poll = futures_util::poll!(&mut hash_as_written);
        assert!(first_poll.is_pending());
    }
    part.write(12, TEXT[12..].to_vec()).await.unwrap();
    assert_eq!(part.hash_as_written(|_| ()).await.unwrap(), file.digest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlapping_saves_do_not_damage_the_journal() {
    let fixture = Fixture::new();
    let file = identity(TEXT);
    let part = fixture.open(&file);
    for end in 1..TEXT.len() {
        part.write(0, TEXT[..end].to_vec()).await.unwrap();
        // A save whose caller was dropped continues, as when a download is paused while the disk is
        // slow.
        let _ = futures_util::poll!(std::pin::pin!(part.save()));
        let saved = futures_util::future::join_all((0..4).map(|_| part.save())).await;
        for saved in saved {
            saved.unwrap();
        }
        let on_disk = PartFile::len_on_disk(fixture.folder.path(), &file);
        assert_eq!(on_disk, end as u64, "what was saved last is in the journal");
    }
}

#[tokio::test]
async fn a_journal_of_another_file_or_without_its_part_file_is_ignored() {
    let fixture = Fixture::new();
    let file = identity(TEXT);
    let part = fixture.open(&file);
    part.write(0, TEXT[..8].to_vec()).await.unwrap();
    part.save().await.unwrap();
    drop(part);
    let changed = identity(b"other bytes, 20 long");
    assert_eq!(PartFile::len_on_disk(fixture.folder.path(), &changed), 0);
    assert_eq!(PartFile::len_on_disk(fixture.folder.path(), &file), 8);
    let journal = journal_path(fixture.folder.path(), &stem(&file.name));
    let text = fs::read_to_string(&journal).unwrap();
    for (from, to) in [("[[0,8]]", "[[0,800]]"), (".part\"", ".gone\""), ("{", "")] {
        fs::write(&journal, text.replacen(from, to, 1)).unwrap();
        assert_eq!(
            PartFile::len_on_disk(fixture.folder.path(), &file),
            0,
            "{to}"
        );
    }
    assert_eq!(fixture.open(&file).len(), 0);
    let parts = fs::read_dir(fixture.folder.path()).unwrap().flatten();
    let n_parts = parts
        .filter(|entry| entry.file_name().to_string_lossy().ends_with(".part"))
        .count();
    assert_eq!(n_parts, 1, "the old part went");
}

#[test]
fn part_file_names_are_short_and_differ_between_folders() {
    assert_ne!(stem("a/model.gguf"), stem("b/model.gguf"));
    assert!(stem(&"x".repeat(500)).len() < 80);
    assert!(!stem("a/b/c").contains('/'));
}
