use super::*;
use transom_engine::{EngineError, MemoryNeed};
use transom_supervisor::{ClientId, LimitReason, PassedOver, RequestError};

fn too_long() -> ApiError {
    let source = EngineError::PromptTooLong {
        prompt_tokens: 9000,
        context_length: 8192,
    };
    RequestError::Engine { source }.into()
}

#[test]
fn each_protocol_has_its_form() {
    let error = ApiError::field("top_p", "top_p is 2, but must be at most 1");
    let openai = error.body(Protocol::OpenAi, "req_1");
    assert_eq!(openai["error"]["type"], "invalid_request_error");
    assert_eq!(openai["error"]["param"], "top_p");
    assert_eq!(openai["error"]["code"], Value::Null);
    let anthropic = error.body(Protocol::Anthropic, "req_1");
    assert_eq!(anthropic["type"], "error");
    assert_eq!(anthropic["request_id"], "req_1");
    let ollama = error.body(Protocol::Ollama, "req_1");
    assert_eq!(ollama, json!({ "error": error.message }));
}

#[test]
fn a_prompt_that_is_too_long_has_its_code_and_numbers() {
    let body = too_long().openai_body();
    assert_eq!(body["error"]["code"], "context_length_exceeded");
    assert_eq!(body["error"]["n_prompt_tokens"], 9000);
    assert_eq!(body["error"]["n_ctx"], 8192);
    assert_eq!(too_long().status, StatusCode::BAD_REQUEST);
}

#[test]
fn an_overloaded_server_says_when_to_retry() {
    let error: ApiError = RequestError::Blocked {
        reason: LimitReason::LowPower,
        retry_after: Duration::from_millis(30_500),
    }
    .into();
    for (protocol, status) in [(Protocol::OpenAi, 503), (Protocol::Anthropic, 529)] {
        let response = error.render(protocol, "req_1");
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(response.headers()[header::RETRY_AFTER], "31");
    }
    let hour = ApiError::overloaded("busy", Some(Duration::from_secs(3600)));
    assert_eq!(hour.retry_after_seconds(), Some(60));
}

#[test]
fn a_client_with_too_many_requests_is_told_so_and_a_full_queue_is_not_its_fault() {
    let retry_after = Duration::from_secs(7);
    let of_client: ApiError = RequestError::ClientBusy {
        client: ClientId::new("api:editor"),
        waiting: 8,
        retry_after,
    }
    .into();
    let of_all: ApiError = RequestError::Busy {
        waiting: 16,
        retry_after,
    }
    .into();
    for (error, protocol, status, kind) in [
        (&of_client, Protocol::OpenAi, 429, "rate_limit_error"),
        (&of_client, Protocol::Anthropic, 429, "rate_limit_error"),
        (&of_all, Protocol::OpenAi, 503, "overloaded_error"),
        (&of_all, Protocol::Anthropic, 529, "overloaded_error"),
    ] {
        let response = error.render(protocol, "req_1");
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(response.headers()[header::RETRY_AFTER], "7");
        assert_eq!(error.body(protocol, "req_1")["error"]["type"], kind);
    }
    assert_eq!(of_client.code, Some("rate_limit_exceeded"));
}

#[test]
fn waiting_is_not_advised_for_a_model_that_never_fits() {
    let of = |in_use_bytes| -> ApiError {
        RequestError::TooLarge {
            name: "Big".to_owned(),
            need: MemoryNeed::default(),
            budget_bytes: 1,
            in_use_bytes,
            context_that_fits: None,
        }
        .into()
    };
    assert_eq!((of(0).status.as_u16(), of(0).retry_after), (400, None));
    assert_eq!(of(7).status.as_u16(), 503);
    assert!(of(7).retry_after.is_some());
}

#[test]
fn messages_contain_no_path() {
    let source = EngineError::bad_file("/secret/model.gguf", "it is empty");
    let not_found = EngineError::not_found("/secret/model", "config.json", "look in /secret");
    let unsupported = EngineError::Unsupported {
        path: "/secret/model".into(),
        feature: transom_engine::UnsupportedFeature::Other,
        reason: "no".to_owned(),
    };
    let out_of_memory = EngineError::OutOfMemory {
        path: "/secret/model".into(),
        needed_bytes: 2,
        available_bytes: 1,
    };
    let mut errors: Vec<ApiError> = [source, not_found, unsupported, out_of_memory]
        .map(ApiError::from)
        .to_vec();
    errors.push(
        RequestError::NoVariantRuns {
            name: "Odd".to_owned(),
            variants: vec![PassedOver {
                path: "/secret/odd".into(),
                reason: "its architecture is unknown".to_owned(),
            }],
        }
        .into(),
    );
    errors.push(
        RequestError::InstanceGone {
            reason: "/secret/socket is gone".to_owned(),
        }
        .into(),
    );
    for error in errors {
        assert!(!error.message.contains("/secret"), "{}", error.message);
    }
}

#[test]
fn the_path_decides_the_protocol() {
    let mut headers = HeaderMap::new();
    for (path, protocol) in [
        ("/v1/chat/completions", Protocol::OpenAi),
        ("/v1/messages", Protocol::Anthropic),
        ("/v1/messages/count_tokens", Protocol::Anthropic),
        ("/v1/messagesx", Protocol::OpenAi),
        ("/api/chat", Protocol::Ollama),
        ("/v1/models", Protocol::OpenAi),
        ("/", Protocol::OpenAi),
    ] {
        assert_eq!(Protocol::of(path, &headers), protocol, "{path}");
    }
    headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    assert_eq!(Protocol::of("/v1/models", &headers), Protocol::Anthropic);
    let chat = Protocol::of("/v1/chat/completions", &headers);
    assert_eq!(chat, Protocol::OpenAi);
}

#[test]
fn a_parameter_of_the_engine_has_the_name_of_the_field() {
    let error: ApiError = EngineError::invalid_parameter("top-p", 2, "at most 1").into();
    assert_eq!(error.param.as_deref(), Some("top_p"));
    assert_eq!(error.message, "top_p is 2, but must be at most 1");
}
