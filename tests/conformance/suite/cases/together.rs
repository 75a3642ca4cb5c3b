//! Responses that are generated in turns: each is as it is alone, and none waits for another one.

use transom_engine::{ConversationId, FinishReason, Limits, TokenEvent, Trim};
use transom_engine_host::wire::{JobId, Report};

use crate::process::{TestProcess, limits};
use crate::request::TestRequest;
use crate::response::Response;
use crate::subject::Subject;

/// Enough for all conversations of a case.
fn parking() -> Limits {
    Limits {
        parked_bytes: 64 << 20,
        ..limits(4096)
    }
}

/// Returns `n` tokens after `first`, which every model of the tests has.
fn tokens(first: u32, n: u32) -> impl Iterator<Item = u32> {
    (0..n).map(move |i| 32 + (first + i * (7 + first)) % 90)
}

fn request(number: u64, tokens: impl IntoIterator<Item = u32>, n_tokens: usize) -> TestRequest {
    let request = TestRequest::tokens(tokens).max_tokens(n_tokens);
    request.params(|params| {
        params.conversation = Some(ConversationId(number));
        params.ignore_end_of_text = true;
    })
}

/// Runs all of them at the same time. Returns the responses in the order of the requests.
async fn together(process: &mut TestProcess, requests: &[TestRequest]) -> Vec<Response> {
    let jobs: Vec<(JobId, &TestRequest)> = requests
        .iter()
        .map(|request| (process.queue_beside(request), request))
        .collect();
    let mut ended = process.responses(&jobs).await;
    ended.sort_by_key(|(job, _)| *job);
    ended.into_iter().map(|(_, response)| response).collect()
}

/// Models with attention to all tokens, with sliding windows, and with recurrent states. The caches
/// grow while others are used.
pub(crate) async fn every_family_generates_in_turns_what_it_generates_alone(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    let requests = [(1, 200, 40), (2, 90, 60), (3, 30, 20)].map(|(number, n_prompt, n_tokens)| {
        let prompt = tokens(number as u32, n_prompt);
        request(number, prompt, n_tokens).params(|params| params.prefill_chunk = Some(32))
    });
    for path in (subject.families)(folder.path()) {
        let mut process = TestProcess::with(subject, &path, &parking()).await;
        let mut alone = Vec::new();
        for request in &requests {
            alone.push(process.text(request).await);
        }
        for trim in [Trim::Everything, Trim::KeepConversation] {
            process.trim(trim).await;
            let responses = together(&mut process, &requests).await;
            let texts: Vec<String> = responses.iter().map(Response::full_text).collect();
            assert_eq!(texts, alone, "{} after {trim:?}", path.display());
        }
        process.shut_down().await;
    }
}

