//! Three models and 50 chats for two days: no limit is exceeded at any second.
//!
//! The clock and the sizes are made up. The folder has real files, which are sparse, so the limits are
//! those that users have. Processes write one file each second, as [`transom_engine_host`] does, and
//! may be killed at any.

use transom_engine::{Parked, ParkedState};

use super::*;

const MB: u64 = 1_000_000;
const N_CHATS: u64 = 50;

/// Seconds that are sampled. Longer times without work are skipped.
const SECONDS: u64 = 6000;

/// Bytes that other conversations than the current one may take in memory.
const PARKED_BYTES: u64 = 1200 * MB;

/// Largest file that a process writes.
const BLOCK_BYTES: u64 = 150 * MB;

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % n
    }

    fn one_of(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// The KV cache of a chat.
#[derive(Debug, Clone)]
struct Chat {
    id: u64,
    bytes: u64,
    tokens: [u32; 1],
}

impl ParkedState for Chat {
    fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    fn conversation(&self) -> Option<ConversationId> {
        Some(ConversationId(self.id))
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// A save that has not ended.
struct Save {
    left_bytes: u64,
    /// The conversations to save, the next one last.
    chats: Vec<Chat>,
    /// The files of the conversation that is being written, and its bytes that are left.
    writing: Option<(SavedConversation, u64)>,
}

/// A process with a model.
struct Process {
    model: String,
    prefix: String,
    n_files: u64,
    current: Option<Chat>,
    parked: Parked<Chat>,
    saved: Vec<SavedConversation>,
    save: Option<Save>,
}

/// The computer.
struct Computer {
    disk: Disk,
    folder: Folder,
    numbers: Numbers,
    now: Duration,
    n_processes: u64,
    /// Bytes that everything except the saved KV caches leaves free.
    others_leave_bytes: u64,
    /// The largest size that the last grants allow.
    allowed_bytes: u64,
    /// The bytes that were really written, by day.
    written: BTreeMap<u64, u64>,
    n_saved: u64,
    n_killed: u64,
    most_bytes: u64,
}

impl Computer {
    fn new() -> Self {
        let mut disk = Disk::with_keychain();
        disk.saving.limits = SavingLimits::default();
        Self {
            folder: disk.open(NOW),
            disk,
            numbers: Numbers(7),
            now: NOW,
            n_processes: 0,
            others_leave_bytes: 100_000 * MB,
            allowed_bytes: u64::MAX,
            written: BTreeMap::new(),
            n_saved: 0,
            n_killed: 0,
            most_bytes: 0,
        }
    }

    fn start(&mut self, model: &str) -> Process {
        self.n_processes += 1;
        let prefix = format!("{:016x}", self.n_processes);
        let found = self.folder.for_load(&place(model), &prefix);
        for name in found.conversations.iter().flat_map(|saved| &saved.files) {
            assert!(self.path(name).exists(), "{name} is listed but not there");
        }
        Process {
            model: model.to_owned(),
            prefix,
            n_files: 0,
            current: None,
            parked: Parked::new(PARKED_BYTES),
            saved: found.conversations,
            save: None,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.disk.folder.path().join(name)
    }

    fn used_bytes(&self) -> u64 {
        let files = fs::read_dir(self.disk.folder.path()).unwrap().flatten();
        let files = files.filter(|entry| entry.file_name() != INDEX);
        files.map(|entry| entry.metadata().unwrap().len()).sum()
    }

    /// Sets the free bytes of the disk, of which other programs take more or less.
    fn measure_disk(&mut self) {
        let free_bytes = self.others_leave_bytes.saturating_sub(self.used_bytes());
        self.folder.saving.limits.free_bytes = Some(free_bytes);
    }

    /// Lets a process do what takes a second.
    fn step(&mut self, process: &mut Process) {
        if process.save.is_some() {
            match self.numbers.one_of(25) {
                true => self.end(process),
                false => self.write(process),
            }
        } else if self.numbers.one_of(12) {
            self.begin_save(process);
        } else if self.numbers.one_of(300) {
            self.end(process);
        } else {
            let id = self.numbers.below(N_CHATS);
            let new_bytes = self.numbers.below(30) * MB;
            process.turn(id, new_bytes);
        }
    }

    fn begin_save(&mut self, process: &mut Process) {
        self.measure_disk();
        let chats: Vec<Chat> = process
            .parked
            .iter()
            .chain(&process.current)
            .cloned()
            .collect();
        let bytes = chats.iter().map(|chat| chat.bytes).sum();
        let before = self.used_bytes();
        let granted = self.folder.make_room(&process.prefix, bytes, false);
        if granted == 0 {
            return;
        }
        let limits = &self.folder.saving.limits;
        let free_bytes = limits.free_bytes.unwrap();
        assert!(free_bytes >= limits.min_free_bytes);
        let quarter = (free_bytes + before) / 4;
        let allowed = quarter.min(limits.max_bytes);
        self.allowed_bytes = match self.folder.granted.len() {
            1 => allowed,
            _ => allowed.min(self.allowed_bytes),
        };
        process.save = Some(Save {
            left_bytes: granted,
            chats,
            writing: None,
        });
    }

    /// Writes the next file of a save, or ends it.
    fn write(&mut self, process: &mut Process) {
        let Some(save) = &mut process.save else {
            return;
        };
        let Some((mut saved, left_bytes)) = save.writing.take() else {
            match save.chats.pop() {
                Some(chat) if chat.bytes <= save.left_bytes => {
                    let id = Some(ConversationId(chat.id));
                    let former = process.saved.iter().position(|saved| saved.id == id);
                    let former = former.map(|index| process.saved.swap_remove(index).key);
                    let saved = SavedConversation {
                        id,
                        key: former.or_else(StateKey::random).unwrap(),
                        files: Vec::new(),
                        n_tokens: 1,
                    };
                    save.writing = Some((saved, chat.bytes));
                }
                Some(_) => {}
                None => {
                    process.save = None;
                    self.folder.saving_ended(&process.prefix);
                }
            }
            return;
        };
        let n_bytes = left_bytes.min(BLOCK_BYTES);
        let name = format!("{}-{}", process.prefix, process.n_files);
        process.n_files += 1;
        let path = self.disk.folder.path().join(&name);
        fs::File::create(path).unwrap().set_len(n_bytes).unwrap();
        *self.written.entry(self.now.as_secs() / 86_400).or_default() += n_bytes;
        saved.files.push(name);
        save.left_bytes -= n_bytes;
        if left_bytes > n_bytes {
            save.writing = Some((saved, left_bytes - n_bytes));
            return;
        }
        process.saved.push(saved.clone());
        self.n_saved += 1;
        let place = place(&process.model);
        self.folder.add(&place, &process.prefix, saved, self.now);
    }

    /// Ends a process, whatever it does, and starts another one.
    fn end(&mut self, process: &mut Process) {
        self.n_killed += u64::from(process.save.is_some());
        self.folder
            .process_ended(&place(&process.model), &process.prefix);
        *process = self.start(&process.model);
    }

    fn check(&mut self, processes: &[Process]) {
        let used_bytes = self.used_bytes();
        self.most_bytes = self.most_bytes.max(used_bytes);
        assert!(used_bytes <= 4 << 30, "{used_bytes} bytes");
        assert!(used_bytes <= self.allowed_bytes, "more than a quarter");
        assert!(self.written.values().all(|bytes| *bytes <= 8000 * MB));
        assert!(self.folder.index.conversations.len() <= MAX_CONVERSATIONS);
        let names = |entry: &Entry| -> Vec<String> {
            let names = entry.files.iter().map(|(name, _)| name.clone());
            names.collect()
        };
        let listed: HashSet<String> = self
            .folder
            .index
            .conversations
            .iter()
            .flat_map(names)
            .collect();
        for name in self.disk.names() {
            let is_written =
                |process: &Process| process.save.is_some() && name.starts_with(&process.prefix);
            assert!(
                listed.contains(&name) || processes.iter().any(is_written),
                "{name} is left"
            );
        }
        for process in processes {
            assert!(process.parked.bytes() <= PARKED_BYTES);
        }
    }
}

impl Process {
    /// Answers in a chat, whose KV cache gets larger.
    fn turn(&mut self, id: u64, new_bytes: u64) {
        if self.current.as_ref().is_none_or(|chat| chat.id != id) {
            let is_it = |chat: &Chat| usize::from(chat.id == id);
            let next = self.parked.take_better(0, is_it).unwrap_or(Chat {
                id,
                bytes: 40 * MB,
                tokens: [1],
            });
            if let Some(former) = self.current.replace(next) {
                self.parked.park(former);
            }
        }
        if let Some(chat) = &mut self.current {
            chat.bytes = (chat.bytes + new_bytes).min(800 * MB);
        }
    }
}

#[test]
fn no_limit_is_exceeded_at_any_second() {
    let mut computer = Computer::new();
    let models = ["chat", "code", "large"];
    let mut processes: Vec<Process> = models.map(|model| computer.start(model)).into();
    for second in 0..SECONDS {
        // After a third of the time, night falls.
        computer.now += Duration::from_secs(1);
        if second % (SECONDS / 3) == 0 {
            computer.now += 20 * HOUR;
        }
        computer.folder.begin_day(computer.now);
        // Other programs change the disk while nothing is saved.
        if processes.iter().all(|process| process.save.is_none()) {
            computer.others_leave_bytes = match computer.numbers.below(4) {
                0 => 9000 * MB,
                1 => 14_000 * MB,
                _ => 100_000 * MB,
            };
            computer.allowed_bytes = u64::MAX;
        }
        if computer.numbers.one_of(200) {
            let id = ConversationId(computer.numbers.below(N_CHATS));
            computer.folder.forget(&Forgotten::Conversation(id));
        }
        let index = computer.numbers.below(3) as usize;
        computer.step(&mut processes[index]);
        computer.check(&processes);
    }
    // Otherwise the limits were never near.
    let busiest = computer.written.values().max().unwrap();
    assert!(*busiest > 7000 * MB, "{:?}", computer.written);
    assert!(computer.most_bytes > 3000 * MB, "{}", computer.most_bytes);
    let (n_saved, n_killed) = (computer.n_saved, computer.n_killed);
    assert!(
        n_saved > 30 && n_killed > 3,
        "{n_saved} saved, {n_killed} killed"
    );
}
