use std::path::Path;

use super::*;
use crate::native;

/// A session of a small model.
fn session() -> Session {
    native::begin();
    let path = "tests/fixtures/models/llama-f16.gguf";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let model = Model::load(&path, true, &mut |_| true).expect("the model loads");
    let threads = Threads::new(1).expect("a thread");
    let plan = Plan {
        device: Device::Cpu,
        cache_type: KvType::F16,
        prefill_chunk: 512,
        context_length: 2048,
        token_bytes: 0,
        fixed_bytes: 0,
    };
    Session::new(Rc::new(model), Rc::new(threads), plan)
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
    assert_eq!(session.reuse(&words(30), false), 29);
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
