//! A program that is killed at any moment loses nothing that the store acknowledged.
//!
//! The test runs itself as a child process that writes conversations as fast as it can and prints
//! what the store acknowledged. It is killed with SIGKILL after a different number of lines in
//! every run, at any instruction.
//!
//! Rule: the child prints a line only after the call returned.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "all of it is a test")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use transom_store::{Ending, MessageId, MessageRole, NewMessage, Notice, Store, Timestamp};

const FOLDER: &str = "TRANSOM_STORE_WRITES_INTO";
const N_KILLS: u32 = 120;
const N_PIECES: usize = 12;

/// Not a test: the child process.
#[test]
fn child_writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let now = Timestamp(1_795_000_000_000);
    let store = Store::open(Path::new(&folder), now).unwrap().store;
    let mut out = std::io::stdout().lock();
    // The test harness has started a line.
    writeln!(out).unwrap();
    loop {
        let id = store.create_conversation(now).unwrap();
        let mut parent = None;
        for turn in 0..4 {
            let message = |role, text: String, ending, parent| NewMessage {
                conversation: id,
                parent,
                role,
                text,
                attachment: String::new(),
                ending,
                model: None,
                created_at: now,
            };
            let text = format!("question{} of {turn}", id.0);
            let question = message(MessageRole::User, text.clone(), Ending::Stop, parent);
            let question = store.add_message(question).unwrap();
            writeln!(out, "Q {} {text}", question.0).unwrap();
            let answer = message(
                MessageRole::Assistant,
                String::new(),
                Ending::Writing,
                Some(question),
            );
            let answer = store.add_message(answer).unwrap();
            writeln!(out, "A {}", answer.0).unwrap();
            for n in 0..N_PIECES {
                store.append(answer, "", &piece(answer, n)).unwrap();
                writeln!(out, "P {} {}", answer.0, n + 1).unwrap();
            }
            store.finish(answer, Ending::Stop, None).unwrap();
            writeln!(out, "F {}", answer.0).unwrap();
            parent = Some(answer);
        }
        if id.0 % 3 == 0 {
            store.rename(id, &format!("title{}", id.0)).unwrap();
        }
        if id.0 % 5 == 0 {
            store.delete(id).unwrap();
            writeln!(out, "D {}", id.0).unwrap();
        }
    }
}

fn piece(answer: MessageId, n: usize) -> String {
    format!(
        "piece{n} of the answer {}, {}\n",
        answer.0,
        "ä".repeat(n * 20)
    )
}

/// What the store acknowledged in a child process.
#[derive(Default)]
struct Acknowledged {
    questions: HashMap<i64, String>,
    /// The number of pieces of each response.
    pieces: HashMap<i64, usize>,
    finished: Vec<i64>,
    deleted: Vec<i64>,
}

impl Acknowledged {
    fn add(&mut self, line: &str) {
        let mut words = line.splitn(3, ' ');
        let (Some(kind), Some(Ok(id))) = (words.next(), words.next().map(str::parse)) else {
            return;
        };
        match (kind, words.next()) {
            ("Q", Some(text)) => drop(self.questions.insert(id, text.to_string())),
            ("A", _) => drop(self.pieces.insert(id, 0)),
            ("P", Some(n)) => drop(self.pieces.insert(id, n.parse().unwrap())),
            ("F", _) => self.finished.push(id),
            ("D", _) => self.deleted.push(id),
            _ => {}
        }
    }
}

/// Kills a writer after so many lines. Returns what it printed.
fn kill_after(folder: &Path, n_lines: u32) -> Acknowledged {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_writes_until_it_is_killed", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut output = Acknowledged::default();
    let mut n = 0;
    while n < n_lines {
        let line = lines.next().expect("the writer ended by itself").unwrap();
        output.add(&line);
        n += 1;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Lines that it printed before it died count too, except one that was cut.
    for line in lines.map_while(Result::ok) {
        if !line.starts_with('P') || line.split(' ').count() == 3 {
            output.add(&line);
        }
    }
    output
}

#[test]
fn a_killed_store_opens_again_with_everything_it_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut n_interrupted = 0;
    let mut n_questions = 0;
    for kill in 0..N_KILLS {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        // Every tenth is killed while it opens the store.
        let n_lines = match kill % 10 {
            0 => 0,
            _ => (state >> 33) as u32 % 150,
        };
        let output = kill_after(folder.path(), n_lines);
        let opened = Store::open(folder.path(), Timestamp(kill.into())).unwrap();
        let store = opened.store;
        for notice in opened.notices {
            match notice {
                Notice::Interrupted { responses: 1 } => n_interrupted += 1,
                other => panic!("after kill {kill}: {other}"),
            }
        }
        n_questions += output.questions.len();
        check(&store, &output);
    }
    // About a quarter; how many depends on the speed of the disk.
    assert!(
        n_interrupted > N_KILLS / 10,
        "{n_interrupted} answers were cut short"
    );
    assert!(n_questions > N_KILLS as usize, "{n_questions} questions");
}

fn check(store: &Store, output: &Acknowledged) {
    for (id, text) in &output.questions {
        match store.message(MessageId(*id)) {
            Ok(question) => {
                assert_eq!(question.text, *text);
                let found = store.search(text, 0, 1000).unwrap();
                let has_it = found
                    .iter()
                    .any(|one| one.conversation.id == question.conversation);
                assert!(has_it, "the search does not know “{text}”");
            }
            // The conversation is a fifth one, which was deleted.
            Err(error) => assert!(
                text.split(' ').next().unwrap().ends_with(['0', '5']),
                "{error}"
            ),
        }
    }
    for (id, n_acknowledged) in &output.pieces {
        let id = MessageId(*id);
        let Ok(answer) = store.message(id) else {
            continue;
        };
        let whole: Vec<String> = (0..N_PIECES).map(|n| piece(id, n)).collect();
        let n = (0..=N_PIECES).find(|n| whole[..*n].concat() == answer.text);
        let n = n.unwrap_or_else(|| panic!("a torn answer: {}", answer.text));
        assert!(
            n == *n_acknowledged || n == n_acknowledged + 1,
            "{n} pieces of {n_acknowledged}"
        );
        match output.finished.contains(&id.0) {
            true => assert_eq!(answer.ending, Ending::Stop),
            false => assert!(matches!(answer.ending, Ending::Stop | Ending::Interrupted)),
        }
        let is_in_index = n > 0;
        let found = store.search(&format!("answer {}", id.0), 0, 1000).unwrap();
        let has_it = found
            .iter()
            .any(|one| one.conversation.id == answer.conversation);
        assert_eq!(has_it, is_in_index);
    }
    for id in &output.deleted {
        assert!(
            store
                .conversation(transom_store::ConversationId(*id))
                .is_err()
        );
    }
}
