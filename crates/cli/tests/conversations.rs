//! A saved KV cache outlives its child process: one process saves it, the next one restores it, and the
//! response is that of an uninterrupted process.

#![expect(clippy::unwrap_used, reason = "all of it is a test")]

#[path = "fixtures/supervised.rs"]
mod supervised;

use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;
use transom_engine::{SamplingParams, Stats, TokenEvent};
use transom_signals::ScriptedSignals;
use transom_supervisor::instance::{self, Connection};
use transom_supervisor::test_support::n_saved_files;
use transom_supervisor::{Handle, ModelSelector, Outcome, ResponseEvent, Tuning};

const STEP_LIMIT: Duration = Duration::from_secs(120);

const FIRST: &str = "Once upon a time there was a lighthouse that nobody had ever seen, and in it";

/// Continues `prompt` greedily by sixteen tokens.
async fn continue_text(handle: &Handle, form: &str, prompt: &str) -> (String, Stats) {
    let greedy = SamplingParams {
        temperature: 0.0,
        ..SamplingParams::default()
    };
    let ask = supervised::ask(form, prompt.to_owned(), 16, None, greedy);
    let mut answer = handle.submit(ask);
    let mut text = String::new();
    loop {
        let event = timeout(STEP_LIMIT, answer.next()).await;
        match event.expect("an event arrives in time").unwrap() {
            ResponseEvent::Token {
                event: TokenEvent::Text { text: more, .. },
            } => text += &more,
            ResponseEvent::Ended {
                outcome: Outcome::Finished { stats, .. },
            } => return (text, stats),
            ResponseEvent::Ended { outcome } => panic!("{form}: {outcome:?}"),
            _ => {}
        }
    }
}

/// Makes the supervisor unload the idle model, as if another needed its room.
async fn make_room(handle: &Handle) {
    handle.set_tuning(Tuning {
        memory_budget_bytes: Some(1),
        ..Tuning::default()
    });
    let mut status = handle.status();
    let is_gone = status.wait_for(|status| status.models.is_empty());
    timeout(STEP_LIMIT, is_gone)
        .await
        .expect("the model is unloaded")
        .unwrap();
    handle.set_tuning(Tuning::default());
}

/// Returns the number of files of saved KV caches.
fn n_saved(data: &Path) -> usize {
    n_saved_files(&data.join("cache/saved-states"))
}

async fn open(data: &Path) -> Connection {
    let start = || supervised::supervisor(ScriptedSignals::default(), Tuning::default());
    instance::open(data, start).await.unwrap()
}

#[tokio::test]
async fn a_conversation_continues_in_the_next_process_as_in_an_uninterrupted_one() {
    let data = tempfile::tempdir().unwrap();
    let connection = open(data.path()).await;
    let handle = connection.handle();
    for form in ["starter", "starter/starter.gguf"] {
        let (text, _) = continue_text(&handle, form, FIRST).await;
        let second = format!("{FIRST}{text} Then");
        let (expected, uninterrupted) = continue_text(&handle, form, &second).await;
        handle.unload(ModelSelector::All).await.unwrap();
        assert_eq!(
            n_saved(data.path()),
            0,
            "{form}: an unload by the user saves nothing"
        );

        assert_eq!(continue_text(&handle, form, FIRST).await.0, text, "{form}");
        let n_before = n_saved(data.path());
        make_room(&handle).await;
        let n_files = n_saved(data.path());
        assert_eq!(
            n_files,
            n_before + 3,
            "{form}: a description, a head and a block"
        );
        let (found, stats) = continue_text(&handle, form, &second).await;
        let saved_tokens = handle.current_status().await.models[0].saved_tokens;
        assert_eq!(n_saved(data.path()), n_files, "{form}: files stay");
        assert_eq!(found, expected, "{form}");
        assert_eq!(stats.cached_tokens, uninterrupted.cached_tokens, "{form}");
        assert!(stats.cached_tokens > 16, "{form}: {stats:?}");
        assert!(saved_tokens >= stats.cached_tokens, "{form}");
        make_room(&handle).await;
        let n_files = n_saved(data.path());
        assert_eq!(
            n_files,
            n_before + 4,
            "{form}: the same block and a new one"
        );
    }
    timeout(STEP_LIMIT, connection.close())
        .await
        .expect("it shuts down");
    assert_eq!(
        n_saved(data.path()),
        0,
        "nothing is left after the shutdown"
    );
}
