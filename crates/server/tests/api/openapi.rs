//! The description of the API (docs/openapi.yaml, in the part of YAML that is JSON): the server knows
//! all of it, the description knows all routes, and requests that are made from it get no error of
//! the server.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use transom_engine::Route;
use transom_supervisor::test_support::ScriptedWorkers;

use crate::server::{Answer, TestServer, fast};

/// Requests with random fields that are made for each route.
const N_REQUESTS: usize = 25;

/// Random numbers of a fixed seed, by SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// A route with a body.
struct Operation {
    path: String,
    required: Vec<String>,
    fields: Map<String, Value>,
}

fn description() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.yaml");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns all routes with a body whose fields are described.
fn operations(description: &Value) -> Vec<Operation> {
    let paths = description["paths"].as_object().unwrap().iter();
    let operations = paths.filter_map(|(path, methods)| {
        let schema = &methods["post"]["requestBody"]["content"]["application/json"]["schema"];
        let names = schema["required"].as_array()?.iter();
        Some(Operation {
            path: path.clone(),
            required: names
                .map(|name| name.as_str().unwrap().to_owned())
                .collect(),
            fields: schema["properties"].as_object().unwrap().clone(),
        })
    });
    operations.collect()
}

/// Returns a right value of a field; `None` if it has one only beside others.
fn right(schema: &Value) -> Option<Value> {
    if let Some(example) = schema.get("example") {
        return (!example.is_null()).then(|| example.clone());
    }
    if let Some(choices) = schema["enum"].as_array() {
        return choices.first().cloned();
    }
    Some(match schema["type"].as_str() {
        Some("string") => json!("a"),
        Some("boolean") => json!(true),
        Some("number") => json!(schema["maximum"].as_f64().unwrap().min(0.5)),
        Some("integer") => json!(schema["minimum"].as_i64().unwrap().max(1)),
        Some("array") => json!([]),
        Some("object") | None => json!({}),
        Some(other) => panic!("unknown type {other}"),
    })
}

/// Returns wrong values of a field.
fn wrong(schema: &Value) -> Vec<Value> {
    if schema.get("x-unchecked").is_some() {
        return Vec::new();
    }
    // No field is this truth value and these empty names.
    let mut values = match schema["type"].as_str() {
        Some("boolean") => vec![json!("yes"), json!(7)],
        Some("object") => vec![json!(7), json!(["a"])],
        Some("array") => vec![json!(7), json!({})],
        Some("string") => vec![json!(7), json!({})],
        Some("number" | "integer") => vec![json!("many"), json!([1])],
        _ => vec![json!(true)],
    };
    for (bound, step) in [("minimum", -1.0), ("maximum", 1.0)] {
        if let Some(bound) = schema[bound].as_f64() {
            values.push(json!(bound + step));
        }
    }
    if schema.get("enum").is_some() {
        values.push(json!("nothing like that"));
    }
    values
}

impl Operation {
    /// Returns a request with the required fields only.
    fn least(&self) -> Map<String, Value> {
        let fields = self.required.iter();
        let field = |name: &String| (name.clone(), right(&self.fields[name]).unwrap());
        fields.map(field).collect()
    }
}

fn is_right(answer: &Answer) -> bool {
    assert!(
        answer.status < 500 || answer.status == 503 || answer.status == 529,
        "{}",
        answer.body
    );
    answer.status < 400
}

/// Returns true if the error names the field, by its path or in its sentence.
fn names(answer: &Answer, field: &str) -> bool {
    let error = answer.json()["error"].clone();
    let param = error["param"].as_str().unwrap_or_default();
    let is_path = param == field
        || param.starts_with(&format!("{field}."))
        || param.starts_with(&format!("{field}["));
    let text = error["message"].as_str().or(error.as_str());
    is_path || text.unwrap_or_default().contains(&format!("`{field}"))
}

async fn server() -> TestServer {
    TestServer::start_with(ScriptedWorkers::all(fast()), true).await
}

