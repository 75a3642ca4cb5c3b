//! Benchmarks of the store: `cargo bench -p transom-store --bench store`.
//!
//! Appending to a long response, opening a long conversation, searching many messages, and opening
//! the file, all on a disk of this machine in a temporary folder.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark: its table is its output, and it ends at the first thing that goes wrong"
)]

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use transom_store::{ConversationId, Ending, MessageId, MessageRole, NewMessage, Store, Timestamp};

const NOW: Timestamp = Timestamp(1_795_000_000_000);
/// The text of half a second at a good rate.
const PIECE: &str =
    "and then the answer goes on for some forty words that nobody has read before, ";
const N_APPENDS: usize = 200;
const N_SEARCHES: usize = 20;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), NOW).unwrap().store;
    println!("{:>44} {:>10} {:>10}", "milliseconds", "median", "worst");
    growing_answers(&store);
    long_conversation(&store);
    many_messages(&store, folder.path());
}

fn growing_answers(store: &Store) {
    for n_bytes in [0, 100_000, 1_000_000, 10_000_000] {
        let answer = begin_answer(store);
        let mut so_far = 0;
        while so_far < n_bytes {
            let text = PIECE.repeat(20);
            store.append(answer, "", &text).unwrap();
            so_far += text.len();
        }
        let times = timed(N_APPENDS, || store.append(answer, "", PIECE).unwrap());
        print_row(&format!("append to an answer of {n_bytes} bytes"), times);
        let times = timed(5, || drop(black_box(store.message(answer).unwrap())));
        print_row("read it as it grows", times);
        let times = timed(1, || store.finish(answer, Ending::Stop, None).unwrap());
        print_row("end it", times);
    }
}

fn long_conversation(store: &Store) {
    let id = store.create_conversation(NOW).unwrap();
    let mut ids: Vec<MessageId> = Vec::new();
    let times = timed(5000, || {
        let message = message(id, ids.last().copied(), &words(ids.len(), 120));
        ids.push(store.add_message(message).unwrap());
    });
    print_row("add a message of 120 words", times);
    let times = timed(50, || drop(black_box(store.path(id).unwrap())));
    print_row("path of 5,000 messages", times);
    let times = timed(50, || {
        drop(black_box(store.messages(&ids[2000..2030]).unwrap()))
    });
    print_row("30 messages of them", times);
    let times = timed(5, || drop(black_box(store.history(ids[4999]).unwrap())));
    print_row("history of 5,000 messages", times);
    let times = timed(50, || {
        store.show_branch(ids[2500]).unwrap();
    });
    print_row("show a branch of it", times);
}

fn many_messages(store: &Store, folder: &Path) {
    const N_MESSAGES: usize = 100_000;
    let start = Instant::now();
    store.import(&export(N_MESSAGES, 20), NOW).unwrap();
    print_row("import 100,000 messages", vec![start.elapsed()]);
    let times = timed(N_SEARCHES, || {
        drop(black_box(store.conversations(0, 50).unwrap()))
    });
    print_row("list of 50 of 5,000 conversations", times);
    for (name, query) in [
        ("a rare word", "word99000"),
        ("two words of some messages", "word17 word23"),
        ("a common word", "the"),
        ("two common words", "the and"),
        ("one letter", "w"),
        ("nothing", "nowhere"),
    ] {
        let times = timed(N_SEARCHES, || {
            drop(black_box(store.search(query, 0, 30).unwrap()))
        });
        print_row(&format!("search 105,000 messages for {name}"), times);
    }
    let id = store.conversations(0, 1).unwrap()[0].id;
    let times = timed(1, || store.delete(id).unwrap());
    print_row("delete a conversation, really", times);
    let file = folder.join("transom.db");
    let megabytes = file.metadata().unwrap().len() as f64 / 1e6;
    println!("{:>44} {megabytes:>10.1}", "megabytes of the file");
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(&file, copy.path().join("transom.db")).unwrap();
    let times = timed(1, || drop(Store::open(copy.path(), NOW).unwrap()));
    print_row("open it, read through", times);
    let times = timed(5, || drop(Store::open(copy.path(), NOW).unwrap()));
    print_row("open it again that week", times);
    let small = tempfile::tempdir().unwrap();
    let times = timed(1, || drop(Store::open(small.path(), NOW).unwrap()));
    print_row("make a new one", times);
    let times = timed(5, || drop(Store::open(small.path(), NOW).unwrap()));
    print_row("open an empty one", times);
    assert!(folder.exists());
}

fn begin_answer(store: &Store) -> MessageId {
    let id = store.create_conversation(NOW).unwrap();
    let answer = NewMessage {
        role: MessageRole::Assistant,
        ending: Ending::Writing,
        ..message(id, None, "")
    };
    store.add_message(answer).unwrap()
}

fn message(conversation: ConversationId, parent: Option<MessageId>, text: &str) -> NewMessage {
    NewMessage::from_user(conversation, parent, text, NOW)
}

/// Returns words of which some are in every text, and most in few.
fn words(seed: usize, n_words: usize) -> String {
    let mut state = seed as u64 + 1;
    let mut text = String::new();
    for n in 0..n_words {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let word = match n % 6 {
            0 => "the".to_string(),
            3 => "and".to_string(),
            1 => format!("word{}", (state >> 33) % 100),
            _ => format!("word{}", (state >> 33) % 100_000),
        };
        text += &word;
        text.push(' ');
    }
    text
}

/// Returns conversations with so many messages each, as a file to import.
fn export(n_messages: usize, n_each: usize) -> String {
    let conversations = (0..n_messages / n_each).map(|c| {
        let messages = (0..n_each).map(|m| {
            serde_json::json!({
                "id": m + 1, "parent": (m > 0).then_some(m), "is_shown": true,
                "speaker": "user", "created_at": NOW.0, "ending": "stop",
                "text": words(1_000_000 + c * n_each + m, 60),
            })
        });
        serde_json::json!({
            "key": format!("key{c}"), "title": words(c, 4),
            "created_at": NOW.0, "updated_at": NOW.0 + c as i64,
            "messages": messages.collect::<Vec<_>>(),
        })
    });
    let conversations: Vec<_> = conversations.collect();
    serde_json::json!({
        "format": "transom-conversations", "version": 1, "conversations": conversations,
    })
    .to_string()
}

fn timed(n: usize, mut work: impl FnMut()) -> Vec<Duration> {
    let once = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..n).map(once).collect()
}

fn print_row(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    println!(
        "{name:>44} {:>10.3} {:>10.3}",
        milliseconds(times[times.len() / 2]),
        milliseconds(times[times.len() - 1]),
    );
}
