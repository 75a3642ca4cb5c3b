//! Embeddings in OpenAI's and Ollama's forms.

use serde_json::{Value, json};
use transom_supervisor::test_support::ScriptedWorkers;

use crate::server::{Answer, MODEL, TestServer, VECTORS, fast};

/// The scripted vector: 0.6 and 0.8 as little-endian floats.
const BASE64: &str = "mpkZP83MTD8=";

async fn server() -> TestServer {
    TestServer::start_with(ScriptedWorkers::all(fast()), true).await
}

async fn embed(server: &TestServer, fields: Value) -> Answer {
    let mut body = json!({ "model": VECTORS });
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    server.post("/v1/embeddings", &body).await
}

/// Returns the vector of an object, rounded.
fn rounded(vector: &Value) -> Vec<f64> {
    let values = vector.as_array().unwrap().iter();
    let rounded = |value: &Value| (value.as_f64().unwrap() * 1e6).round() / 1e6;
    values.map(rounded).collect()
}

#[tokio::test]
async fn texts_and_token_ids_become_vectors_in_order() {
    let server = server().await;
    // A scripted token is a byte, so the usage shows what was read: with the prefix of documents.
    for (input, n_vectors, n_tokens) in [
        (json!("abc"), 1, 9),
        (json!(["abc", "de"]), 2, 17),
        (json!([7, 8, 9]), 1, 3),
        (json!([[7], [8, 9]]), 2, 3),
        (json!(["text: abc", "find: d"]), 2, 16),
        (json!(vec!["a"; 256]), 256, 256 * 7),
    ] {
        let answer = embed(&server, json!({ "input": input })).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let answer = answer.json();
        assert_eq!(answer["object"], "list");
        assert!(answer["model"].as_str().unwrap().starts_with(VECTORS));
        let data = answer["data"].as_array().unwrap();
        assert_eq!(data.len(), n_vectors);
        for (index, object) in data.iter().enumerate() {
            assert_eq!(object["index"], index);
            assert_eq!(object["object"], "embedding");
            assert_eq!(rounded(&object["embedding"]), [0.6, 0.8]);
        }
        let usage = json!({ "prompt_tokens": n_tokens, "total_tokens": n_tokens });
        assert_eq!(answer["usage"], usage, "{input}");
    }
    for (side, n_tokens) in [("query", 9), ("document", 9), ("none", 3)] {
        let answer = embed(&server, json!({ "input": "abc", "input_type": side })).await;
        assert_eq!(answer.json()["usage"]["total_tokens"], n_tokens);
    }
    server.end().await;
}

#[tokio::test]
async fn vectors_have_the_wanted_form_and_number_of_dimensions() {
    let server = server().await;
    let first = |answer: Answer| answer.json()["data"][0]["embedding"].clone();
    let fields = json!({ "input": "a", "encoding_format": "base64" });
    assert_eq!(first(embed(&server, fields).await), BASE64);
    let fields = json!({ "input": "a", "encoding_format": "float", "dimensions": 1, "user": "me" });
    let answer = embed(&server, fields).await;
    assert!(!answer.headers.contains_key("x-transom-ignored"));
    assert_eq!(rounded(&first(answer)), [1.0]);
    server.end().await;
}