#[tokio::test]
async fn the_server_knows_every_described_field_and_names_wrong_ones() {
    let server = server().await;
    for operation in operations(&description()) {
        let path = &operation.path;
        let least = operation.least();
        for (name, schema) in &operation.fields {
            if let Some(value) = right(schema) {
                let mut body = least.clone();
                body.insert(name.clone(), value);
                let answer = server.post(path, &body.into()).await;
                assert!(is_right(&answer), "{path} {name}: {}", answer.body);
                let ignored = answer.headers.get("x-transom-ignored");
                // This model never reasons, which the header says.
                assert!(
                    name == "reasoning_effort"
                        || ignored
                            .is_none_or(|ignored| !ignored.split(", ").any(|one| one == name)),
                    "{path} {name}"
                );
            }
            for value in wrong(schema) {
                let mut body = least.clone();
                body.insert(name.clone(), value.clone());
                let answer = server.post(path, &body.into()).await;
                let is_refused = matches!(answer.status, 400 | 404);
                assert!(is_refused, "{path} {name} {value}: {}", answer.body);
                assert!(
                    answer.status == 404 || names(&answer, name),
                    "{path} {name} {value}: {}",
                    answer.body
                );
            }
        }
        for name in &operation.required {
            let mut body = least.clone();
            body.remove(name);
            let answer = server.post(path, &body.into()).await;
            assert_eq!(answer.status, 400, "{path} without {name}");
            assert!(names(&answer, name), "{path} {name}: {}", answer.body);
        }
        let mut body = least.clone();
        body.insert("temprature".to_owned(), json!(1));
        let answer = server.post(path, &body.into()).await;
        assert_eq!(
            answer.headers.get("x-transom-ignored").map(String::as_str),
            Some("temprature"),
            "{path}"
        );
    }
    server.end().await;
}

#[tokio::test]
async fn the_description_names_every_task_and_the_lists_of_models_name_none() {
    let server = server().await;
    let tasks: Vec<String> = Route::tasks()
        .map(|task| format!("transom/{}", task.name()))
        .collect();
    let mut n_described = 0;
    for operation in operations(&description()) {
        let text = operation.fields["model"]["description"].as_str();
        let Some((_, names)) = text.and_then(|text| text.split_once(": ")) else {
            continue;
        };
        n_described += 1;
        let path = &operation.path;
        assert_eq!(names.split(", ").collect::<Vec<_>>(), tasks, "{path}");
        let mut body = operation.least();
        body.insert("model".to_owned(), json!(tasks[0]));
        let answer = server.post(path, &body.into()).await;
        assert!(is_right(&answer), "{path}: {}", answer.body);
    }
    assert_eq!(n_described, 8);
    for path in ["/v1/models", "/api/tags"] {
        let listed = server.get(path).await;
        assert!(is_right(&listed) && listed.body.contains("tiny"), "{path}");
        assert!(!listed.body.contains("transom/"), "{path}: {}", listed.body);
    }
    server.end().await;
}

#[tokio::test]
async fn random_requests_get_no_error_of_the_server() {
    let server = server().await;
    let mut random = Random(20_261_126);
    for operation in operations(&description()) {
        let names: Vec<&String> = operation.fields.keys().collect();
        for _ in 0..N_REQUESTS {
            let mut body = operation.least();
            for _ in 0..random.below(6) {
                let name = names[random.below(names.len())];
                let schema = &operation.fields[name];
                let mut values = wrong(schema);
                values.extend(right(schema));
                values.push(Value::Null);
                let value = values.swap_remove(random.below(values.len()));
                body.insert(name.clone(), value);
            }
            let answer = server.post(&operation.path, &body.clone().into()).await;
            if !is_right(&answer) && answer.status != 404 {
                let is_named = body.keys().any(|name| self::names(&answer, name));
                let body = Value::from(body);
                assert!(is_named, "{} {body}: {}", operation.path, answer.body);
            }
        }
    }
    server.end().await;
}

#[tokio::test]
async fn every_route_is_described_and_every_described_route_exists() {
    let description = description();
    let described = description["paths"].as_object().unwrap();
    let server = server().await;
    for (path, methods) in described {
        let target = path.replace("{name}", "tiny").replace("{id}", "a");
        let target = target.replace("{digest}", "sha256:00");
        for method in ["get", "post", "delete"] {
            if methods.get(method).is_none() {
                continue;
            }
            let method = method.to_uppercase();
            let body = if method == "POST" { "{}" } else { "" };
            let answer = server.send(&method, &target, &[], body).await;
            let is_unknown = answer.body.contains("no such route") || answer.status == 405;
            assert!(!is_unknown, "{method} {path}");
        }
    }
    let mut routes = BTreeSet::new();
    add_routes(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut routes,
    );
    let described: BTreeSet<String> = described.keys().cloned().collect();
    assert_eq!(routes, described);
    server.end().await;
}

/// Adds the paths of all routes in the source files of a folder.
fn add_routes(folder: &Path, routes: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        if path.is_dir() {
            add_routes(&path, routes);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for after in text.split(".route(").skip(1) {
            // The routes that answer 501 are in a list.
            if let Some(route) = after.trim_start().strip_prefix('"') {
                routes.insert(route.split('"').next().unwrap().replace("{*", "{"));
            }
        }
        for line in text.lines() {
            let line = line.trim().trim_end_matches(',').trim_matches('"');
            if line.starts_with("/api/") && !line.contains(' ') {
                routes.insert(line.to_owned());
            }
        }
    }
}
