//! Tests of requests from the first event to the end.

use transom_engine::{Prompt, TokenInput};
use transom_engine_host::WorkerEnd;

use super::*;
use crate::request::{ClientId, ModelSelector, RequestError, Work};
use crate::status::{PhaseStatus, RequestState};
use crate::test_support::{Fault, VECTOR, embed_request, generate_request, request_for};

#[tokio::test(start_paused = true)]
async fn a_request_gets_its_events_in_order() {
    let test = test_supervisor();
    let mut response = test.handle.submit(generate_request("chat"));
    let mut seen = Vec::new();
    while let Some(event) = response.next().await {
        let name = match event {
            ResponseEvent::Queued { .. } => "queued",
            ResponseEvent::Loading { .. } => "loading",
            ResponseEvent::Token {
                event: TokenEvent::Started { .. },
            } => "started",
            ResponseEvent::Token {
                event: TokenEvent::Prefill { .. },
            } => "prefill",
            ResponseEvent::Token { .. } => "text",
            ResponseEvent::Embedded { .. } => "embedded",
            ResponseEvent::Ended { outcome } => {
                assert_eq!(reason(&outcome), FinishReason::Stop);
                "ended"
            }
        };
        if seen.last() != Some(&name) {
            seen.push(name);
        }
    }
    assert_eq!(seen, ["loading", "started", "prefill", "text", "ended"]);
    assert_eq!(test.workers.n_started(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_load_request_returns_the_model_info_after_the_status_is_published() {
    let test = test_supervisor();
    let mut response = test.handle.submit(request_for("chat", Work::Load));
    let (_, outcome) = finish(&mut response).await;
    let Outcome::Loaded { info } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(info.name, "chat");
    let status = test.handle.status().borrow().clone();
    assert_eq!(model(&status).phase, PhaseStatus::Ready);
    assert_eq!(model(&status).load_time, Some(Duration::from_millis(400)));
    assert_eq!(status.process_id, std::process::id());
}

#[tokio::test(start_paused = true)]
async fn tokens_are_counted_without_a_response() {
    let test = test_supervisor();
    let prompt = Box::new(Prompt::Text("Hello".to_owned()));
    let mut response = test
        .handle
        .submit(request_for("chat", Work::CountTokens(prompt)));
    let (text, outcome) = finish(&mut response).await;
    assert_eq!(text, "");
    let Outcome::Finished { reason, stats } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(reason, FinishReason::Stop);
    assert_eq!((stats.prompt_tokens, stats.generated_tokens), (5, 0));
}

#[tokio::test(start_paused = true)]
async fn a_text_becomes_tokens_and_tokens_become_text() {
    let test = test_supervisor();
    let text = TokenInput::Text {
        text: "Hi".to_owned(),
        add_special: false,
        parse_special: true,
    };
    for input in [text, TokenInput::Tokens(vec![72, 105])] {
        let request = request_for("chat", Work::Tokenize(Box::new(input)));
        let mut response = test.handle.submit(request);
        let mut found = Vec::new();
        let outcome = loop {
            match response.next().await {
                Some(ResponseEvent::Token {
                    event: TokenEvent::Pieces { pieces },
                }) => found.extend(pieces),
                Some(ResponseEvent::Ended { outcome }) => break outcome,
                Some(ResponseEvent::Queued { .. } | ResponseEvent::Loading { .. }) => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(reason(&outcome), FinishReason::Stop);
        let ids: Vec<u32> = found.iter().map(|piece| piece.id).collect();
        let bytes: Vec<u8> = found.into_iter().flat_map(|piece| piece.bytes).collect();
        assert_eq!((&*ids, &*bytes), (&[72, 105][..], &b"Hi"[..]));
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_a_response_cancels_it_and_the_next_one_starts() {
    let test = endless_supervisor();
    let mut first = test.handle.submit(generate_request("chat"));
    first_text(&mut first).await;
    let mut second = test.handle.submit(generate_request("chat"));
    assert_eq!(
        second.next().await,
        Some(ResponseEvent::Queued {
            position: 1,
            blocked_by: None
        })
    );
    drop(first);
    first_text(&mut second).await;
    second.cancel_handle().cancel();
    let (_, outcome) = finish(&mut second).await;
    assert_eq!(reason(&outcome), FinishReason::Canceled);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_handle_works_from_another_thread() {
    let test = endless_supervisor();
    let mut response = test.handle.submit(generate_request("chat"));
    first_text(&mut response).await;
    let cancel_handle = response.cancel_handle();
    std::thread::spawn(move || cancel_handle.cancel())
        .join()
        .unwrap();
    let (_, outcome) = finish(&mut response).await;
    assert_eq!(reason(&outcome), FinishReason::Canceled);
}

/// Reads the response to an embedding request; returns the tokens of each text and the outcome.
async fn read_vectors(response: &mut Response) -> (Vec<usize>, Outcome) {
    let mut tokens = Vec::new();
    while let Some(event) = response.next().await {
        match event {
            ResponseEvent::Embedded { n_tokens, vector } => {
                assert_eq!(vector, VECTOR);
                tokens.push(n_tokens);
            }
            ResponseEvent::Ended { outcome } => return (tokens, outcome),
            ResponseEvent::Queued { .. } | ResponseEvent::Loading { .. } => {}
            ResponseEvent::Token { .. } => panic!("{event:?}"),
        }
    }
    panic!("the response stopped without an end");
}

#[tokio::test(start_paused = true)]
async fn texts_are_embedded_by_a_model_beside_the_chat_model() {
    let test = test_supervisor();
    let mut chat = test.handle.submit(request_for("chat", Work::Load));
    finish(&mut chat).await;
    let request = embed_request("embedder", &["one", "three"]);
    let mut response = test.handle.submit(request);
    let (tokens, outcome) = read_vectors(&mut response).await;
    assert_eq!(tokens, [3, 5]);
    let Outcome::Finished { reason, stats } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!((reason, stats.prompt_tokens), (FinishReason::Stop, 8));
    let status = test.handle.current_status().await;
    let names: Vec<&str> = status.models.iter().map(|model| &*model.name).collect();
    assert_eq!(names, ["chat", "embedder"]);
}

#[tokio::test(start_paused = true)]
async fn a_canceled_embedding_keeps_its_first_vectors() {
    let test = test_supervisor();
    let texts = ["text"; 100];
    let mut response = test.handle.submit(embed_request("embedder", &texts));
    let cancel_handle = response.cancel_handle();
    while let Some(event) = response.next().await {
        if matches!(event, ResponseEvent::Embedded { .. }) {
            cancel_handle.cancel();
            break;
        }
    }
    let (more, outcome) = read_vectors(&mut response).await;
    assert!(more.len() < 50, "{} vectors after the cancel", more.len());
    assert_eq!(reason(&outcome), FinishReason::Canceled);
}

/// Requests wait in one queue, and know their position.
#[tokio::test(start_paused = true)]
async fn two_handles_share_one_queue_and_positions_count_down() {
    let test = endless_supervisor();
    let other = test.handle.clone();
    let mut first = test.handle.submit(generate_request("chat"));
    first_text(&mut first).await;
    let mut second = other.submit(generate_request("chat"));
    let mut third = test.handle.submit(generate_request("chat"));
    let queued = |position| {
        let blocked_by = None;
        Some(ResponseEvent::Queued {
            position,
            blocked_by,
        })
    };
    assert_eq!(second.next().await, queued(1));
    assert_eq!(third.next().await, queued(2));
    assert!(first.id() != second.id() && second.id() != third.id());
    first.cancel_handle().cancel();
    assert_eq!(third.next().await, queued(1));
    second.cancel_handle().cancel();
    first_text(&mut third).await;
    assert_eq!(test.workers.n_started(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_status_shows_who_asks_and_the_speed_of_the_running_response() {
    let test = endless_supervisor();
    let mut request = generate_request("chat");
    request.client = ClientId::new("api:zed");
    let mut response = test.handle.submit(request);
    first_text(&mut response).await;
    let has_speed = |status: &Status| {
        matches!(
            status.running.first().map(|request| &request.state),
            Some(RequestState::Generating {
                tokens_per_second: Some(_),
                ..
            })
        )
    };
    let status = status_where(&test.handle, has_speed).await;
    assert_eq!(status.running[0].client, ClientId::new("api:zed"));
    assert_eq!(status.running[0].request_id, response.id());
}

#[tokio::test(start_paused = true)]
async fn a_request_beyond_the_queue_limit_fails_at_once() {
    let test = endless_supervisor();
    let asked: Vec<Response> = (0..=Tuning::default().queue_limit)
        .map(|_| test.handle.submit(generate_request("chat")))
        .collect();
    let mut refused = test.handle.submit(generate_request("chat"));
    let (_, outcome) = finish(&mut refused).await;
    assert_eq!(
        outcome,
        Outcome::Failed {
            error: RequestError::Busy {
                waiting: Tuning::default().queue_limit,
                // 16 jobs, of which none was measured yet.
                retry_after: Duration::from_secs(60),
            }
        }
    );
    drop(asked);
}

#[tokio::test(start_paused = true)]
async fn a_crash_fails_one_response_and_the_next_request_gets_a_new_worker() {
    let workers = ScriptedWorkers::new(|number| WorkerScript {
        fault: if number == 0 {
            Fault::DiesAfter(2)
        } else {
            Fault::None
        },
        ..WorkerScript::default()
    });
    let test = start(workers, tuning());
    let mut response = test.handle.submit(generate_request("chat"));
    let mut waiting = test.handle.submit(generate_request("chat"));
    let (reply, outcome) = finish(&mut response).await;
    assert_eq!(reply, "Paris is");
    let Outcome::Failed {
        error: RequestError::WorkerGone { end, during },
    } = outcome
    else {
        panic!("{outcome:?}");
    };
    assert!(matches!(end, WorkerEnd::Died { .. }), "{end:?}");
    assert_eq!(during, "generating");
    let (reply, outcome) = finish(&mut waiting).await;
    assert_eq!(reply, "Paris is the capital.");
    assert_eq!(reason(&outcome), FinishReason::Stop);
    assert_eq!((test.workers.n_started(), test.workers.n_alive()), (2, 1));
    assert!(test.handle.status().borrow().last_error.is_some());
}

/// A busy model finishes and is then unloaded.
#[tokio::test(start_paused = true)]
async fn critical_pressure_while_generating_unloads_after_the_response() {
    let test = test_supervisor();
    let mut response = test.handle.submit(generate_request("chat"));
    first_text(&mut response).await;
    test.signals.set(critical());
    let (_, outcome) = finish(&mut response).await;
    assert_eq!(reason(&outcome), FinishReason::Stop);
    let status = status_where(&test.handle, |status| status.models.is_empty()).await;
    let unload = status.last_unload.as_ref().unwrap();
    assert_eq!(unload.held_bytes, Some(2_000_000_006));
    assert_eq!(unload.freed_bytes, unload.held_bytes);
    assert!(!unload.by_force);
    assert_eq!(status.signals, critical());
    assert_eq!(test.workers.n_alive(), 0);
}

/// Critical pressure limits the time of every response.
#[tokio::test(start_paused = true)]
async fn critical_pressure_stops_a_response_that_takes_too_long() {
    let test = endless_supervisor();
    let mut response = test.handle.submit(generate_request("chat"));
    first_text(&mut response).await;
    let began = tokio::time::Instant::now();
    test.signals.set(critical());
    let (_, outcome) = finish(&mut response).await;
    assert_eq!(reason(&outcome), FinishReason::Shed);
    let took = began.elapsed();
    let bound = Tuning::default().finish_timeout;
    assert!(
        took >= bound && took < bound + Duration::from_millis(100),
        "{took:?}"
    );
}

/// Only while there is work.
#[tokio::test(start_paused = true)]
async fn the_machine_is_kept_awake_only_during_work() {
    let test = test_supervisor();
    assert_eq!(test.n_keep_awake.load(Ordering::SeqCst), 0);
    let mut response = test.handle.submit(generate_request("chat"));
    first_text(&mut response).await;
    assert_eq!(test.n_keep_awake.load(Ordering::SeqCst), 1);
    assert!(test.handle.status().borrow().keeps_awake);
    finish(&mut response).await;
    advance_time(Duration::from_millis(1)).await;
    assert_eq!(test.n_keep_awake.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn quitting_ends_running_and_queued_requests() {
    let test = endless_supervisor();
    let mut running = test.handle.submit(generate_request("chat"));
    let mut waiting = test.handle.submit(generate_request("chat"));
    first_text(&mut running).await;
    test.supervisor.quit().await;
    assert_eq!(test.workers.n_alive(), 0);
    let (_, outcome) = finish(&mut running).await;
    assert_eq!(reason(&outcome), FinishReason::Canceled);
    let quitting = Outcome::Failed {
        error: RequestError::Quitting,
    };
    assert_eq!(finish(&mut waiting).await.1, quitting);
    let mut late = test.handle.submit(generate_request("chat"));
    assert_eq!(finish(&mut late).await.1, quitting);
    assert_eq!(
        test.handle.unload(ModelSelector::All).await,
        Err(RequestError::Quitting)
    );
    let mut status = test.handle.status();
    while status.changed().await.is_ok() {}
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_without_handles_quits_by_itself() {
    let test = test_supervisor();
    let mut response = test.handle.submit(generate_request("chat"));
    finish(&mut response).await;
    let mut status = test.handle.status();
    drop((test.supervisor, test.handle, response));
    while status.changed().await.is_ok() {}
    assert_eq!(test.workers.n_alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_shuts_down_ends_the_response() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let mut response = {
        let _inside = runtime.enter();
        endless_supervisor().handle.submit(generate_request("chat"))
    };
    runtime.shutdown_background();
    let (_, outcome) = finish(&mut response).await;
    let Outcome::Failed { error } = outcome else {
        panic!("{outcome:?}");
    };
    assert!(
        matches!(error, RequestError::InstanceGone { .. }),
        "{error:?}"
    );
}