#[tokio::test]
async fn a_wrong_request_is_refused_by_name_before_a_model_is_loaded() {
    let server = server().await;
    for (fields, status, param) in [
        (json!({}), 400, "input"),
        (json!({ "input": "" }), 400, "input"),
        (json!({ "input": [] }), 400, "input"),
        (json!({ "input": vec!["a"; 257] }), 400, "input"),
        (json!({ "input": ["a", ""] }), 400, "input[1]"),
        (json!({ "input": ["a", 1] }), 400, "input[1]"),
        (json!({ "input": [[1, -1]] }), 400, "input[0][1]"),
        (
            json!({ "input": "a", "encoding_format": "hex" }),
            400,
            "encoding_format",
        ),
        (json!({ "input": "a", "dimensions": 0 }), 400, "dimensions"),
        (
            json!({ "input": "a", "dimensions": 257 }),
            400,
            "dimensions",
        ),
        (
            json!({ "input": "a", "input_type": "poem" }),
            400,
            "input_type",
        ),
        (
            json!({ "input": "a", "truncate_prompt_tokens": 5 }),
            400,
            "truncate_prompt_tokens",
        ),
        (json!({ "input": "a", "model": "none" }), 404, "model"),
        (json!({ "input": "a", "model": MODEL }), 400, "model"),
    ] {
        let answer = embed(&server, fields).await;
        assert_eq!(answer.status, status, "{}", answer.body);
        let error = answer.json()["error"].clone();
        assert_eq!(error["param"], param);
        assert!(
            error["message"].as_str().unwrap().contains(param) || status == 404 || param == "model"
        );
    }
    let answer = embed(&server, json!({ "input": "a", "model": MODEL })).await;
    assert!(answer.body.contains("use \\\"vectors"), "{}", answer.body);
    let answer = server.chat(json!({ "model": VECTORS })).await;
    assert_eq!(answer.json()["error"]["param"], "model");
    assert_eq!(server.workers.n_started(), 0);
    server.end().await;
}

#[tokio::test]
async fn programs_for_ollama_get_vectors_too() {
    let server = server().await;
    let post = async |path: &str, fields: Value| {
        let mut body = json!({ "model": VECTORS });
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        server.post(path, &body).await
    };
    let answer = post(
        "/api/embed",
        json!({ "input": ["a", "b"], "truncate": true }),
    )
    .await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let answer = answer.json();
    let vectors = answer["embeddings"].as_array().unwrap();
    assert_eq!(vectors.len(), 2);
    assert_eq!(rounded(&vectors[1]), [0.6, 0.8]);
    assert_eq!(answer["prompt_eval_count"], 14);
    let answer = post("/api/embed", json!({ "input": "" })).await.json();
    assert_eq!(answer["embeddings"], json!([]));
    let answer = post("/api/embed", json!({ "input": "a", "dimensions": 1 })).await;
    assert_eq!(rounded(&answer.json()["embeddings"][0]), [1.0]);
    let answer = post("/api/embeddings", json!({ "prompt": "a" }))
        .await
        .json();
    assert_eq!(rounded(&answer["embedding"]), [0.6, 0.8]);
    for (path, fields, words) in [
        ("/api/embed", json!({ "input": [1] }), "`input[0]`"),
        ("/api/embed", json!({ "input": ["a", ""] }), "`input[1]`"),
        ("/api/embeddings", json!({ "prompt": ["a"] }), "`prompt`"),
        (
            "/api/embed",
            json!({ "input": "a", "options": { "num_ctx": 1_000_000 } }),
            "`options.num_ctx`",
        ),
        (
            "/api/embed",
            json!({ "input": "a", "model": MODEL }),
            "no embedding vectors",
        ),
    ] {
        let answer = post(path, fields).await;
        assert_eq!(answer.status, 400);
        let text = answer.json()["error"].as_str().unwrap().to_owned();
        assert!(text.contains(words), "{text}");
    }
    let shown = server.post("/api/show", &json!({ "model": VECTORS })).await;
    assert_eq!(shown.json()["capabilities"], json!(["embedding"]));
    server.end().await;
}

/// Memory for both: a chat does not unload the embedding model, and the other way round.
#[tokio::test]
async fn an_embedding_model_stays_beside_a_chat_model() {
    let server = server().await;
    for _ in 0..3 {
        assert_eq!(server.chat(json!({})).await.status, 200);
        let answer = embed(&server, json!({ "input": "a" })).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    assert_eq!(
        (server.workers.n_started(), server.workers.n_alive()),
        (2, 2)
    );
    let list = server.get("/v1/models").await.json();
    let models = list["data"].as_array().unwrap();
    assert!(models.iter().all(|model| model["loaded"] == true), "{list}");
    let can = |name: &str, what: &str| {
        let mut models = models.iter();
        let model = models.find(|model| model["id"].as_str().unwrap().starts_with(name));
        model.unwrap()["capabilities"][what].clone()
    };
    assert_eq!(can(VECTORS, "embeddings"), true);
    assert_eq!(can(VECTORS, "completion"), false);
    assert_eq!(can(MODEL, "embeddings"), false);
    server.end().await;
}
