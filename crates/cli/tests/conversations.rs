//! A conversation outlives its model's process: a real `transom` writes it, the next one takes it up,
//! and the answer is the one of a session that was never broken.

#![expect(clippy::unwrap_used, reason = "all of it is a test")]

#[path = "fixtures/supervised.rs"]
mod supervised;

use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;
use transom_engine::{SamplingParams, Stats, TokenEvent};
use transom_signals::ScriptedSignals;
use transom_supervisor::instance::{self, Connection};
use transom_supervisor::{Handle, ModelSelector, Outcome, ResponseEvent, Tuning};

const PATIENCE: Duration = Duration::from_secs(120);

const FIRST: &str = "Once upon a time there was a lighthouse that nobody had ever seen, and in it";

/// Continues `prompt` greedily by sixteen tokens.
async fn go_on(handle: &Handle, form: &str, prompt: &str) -> (String, Stats) {
    let greedy = SamplingParams {
        temperature: 0.0,
        ..SamplingParams::default()
    };
    let ask = supervised::ask(form, prompt.to_owned(), 16, None, greedy);
    let mut answer = handle.submit(ask);
    let mut text = String::new();
    loop {
        let event = timeout(PATIENCE, answer.next()).await;
        match event.expect("it answers in time").unwrap() {
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

/// Has the idle model make room, as if another needed it.
async fn make_room(handle: &Handle) {
    handle.set_tuning(Tuning {
        memory_budget_bytes: Some(1),
        ..Tuning::default()
    });
    let mut status = handle.status();
    let is_gone = status.wait_for(|status| status.models.is_empty());
    timeout(PATIENCE, is_gone).await.expect("it goes").unwrap();
    handle.set_tuning(Tuning::default());
}

fn n_kept(data: &Path) -> usize {
    let folder = std::fs::read_dir(data.join("cache/saved-states"));
    folder.unwrap().count()
}

async fn open(data: &Path) -> Connection {
    let start = || supervised::supervisor(ScriptedSignals::default(), Tuning::default());
    instance::open(data, start).await.unwrap()
}

/// D074, D078.
#[tokio::test]
async fn a_conversation_goes_on_in_the_next_process_as_in_an_unbroken_one() {
    let data = tempfile::tempdir().unwrap();
    let connection = open(data.path()).await;
    let handle = connection.handle();
    for form in ["starter", "starter/starter.gguf"] {
        let (said, _) = go_on(&handle, form, FIRST).await;
        let second = format!("{FIRST}{said} Then");
        let (expected, unbroken) = go_on(&handle, form, &second).await;
        handle.unload(ModelSelector::All).await.unwrap();
        assert_eq!(n_kept(data.path()), 0, "{form}: it was unloaded by hand");

        assert_eq!(go_on(&handle, form, FIRST).await.0, said, "{form}");
        make_room(&handle).await;
        assert_eq!(n_kept(data.path()), 1, "{form}");
        let (found, stats) = go_on(&handle, form, &second).await;
        let restored_tokens = handle.current_status().await.models[0].restored_tokens;
        assert_eq!(n_kept(data.path()), 0, "{form}: it is taken up once");
        assert_eq!(found, expected, "{form}");
        assert_eq!(stats.cached_tokens, unbroken.cached_tokens, "{form}");
        assert!(stats.cached_tokens > 16, "{form}: {stats:?}");
        assert!(restored_tokens >= stats.cached_tokens, "{form}");
        make_room(&handle).await;
    }
    timeout(PATIENCE, connection.close())
        .await
        .expect("it quits");
    assert_eq!(n_kept(data.path()), 0, "nothing is left after a quit");
}
