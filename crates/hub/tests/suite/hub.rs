//! Requests other than downloads: search, listings, tokens.
//!
//! Rule: each kind of refusal is tested as its own case.

use transom_hub::test_support::{Fault, Route};
use transom_hub::{Hub, HubOptions, ModelFormat, Token, TokenSource};

use crate::fixture::{Fixture, MODEL, REPOSITORY, noise};

#[tokio::test]
async fn a_search_filters_by_words_and_format() {
    let fixture = Fixture::with_model(2000);
    fixture
        .local
        .put("other/Model-GGUF", "m-Q4_K_M.gguf", noise(2000, 2));
    let hub = fixture.hub();
    let all = hub.search("MODEL", None).await.unwrap();
    assert_eq!(all.len(), 2);
    let found = all.iter().find(|it| it.repository == REPOSITORY).unwrap();
    assert_eq!(found.formats, [ModelFormat::Mlx]);
    assert_eq!(found.license.as_deref(), Some("apache-2.0"));
    let gguf = hub.search("model", Some(ModelFormat::Gguf)).await.unwrap();
    assert_eq!(gguf.len(), 1);
    assert_eq!(gguf[0].repository, "other/Model-GGUF");
    assert!(hub.search("nothing of it", None).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_listing_has_the_commit_and_both_kinds_of_checksums() {
    let fixture = Fixture::with_model(2000);
    let listing = fixture.hub().files(REPOSITORY, "main").await.unwrap();
    assert_eq!(listing.commit.len(), 40);
    let file = |name: &str| {
        let mut files = listing.files.iter();
        files.find(|file| file.name == name).unwrap().clone()
    };
    assert_eq!(file(MODEL).sha256.unwrap().len(), 64);
    assert_eq!(file(MODEL).size_bytes, Some(2000));
    let config = file("config.json").git_sha1.unwrap();
    assert_eq!(
        config, "9e26dfeeb6e641a33dae4961196235bdb965b21b",
        "as git has {{}}"
    );
    let variant = listing.default_variant().unwrap();
    assert_eq!(variant.size_bytes, Some(2002));
}

/// Returns how the client parses a listing response with this JSON.
async fn listed(json: String) -> Result<transom_hub::Listing, transom_hub::HubError> {
    let fixture = Fixture::with_model(2000);
    fixture.local.fail(Route::Listing, Fault::Json(json), 1);
    fixture.hub().files(REPOSITORY, "main").await
}

fn listing(files: &[String]) -> String {
    let files = files.join(",");
    format!(r#"{{"id": "{REPOSITORY}", "sha": "c", "siblings": [{files}]}}"#)
}

#[tokio::test]
async fn a_listing_with_invalid_sizes_names_or_counts_is_rejected() {
    let file = |name: &str, bytes: u64| format!(r#"{{"rfilename": "{name}", "size": {bytes}}}"#);
    let most = 1 << 50;
    let listing_of_most = listing(&vec![file("a.json", most); 5_000]);
    let found = listed(listing_of_most).await.unwrap();
    let total: u64 = found.files.iter().filter_map(|file| file.size_bytes).sum();
    assert_eq!(total, 5_000 * most, "sizes can be added");
    for (files, code, reason) in [
        (
            vec![file("a.json", most + 1)],
            "not_a_hub",
            "1125899906842625 bytes",
        ),
        (vec![file("a.json", u64::MAX)], "not_a_hub", "a.json has"),
        (
            vec![file("a.json", 1); 5_001],
            "not_a_hub",
            "it lists 5001 files",
        ),
        (vec![file("a\\u001b[2J.json", 1)], "bad_name", "\\u{1b}[2J"),
        (vec![file("a\u{202e}nosj.gguf", 1)], "bad_name", "\\u{202e}"),
    ] {
        let error = listed(listing(&files)).await.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[tokio::test]
async fn a_listing_has_the_requested_name() {
    for (id, expected) in [
        (REPOSITORY.to_uppercase(), REPOSITORY.to_uppercase()),
        ("mlx-community/another".to_owned(), REPOSITORY.to_owned()),
        ("../..".to_owned(), REPOSITORY.to_owned()),
    ] {
        let json = format!(r#"{{"id": "{id}", "sha": "c", "gated": [[], []], "siblings": []}}"#);
        let found = listed(json).await.unwrap();
        assert_eq!(found.repository, expected);
        assert!(found.is_gated);
    }
}

#[tokio::test]
async fn a_search_leaves_out_invalid_names() {
    let fixture = Fixture::with_model(2000);
    let names = ["a/b", "a/\\u001b[31mb", "a/b\\nc", "../x", "a/\u{202e}b"];
    let found: Vec<String> = names
        .iter()
        .map(|id| format!(r#"{{"id": "{id}"}}"#))
        .collect();
    let json = format!("[{}]", found.join(","));
    fixture.local.fail(Route::Search, Fault::Json(json), 1);
    let found = fixture.hub().search("b", None).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].repository, "a/b");
}

#[tokio::test]
async fn refusals_have_different_codes() {
    let fixture = Fixture::with_model(2000);
    let hub = fixture.hub();
    let mut codes = Vec::new();
    for (status, seconds) in [
        (401, None),
        (403, None),
        (404, None),
        (429, Some(7)),
        (503, None),
    ] {
        fixture
            .local
            .fail(Route::Listing, Fault::Status(status, seconds), 1);
        let error = hub.files(REPOSITORY, "main").await.unwrap_err();
        codes.push(error.code());
        if status == 429 {
            assert!(error.to_string().contains("7 seconds"), "{error}");
        }
    }
    assert_eq!(
        codes,
        [
            "token_needed",
            "forbidden",
            "repository_not_found",
            "too_many_requests",
            "server_trouble"
        ]
    );
    let error = hub.files(REPOSITORY, "v2").await.unwrap_err();
    assert_eq!(error.code(), "revision_not_found");
    let error = hub.files("owner/none", "main").await.unwrap_err();
    assert_eq!(
        error.code(),
        "token_needed",
        "without a token the hub does not say more"
    );
    assert_eq!(
        hub.files("../x", "main").await.unwrap_err().code(),
        "bad_name"
    );
}

#[tokio::test]
async fn a_wrong_token_is_an_error_and_no_token_is_printed() {
    let fixture = Fixture::with_model(2000);
    fixture.local.accept_token("hf_right");
    let with = |token: &str| {
        let token = Token::new(token.to_owned()).unwrap();
        let mut options = fixture.local.options();
        options.token = TokenSource::Given(token);
        Hub::new(options).unwrap()
    };
    let right = with("hf_right");
    right.files(REPOSITORY, "main").await.unwrap();
    assert!(right.has_token().await.unwrap());
    assert!(!format!("{right:?}").contains("hf_right"));
    let error = with("hf_wrong")
        .files(REPOSITORY, "main")
        .await
        .unwrap_err();
    assert_eq!(error.code(), "token_refused");
    let error = right.files("owner/none", "main").await.unwrap_err();
    assert_eq!(error.code(), "repository_not_found");
}

#[tokio::test]
async fn offline_sends_no_request() {
    let fixture = Fixture::with_model(2000);
    let mut options = fixture.local.options();
    options.is_offline = true;
    let hub = Hub::new(options).unwrap();
    let error = hub.search("model", None).await.unwrap_err();
    assert_eq!(error.code(), "offline");
    assert!(fixture.local.requests().is_empty());
}

#[tokio::test]
async fn an_invalid_endpoint_is_an_error() {
    let fixture = Fixture::with_model(2000);
    let mut options = fixture.local.options();
    options.endpoint = format!("{}/blobs", fixture.local.address());
    let error = Hub::new(options).unwrap().search("a", None).await;
    assert!(error.is_err());
    for endpoint in [
        "",
        "huggingface.co",
        "ftp://hub.example",
        "https://me:secret@hub.example",
    ] {
        let options = HubOptions {
            endpoint: endpoint.to_owned(),
            ..HubOptions::default()
        };
        assert_eq!(
            Hub::new(options).unwrap_err().code(),
            "bad_endpoint",
            "{endpoint}"
        );
    }
}

#[test]
fn the_error_for_an_endpoint_does_not_contain_its_password() {
    for endpoint in [
        "https://me:hf_secret@hub.example",
        "me:hf_secret@hub.example",
        "https://me:hf_secret@",
        "https://hub.example/?token=hf_secret",
        "ftp://hub.example/#hf_secret",
    ] {
        let options = HubOptions {
            endpoint: endpoint.to_owned(),
            ..HubOptions::default()
        };
        let error = Hub::new(options).unwrap_err();
        assert_eq!(error.code(), "bad_endpoint", "{endpoint}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
    }
}

/// Set in the child process, which is this test program again.
const THROUGH: &str = "TRANSOM_TEST_THROUGH_A_PROXY";

#[tokio::test]
async fn a_proxy_from_the_environment_is_used() {
    let address = "http://hub.invalid";
    if std::env::var_os(THROUGH).is_some() {
        let hub = Hub::new(HubOptions {
            endpoint: address.to_owned(),
            token: TokenSource::Nothing,
            ..HubOptions::default()
        });
        let found = hub.unwrap().search("model", None).await.unwrap();
        assert_eq!(found[0].repository, REPOSITORY);
        return;
    }
    let fixture = Fixture::with_model(2000);
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hub::a_proxy_from_the_environment_is_used"])
        .env(THROUGH, "1")
        .env("HTTP_PROXY", fixture.local.address())
        .env("http_proxy", fixture.local.address())
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{output}");
    assert_eq!(fixture.local.requests().len(), 1, "{output}");
}

/// Set in the child process, which is this test program again.
#[cfg(target_os = "linux")]
const WITHOUT_KEYCHAIN: &str = "TRANSOM_TEST_WITHOUT_A_KEYCHAIN";

#[cfg(target_os = "linux")]
#[tokio::test]
async fn without_a_keychain_requests_carry_no_token() {
    if let Ok(endpoint) = std::env::var(WITHOUT_KEYCHAIN) {
        let options = HubOptions {
            endpoint,
            uses_proxies: false,
            ..HubOptions::default()
        };
        let hub = Hub::new(options).unwrap();
        let error = hub.has_token().await.unwrap_err();
        assert_eq!(error.code(), "no_keychain", "{error}");
        let token = Token::new("hf_secret".to_owned()).unwrap();
        let error = hub.set_token(token).await.unwrap_err();
        assert!(error.to_string().contains("HF_TOKEN"), "{error}");
        assert_eq!(hub.search("model", None).await.unwrap().len(), 1);
        let error = hub.has_token().await.unwrap_err();
        assert_eq!(error.code(), "no_keychain", "the keychain is read again");
        return;
    }
    let fixture = Fixture::with_model(2000);
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hub::without_a_keychain_requests_carry_no_token"])
        .env(WITHOUT_KEYCHAIN, fixture.local.address())
        .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent/bus")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{output}");
    assert_eq!(fixture.local.requests().len(), 1, "{output}");
    assert!(!fixture.local.requests()[0].has_token);
}
