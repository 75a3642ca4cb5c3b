use std::collections::BTreeMap;

use tempfile::TempDir;
use transom_engine::test_support::{Script, ScriptedEngine};
use transom_engine::{
    Engine, GenerationParams, JobControl, KvCacheChoice, Limits, ModelSource, Prompt, Stats,
};

use super::*;

/// A model that generates nothing, and what is saved of it.
struct Process {
    model: Box<dyn LoadedModel>,
    saved: SavedConversations,
}

impl Process {
    fn start(folder: &TempDir, prefix: &str, conversations: Vec<SavedConversation>) -> Self {
        let engine = ScriptedEngine {
            script: Script::default(),
        };
        let source = ModelSource {
            path: "model".into(),
        };
        let limits = Limits {
            context_length: 10_000,
            prefill_chunk: 100,
            kv_cache: KvCacheChoice::Automatic,
            parked_bytes: 0,
            draft: None,
        };
        let model = engine.load(&source, &limits, &JobControl::new(), &mut |_| {});
        Self {
            model: model.unwrap(),
            saved: SavedConversations::open(SavedFolder {
                path: folder.path().to_owned(),
                prefix: prefix.to_owned(),
                conversations,
            }),
        }
    }

    /// Reads `tokens` as the conversation `id`.
    fn read(&mut self, tokens: &[u32], id: Option<u64>) -> Stats {
        let conversation = id.map(ConversationId);
        self.saved
            .restore(&mut *self.model, tokens, conversation, &|| {});
        self.read_only_from_memory(tokens, id)
    }

    fn read_only_from_memory(&mut self, tokens: &[u32], id: Option<u64>) -> Stats {
        let id = id.map(ConversationId);
        let prompt = Prompt::Tokens(tokens.to_vec());
        let prompt = self.model.prepare(&prompt).unwrap();
        let model = &mut *self.model;
        let params = GenerationParams {
            conversation: id,
            ..GenerationParams::default()
        };
        let control = JobControl::new();
        let (_, stats) = model
            .generate(&prompt, &params, &control, &mut |_| {})
            .unwrap();
        stats
    }

    fn save(&mut self) -> Vec<SavedConversation> {
        let mut all = Vec::new();
        let mut on_saved = |saved| all.push(saved);
        let is_stopped = || false;
        self.saved
            .save(&mut *self.model, u64::MAX, &is_stopped, &mut on_saved)
            .unwrap();
        all
    }
}

/// Returns tokens that depend on their positions, and from `n_same` on also on `seed`.
fn tokens(n_tokens: usize, n_same: usize, seed: u32) -> Vec<u32> {
    let token = |index: usize| match index < n_same {
        true => index as u32 % 251,
        false => (index as u32 * 7 + seed) % 251,
    };
    (0..n_tokens).map(token).collect()
}

/// Returns the names and contents of all files.
fn files(folder: &TempDir) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder.path()).unwrap();
    let files = entries.map(|entry| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read(entry.path()).unwrap())
    });
    files.collect()
}

#[test]
fn a_longer_conversation_gets_blocks_for_its_new_tokens_only() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(&folder, "a", Vec::new());
    let (long, edited) = (tokens(1000, 1000, 0), tokens(700, 300, 5));
    process.read(&long[..600], Some(1));
    let first = process.save();
    assert_eq!(first[0].files.len(), 2 + 3);
    let before = files(&folder);
    process.read(&long, Some(1));
    let second = process.save();
    assert_eq!(second.len(), 1);
    assert_eq!(second[0].key, first[0].key);
    assert_eq!(second[0].files[2..5], first[0].files[2..]);
    assert_eq!(second[0].files.len(), 2 + 5);
    let after = files(&folder);
    let is_kept = |(name, bytes): (&String, &Vec<u8>)| after.get(name) == Some(bytes);
    assert!(before.iter().all(is_kept), "a file was changed");
    // In the next process, an edit keeps the blocks before it.
    let mut process = Process::start(&folder, "b", second.clone());
    process.read(&edited, Some(1));
    let third = process.save();
    assert_eq!(third[0].files[2..3], second[0].files[2..3]);
    assert_eq!(third[0].files.len(), 2 + 3);
    let mut process = Process::start(&folder, "c", third);
    assert_eq!(process.read(&edited, Some(1)).cached_tokens, 700);
}

