use super::*;
use crate::test_support::{DENSE, alone};

/// A session of a small model.
fn session() -> Session {
    crate::test_support::session(DENSE, 2048)
}

fn words(n: u32) -> Vec<u32> {
    (0..n).map(|i| 20 + i * 13 % 200).collect()
}

fn last_logits(session: &mut Session, tokens: &[u32]) -> Vec<f32> {
    assert_eq!(session.append(tokens, 1, &JobControl::new()), Ok(true));
    session
        .logits(tokens.len() - 1)
        .expect("they are there")
        .to_vec()
}

#[test]
fn a_job_that_is_stopped_ends_inside_its_step_and_leaves_nothing_behind() {
    let mut session = session();
    let before = words(20);
    last_logits(&mut session, &before);

    let stopped = JobControl::new();
    stopped.cancel();
    assert_eq!(session.append(&words(400), 1, &stopped), Ok(false));
    assert_eq!(session.tokens(), before);

    let after = last_logits(&mut session, &[70, 71]);
    let mut fresh = self::session();
    last_logits(&mut fresh, &before);
    assert_eq!(after, last_logits(&mut fresh, &[70, 71]));
}

#[test]
fn only_the_logits_that_were_asked_for_are_there() {
    let mut session = session();
    assert_eq!(session.append(&words(8), 2, &JobControl::new()), Ok(true));
    assert!(session.logits(5).is_err());
    assert!(session.logits(6).is_ok());
    assert!(session.logits(7).is_ok());
    assert!(session.logits(8).is_err());
}

#[test]
fn a_prompt_that_was_answered_before_is_processed_but_for_its_last_token() {
    let mut session = session();
    last_logits(&mut session, &words(30));
    assert_eq!(session.reuse(alone(&words(30))), Ok(29));
    assert_eq!(session.tokens().len(), 29);
}

#[test]
fn the_cache_grows_by_doubling_up_to_the_context() {
    assert_eq!(capacity(1, 8192), 1024);
    assert_eq!(capacity(1024, 8192), 1024);
    assert_eq!(capacity(1025, 8192), 2048);
    assert_eq!(capacity(5000, 6000), 6000);
    assert_eq!(capacity(10, 512), 512);
}

#[test]
fn contents_come_back_the_same_from_the_disk_and_from_memory() {
    let mut session = session();
    last_logits(&mut session, &words(30));
    let context = session.context.as_ref().expect("it was made");
    let state = context.state();
    let on_disk = Contents::of(context);
    assert!(matches!(on_disk, Contents::OnDisk(_)));
    for contents in [on_disk, Contents::InMemory(state.clone())] {
        session.give_back();
        session.reserve(1500).expect("there is memory");
        let context = session.context.as_mut().expect("it was made");
        assert!(contents.put(context));
        assert_eq!(context.state(), state);
    }
}