pub(crate) async fn a_short_response_does_not_wait_for_a_long_one(subject: &Subject) {
    let mut process = TestProcess::starter(subject).await;
    let endless = TestRequest::text("On and on").endless();
    let long = process.start_job(&endless);
    process
        .until(|event| matches!(event, TokenEvent::Text { .. }))
        .await;
    let short = TestRequest::text("Once upon a time").max_tokens(8);
    let job = process.queue_beside(&short);
    let mut n_of_long = 0;
    loop {
        match process.report().await {
            Report::JobEnded { job: ended, result } => {
                assert_eq!(ended, job);
                assert_eq!(result.unwrap().reason, FinishReason::Length);
                break;
            }
            Report::Event { job, .. } if job == long => n_of_long += 1,
            Report::Event { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(n_of_long > 0, "the long response stood still");
    process.stop(Some(long), FinishReason::Canceled);
    assert_eq!(process.response().await.reason(), FinishReason::Canceled);
    process.shut_down().await;
}

pub(crate) async fn a_stopped_response_changes_no_other(subject: &Subject) {
    let lasting = TestRequest::text("Once upon a time").max_tokens(40);
    let mut fresh = TestProcess::starter(subject).await;
    let expected = fresh.text(&lasting).await;
    fresh.shut_down().await;
    let mut process = TestProcess::starter(subject).await;
    let endless = TestRequest::text("On and on").endless();
    let stopped = process.queue_beside(&endless);
    let job = process.queue_beside(&lasting);
    process.stop(Some(stopped), FinishReason::Shed);
    let mut ended = process
        .responses(&[(stopped, &endless), (job, &lasting)])
        .await;
    ended.sort_by_key(|(job, _)| *job);
    assert_eq!(ended[0].1.reason(), FinishReason::Shed);
    assert_eq!(ended[1].1.full_text(), expected);
    process.shut_down().await;
}

/// Each conversation is in memory after its response, whichever ended last.
pub(crate) async fn conversations_continue_after_they_ran_beside_each_other(subject: &Subject) {
    let mut process = TestProcess::with(subject, &subject.tiny, &parking()).await;
    let prompts = [200, 120, 60].map(|n| tokens(n, n).collect::<Vec<u32>>());
    let requests: Vec<TestRequest> = (1..)
        .zip(&prompts)
        .map(|(number, prompt)| request(number, prompt.iter().copied(), 30))
        .collect();
    together(&mut process, &requests).await;
    for (number, prompt) in (1..).zip(&prompts) {
        let next = prompt.iter().copied().chain([40, 41, 42]);
        let response = process.generate(&request(number, next, 4)).await;
        let cached = response.started().cached_tokens;
        assert!(
            cached + subject.reuse_slack >= prompt.len(),
            "{cached} of {}",
            prompt.len()
        );
    }
    process.shut_down().await;
}

pub(crate) async fn a_response_reuses_the_prompt_of_a_running_one(subject: &Subject) {
    let shared: Vec<u32> = tokens(5, 300).collect();
    let other = request(2, shared.iter().copied().chain(tokens(6, 20)), 10);
    let mut process = TestProcess::with(subject, &subject.tiny, &parking()).await;
    let expected = process.text(&other).await;
    process.trim(Trim::Everything).await;
    let endless = request(1, shared.iter().copied(), 4).endless();
    let running = process.start_job(&endless);
    process
        .until(|event| matches!(event, TokenEvent::Text { .. }))
        .await;
    let job = process.queue_beside(&other);
    let mut cached = None;
    let mut text = String::new();
    loop {
        match process.report().await {
            Report::JobEnded { job: ended, result } => {
                assert_eq!(ended, job);
                result.unwrap();
                break;
            }
            Report::Event { job: of, event } if of == job => match event {
                TokenEvent::Started { cached_tokens, .. } => cached = Some(cached_tokens),
                TokenEvent::Text { text: piece, .. } => text.push_str(&piece),
                _ => {}
            },
            Report::Event { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(
        cached.is_some_and(|cached| cached + subject.reuse_slack >= shared.len()),
        "{cached:?} of {}",
        shared.len()
    );
    assert_eq!(text, expected);
    process.stop(Some(running), FinishReason::Canceled);
    process.response().await;
    process.shut_down().await;
}

/// Only the conversations stay, within their limit.
pub(crate) async fn the_memory_of_a_further_response_is_free_after_it(subject: &Subject) {
    let mut process = TestProcess::with(subject, &subject.tiny, &limits(4096)).await;
    let one = request(1, tokens(1, 300), 20);
    let alone = process.generate(&one).await.summary().memory;
    process.trim(Trim::Everything).await;
    let requests = [1, 2, 3].map(|number| request(number, tokens(number as u32, 300), 20));
    let responses = together(&mut process, &requests).await;
    let most = responses
        .iter()
        .map(|one| one.summary().memory.kv_cache_bytes);
    assert!(
        most.max().unwrap() > alone.kv_cache_bytes,
        "no cache of its own"
    );
    let (_, after) = process.trim(Trim::KeepConversation).await;
    assert!(after.kv_cache_bytes <= alone.kv_cache_bytes, "{after:?}");
    assert_eq!(after.parked_bytes, 0);
    process.shut_down().await;
}
