use transom_engine::JobControl;

use super::*;
use crate::test_support::{DENSE, without_conversation};

mod blocks;
mod sharing;
mod switching;

/// Creates a session of a small model.
fn session() -> Session {
    crate::test_support::session(DENSE, 2048)
}

fn tokens(n: u32) -> Vec<u32> {
    (0..n).map(|i| 20 + i * 13 % 200).collect()
}

fn last_logits(session: &mut Session, tokens: &[u32]) -> Vec<f32> {
    assert_eq!(session.append(tokens, 1, &JobControl::new()), Ok(true));
    session
        .logits(tokens.len() - 1)
        .expect("they were requested")
        .to_vec()
}

#[test]
fn a_stopped_job_ends_inside_its_step_and_its_tokens_are_removed() {
    let mut session = session();
    let before = tokens(20);
    last_logits(&mut session, &before);

    let stopped = JobControl::new();
    stopped.cancel();
    assert_eq!(session.append(&tokens(400), 1, &stopped), Ok(false));
    assert_eq!(session.tokens(), before);

    let after = last_logits(&mut session, &[70, 71]);
    let mut fresh = self::session();
    last_logits(&mut fresh, &before);
    assert_eq!(after, last_logits(&mut fresh, &[70, 71]));
}

#[test]
fn only_requested_logits_are_available() {
    let mut session = session();
    assert_eq!(session.append(&tokens(8), 2, &JobControl::new()), Ok(true));
    assert!(session.logits(5).is_err());
    assert!(session.logits(6).is_ok());
    assert!(session.logits(7).is_ok());
    assert!(session.logits(8).is_err());
}

#[test]
fn only_the_last_token_of_a_repeated_prompt_is_processed() {
    let mut session = session();
    last_logits(&mut session, &tokens(30));
    assert_eq!(session.reuse(without_conversation(&tokens(30))), Ok(29));
    assert_eq!(session.tokens().len(), 29);
}

#[test]
fn the_cache_doubles_up_to_the_context_length() {
    for (n_tokens, context_length, expected) in [
        (1, 8192, 1024),
        (1024, 8192, 1024),
        (1025, 8192, 2048),
        (5000, 6000, 6000),
        (10, 512, 512),
    ] {
        let session = crate::test_support::session(DENSE, context_length);
        assert_eq!(session.config().capacity(n_tokens), expected);
    }
}

#[test]
fn contents_round_trip_through_the_disk_and_through_memory() {
    let mut session = session();
    last_logits(&mut session, &tokens(30));
    let context = session.context.as_ref().expect("it was created");
    let state = context.state(0).expect("there is memory");
    assert_eq!(state.len(), context.state_size(0));
    let take = |is_private| CacheContents::take(context, is_private).expect("there is space");
    let on_disk = take(false);
    assert!(matches!(on_disk, CacheContents::OnDisk(_)));
    let in_memory = take(true);
    assert!(matches!(in_memory, CacheContents::InMemory(_)));
    let folder = tempfile::tempdir().expect("there is space");
    let file = cache_contents::on_disk(context, folder.path()).expect("there is space");
    let n_bytes = file.metadata().expect("it is open").len();
    assert!(n_bytes > state.len() as u64, "{n_bytes}");
    let mut entries = folder.path().read_dir().expect("it exists");
    assert!(entries.next().is_none(), "a killed process leaves a file");
    for contents in [on_disk, in_memory, CacheContents::OnDisk(file)] {
        session.release();
        session.reserve(1500).expect("there is memory");
        let context = session.context.as_mut().expect("it was created");
        assert!(contents.restore(context));
        assert_eq!(context.state(0).as_ref(), Some(&state));
    }
}