/// The context of that load may be too short for the conversation, and its KV cache of another type.
#[test]
fn blocks_of_another_load_that_were_not_restored_are_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(&folder, "a", Vec::new());
    let (long, edited) = (tokens(1000, 1000, 0), tokens(700, 600, 5));
    process.read(&long, Some(1));
    let first = process.save();
    let mut process = Process::start(&folder, "b", first.clone());
    process.read_only_from_memory(&edited, Some(1));
    let second = process.save();
    assert_eq!(second[0].key, first[0].key);
    assert_eq!(second[0].files.len(), 2 + 3);
    let is_kept = |name: &String| first[0].files.contains(name);
    assert!(!second[0].files.iter().any(is_kept));
    let mut process = Process::start(&folder, "c", second);
    assert_eq!(process.read(&edited, Some(1)).cached_tokens, 700);
}

#[test]
fn a_missing_block_is_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(&folder, "a", Vec::new());
    let long = tokens(1000, 1000, 0);
    process.read(&long[..600], Some(1));
    let first = process.save();
    fs::remove_file(folder.path().join(&first[0].files[3])).unwrap();
    process.read(&long, Some(1));
    let second = process.save();
    assert_eq!(second[0].files[2..3], first[0].files[2..3]);
    assert!(!second[0].files.contains(&first[0].files[3]));
    let mut process = Process::start(&folder, "b", second);
    assert_eq!(process.read(&long, Some(1)).cached_tokens, 1000);
}

/// The parent removes the oldest conversations to make room, also of a model that has them in memory.
#[test]
fn a_conversation_whose_files_were_removed_is_saved_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(&folder, "a", Vec::new());
    let tokens = tokens(600, 600, 0);
    process.read(&tokens, Some(1));
    for name in &process.save()[0].files {
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    let saved = process.save();
    let mut process = Process::start(&folder, "b", saved);
    assert_eq!(process.read(&tokens, Some(1)).cached_tokens, 600);
}

#[test]
fn each_conversation_has_its_own_key_and_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(&folder, "a", Vec::new());
    let (one, other) = (tokens(600, 512, 0), tokens(600, 512, 1));
    process.read(&one, Some(1));
    let first = process.save();
    process.read(&other, Some(2));
    let second = process.save();
    assert_ne!(first[0].key, second[0].key);
    let is_shared = |name: &String| second[0].files.contains(name);
    assert!(!first[0].files.iter().any(is_shared));
    let both = [second, first].concat();
    for (id, tokens) in [(1, &one), (2, &other)] {
        let mut process = Process::start(&folder, "b", both.clone());
        assert_eq!(process.read(tokens, Some(id)).cached_tokens, 600);
    }
}

#[test]
fn the_conversation_with_the_most_tokens_of_the_prompt_is_restored() {
    let candidate = |is_same, n_tokens, n_shared| Candidate {
        is_same,
        n_tokens,
        n_shared,
    };
    let (same, other) = (true, false);
    for (candidates, in_memory, expected) in [
        (vec![], 0, None),
        (vec![candidate(other, 10, 0)], 0, None),
        (vec![candidate(other, 10, 5)], 0, Some(0)),
        (vec![candidate(other, 10, 5)], 5, None),
        (vec![candidate(other, 40, 5)], 0, Some(0)),
        (vec![candidate(other, 41, 5)], 0, None),
        (vec![candidate(same, 41, 5)], 0, Some(0)),
        (vec![candidate(same, 101, 100)], 0, None),
        (
            vec![candidate(other, 6, 5), candidate(same, 9, 6)],
            0,
            Some(1),
        ),
        (
            vec![candidate(other, 6, 5), candidate(other, 6, 5)],
            0,
            Some(0),
        ),
    ] {
        assert_eq!(
            best(&candidates, in_memory, 100),
            expected,
            "{candidates:?}"
        );
    }
}
