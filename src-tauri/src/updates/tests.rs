//! Updates from a local server, with every fault on the way, through Tauri's own updater.

mod fixture;
mod server;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use minisign::KeyPair;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{CHECK_INTERVAL, Updates};
use crate::lock;
use crate::wire::{UpdateProblem, UpdateRefusal, UpdateStep, UpdatesView};
use fixture::{
    CURRENT, FILE, Fixture, MANIFEST, NEW, appimage, platform, shipped_configuration, sign,
};
use server::{Reply, Server};

fn offered(view: &UpdatesView) -> Option<&str> {
    view.offer.as_ref().map(|offer| &*offer.version)
}

#[test]
fn the_shipped_configuration_trusts_nothing_that_it_need_not() {
    let expected = json!({ "pubkey": "", "endpoints": [], "requireSignedVersion": true });
    assert_eq!(shipped_configuration(), expected);
}

#[tokio::test]
async fn a_newer_version_is_installed_after_a_click_for_each_step() {
    let fixture = Fixture::new();
    fixture.publish_new();
    let updates = fixture.updates();
    assert_eq!(updates.check(&fixture).await.as_deref(), Some(NEW));
    let view = updates.view();
    let offer = view.offer.unwrap();
    assert_eq!(offer.size_bytes, appimage().len() as u64);
    let notes: Vec<_> = offer.notes.iter().map(|note| &*note.text).collect();
    assert_eq!(notes, ["App", "A new thing."]);
    assert!(view.checked_at.is_some() && view.problem.is_none());
    // A check downloads nothing, and nothing is installed without a download.
    assert!(!updates.install(&fixture).await);
    assert_eq!(fixture.server.paths(), [MANIFEST]);
    updates.download(&fixture).await;
    assert_eq!(updates.view().step, UpdateStep::Ready);
    assert_eq!(fixture.installed(), b"old");
    assert!(fixture.done().is_empty(), "a download stops no engine");
    assert!(updates.install(&fixture).await);
    assert_eq!(fixture.installed(), appimage());
    // Requests stay away until the app starts again.
    assert_eq!(fixture.done(), ["idle", "pause", "unloaded", "leave"]);
    let steps = fixture.steps();
    assert_eq!(steps.first(), Some(&UpdateStep::Checking));
    assert_eq!(steps.last(), Some(&UpdateStep::Installing));
    assert!(steps.contains(&UpdateStep::Waiting));
    let progress = |step: &UpdateStep| matches!(step, UpdateStep::Downloading { done_bytes } if *done_bytes > 0);
    assert!(steps.iter().any(progress), "{steps:?}");
}

#[tokio::test]
async fn a_request_says_nothing_about_the_user_or_the_computer() {
    let fixture = Fixture::new();
    fixture.publish_new();
    fixture.downloaded().await;
    let requests = fixture.server.requests();
    assert_eq!(requests.len(), 2);
    for (request, path, accept) in [
        (&requests[0], MANIFEST, "application/json"),
        (&requests[1], FILE, "application/octet-stream"),
    ] {
        let mut lines: Vec<&str> = request.trim_end().split("\r\n").collect();
        lines[1..].sort_unstable();
        let host = fixture.server.url("").replace("https://", "host: ");
        let expected = [
            format!("GET {path} HTTP/1.1"),
            format!("accept: {accept}"),
            host,
            "user-agent: transom".to_owned(),
        ];
        assert_eq!(lines, expected);
    }
}

#[tokio::test]
async fn the_same_version_is_up_to_date_and_an_older_one_is_never_offered() {
    for (version, older) in [(CURRENT, None), ("0.9.0", Some("0.9.0"))] {
        let fixture = Fixture::new();
        let file = appimage();
        fixture.publish(version, &file, &fixture.signed(version, &file));
        let (updates, view) = fixture.downloaded().await;
        assert_eq!((offered(&view), view.older.as_deref()), (None, older));
        assert!(view.checked_at.is_some() && view.problem.is_none());
        assert!(!updates.install(&fixture).await);
        assert_eq!(fixture.server.paths(), [MANIFEST]);
        assert_eq!(fixture.installed(), b"old");
    }
}

#[tokio::test]
async fn a_file_that_is_not_signed_as_announced_is_refused() {
    let fixture = Fixture::new();
    let file = appimage();
    let right = fixture.signed(NEW, &file);
    let mut changed = file.clone();
    changed[40_000] ^= 1;
    let others = KeyPair::generate_unencrypted_keypair().unwrap();
    let by_others = sign(&others, &file, &format!("version:{NEW}"));
    let old = fixture.signed("0.9.0", &file);
    let unnamed = sign(&fixture.keys, &file, "timestamp:1\tfile:x");
    // Only the signature covers the version, so the announcement alone could be changed.
    let renamed = STANDARD.encode(
        String::from_utf8(STANDARD.decode(&old).unwrap())
            .unwrap()
            .replace("version:0.9.0", &format!("version:{NEW}")),
    );
    for (file, signature, problem) in [
        (&changed, &*right, UpdateProblem::BadSignature),
        (&file, &by_others, UpdateProblem::BadSignature),
        (&file, &renamed, UpdateProblem::BadSignature),
        (&file, "", UpdateProblem::BadSignature),
        (&file, "no base64", UpdateProblem::BadSignature),
        // A replayed old version, announced as new.
        (&file, &old, UpdateProblem::OtherVersion),
        (&file, &unnamed, UpdateProblem::OtherVersion),
    ] {
        fixture.publish(NEW, file, signature);
        let (updates, view) = fixture.downloaded().await;
        assert_eq!(view.problem, Some(problem), "{signature}");
        assert_eq!(view.step, UpdateStep::Idle);
        assert!(!updates.install(&fixture).await);
        assert_eq!(fixture.installed(), b"old");
    }
    assert!(fixture.done().is_empty(), "no engine was stopped");
}

/// `tests/signed.txt` is signed by `tauri signer sign --app-version 1.1.0`, which the release workflow
/// uses.
#[tokio::test]
async fn a_signature_of_the_tauri_command_line_is_accepted() {
    let fixture = Fixture::new();
    let file = include_bytes!("tests/signed.txt");
    fixture.publish(NEW, file, include_str!("tests/signed.txt.sig"));
    let mut updates = fixture.updates();
    updates.client.as_mut().unwrap().source.key =
        include_str!("tests/signed.pub").trim().to_owned();
    updates.check(&fixture).await;
    updates.download(&fixture).await;
    assert_eq!(updates.view().problem, None);
    assert_eq!(updates.view().step, UpdateStep::Ready);
}

#[tokio::test]
async fn a_download_that_breaks_off_can_be_tried_again() {
    let fixture = Fixture::new();
    fixture.publish_new();
    fixture.server.reply(FILE, Reply::Cut(appimage(), 20_000));
    let (updates, view) = fixture.downloaded().await;
    assert_eq!(view.problem, Some(UpdateProblem::Interrupted));
    assert!(!updates.install(&fixture).await);
    fixture.server.reply(FILE, Reply::Bytes(appimage()));
    updates.download(&fixture).await;
    assert_eq!(updates.view().problem, None);
    assert!(updates.install(&fixture).await);
    assert_eq!(fixture.installed(), appimage());
}

#[tokio::test]
async fn a_full_disk_is_noticed_before_the_download() {
    let mut fixture = Fixture::new();
    fixture.publish_new();
    fixture.free_bytes = Some(100_000_000);
    let (_, view) = fixture.downloaded().await;
    let problem = UpdateProblem::DiskFull {
        needed_bytes: appimage().len() as u64 * 5 + 200_000_000,
        free_bytes: 100_000_000,
    };
    assert_eq!(view.problem, Some(problem));
    assert_eq!(fixture.server.paths(), [MANIFEST]);
    fixture.free_bytes = None;
    let (_, view) = fixture.downloaded().await;
    assert_eq!(view.step, UpdateStep::Ready);
}

#[tokio::test]
async fn a_file_that_is_longer_than_announced_ends_the_download() {
    let fixture = Fixture::new();
    fixture.publish_new();
    fixture.announce(NEW, 10_000, &fixture.signed(NEW, &appimage()));
    let (_, view) = fixture.downloaded().await;
    assert_eq!(view.problem, Some(UpdateProblem::Malformed));
    assert_eq!(view.step, UpdateStep::Idle);
}

#[tokio::test]
async fn a_server_that_is_down_or_refuses_is_told_apart() {
    let fixture = Fixture::new();
    let down = Server::start();
    let url = down.url(MANIFEST);
    drop(down);
    let updates = fixture.updates_of(&url);
    assert_eq!(updates.check(&fixture).await, None);
    assert_eq!(updates.view().problem, Some(UpdateProblem::Unreachable));
    assert_eq!(updates.view().checked_at, None);
    for status in [404, 500] {
        fixture.server.reply(MANIFEST, Reply::Status(status));
        let (_, view) = fixture.downloaded().await;
        assert_eq!(view.problem, Some(UpdateProblem::Refused), "{status}");
    }
    fixture.publish_new();
    fixture.server.reply(FILE, Reply::Status(404));
    let (_, view) = fixture.downloaded().await;
    assert_eq!(view.problem, Some(UpdateProblem::Refused));
}

#[tokio::test]
async fn a_description_that_is_none_is_malformed() {
    let fixture = Fixture::new();
    let one_file = json!({ "url": "https://localhost/x", "signature": "x", "size": 1 });
    let with = |version: &str, platforms: Value| {
        json!({ "version": version, "platforms": platforms }).to_string()
    };
    let unsized_file = json!({ "url": "https://localhost/x", "signature": "x" });
    for (text, problem) in [
        ("<html>".to_owned(), UpdateProblem::Malformed),
        ("{}".to_owned(), UpdateProblem::Malformed),
        (with("new", json!({})), UpdateProblem::Malformed),
        (
            with(NEW, json!({ platform(): { "url": 1 } })),
            UpdateProblem::Malformed,
        ),
        (
            with(NEW, json!({ platform(): unsized_file })),
            UpdateProblem::Malformed,
        ),
        (
            with(NEW, json!({ "windows-x86_64": one_file })),
            UpdateProblem::NoFile,
        ),
    ] {
        fixture
            .server
            .reply(MANIFEST, Reply::Bytes(text.clone().into_bytes()));
        let (_, view) = fixture.downloaded().await;
        assert_eq!(view.problem, Some(problem), "{text}");
        assert_eq!(offered(&view), None);
    }
    let text = with(NEW, json!({ platform(): one_file })).into_bytes();
    fixture.server.reply(MANIFEST, Reply::Cut(text, 20));
    let (_, view) = fixture.downloaded().await;
    assert_eq!(view.problem, Some(UpdateProblem::Interrupted));
}

#[tokio::test]
async fn an_address_without_encryption_is_never_asked() {
    let fixture = Fixture::new();
    fixture.publish_new();
    let plain = Server::start_plain();
    for path in [MANIFEST, FILE] {
        plain.reply(path, Reply::Bytes(appimage()));
        fixture.publish_new();
        fixture.server.reply(path, Reply::Redirect(plain.url(path)));
        let (_, view) = fixture.downloaded().await;
        assert_eq!(view.problem, Some(UpdateProblem::Insecure), "{path}");
    }
    fixture.publish_new();
    let manifest = json!({ "version": NEW, "platforms": { platform(): {
        "url": plain.url(FILE), "signature": fixture.signed(NEW, &appimage()), "size": 50_004,
    } } });
    let manifest = Reply::Bytes(manifest.to_string().into_bytes());
    fixture.server.reply(MANIFEST, manifest);
    let (_, view) = fixture.downloaded().await;
    assert_eq!(view.problem, Some(UpdateProblem::Insecure));
    assert!(plain.requests().is_empty());
}

#[tokio::test]
async fn an_encrypted_redirect_is_followed() {
    let fixture = Fixture::new();
    fixture.publish_new();
    let mirror = Server::start();
    mirror.reply(FILE, Reply::Bytes(appimage()));
    fixture
        .server
        .reply(FILE, Reply::Redirect(mirror.url(FILE)));
    let (_, view) = fixture.downloaded().await;
    assert_eq!((view.problem, view.step), (None, UpdateStep::Ready));
    assert!(!mirror.requests()[0].contains("referer"));
    let around = fixture.server.url(FILE);
    fixture.server.reply(FILE, Reply::Redirect(around));
    let (_, view) = fixture.downloaded().await;
    assert_eq!(view.problem, Some(UpdateProblem::Refused));
}

#[tokio::test]
async fn a_canceled_download_leaves_nothing() {
    let fixture = Fixture::new();
    fixture.publish_new();
    fixture.server.reply(FILE, Reply::Silence);
    let updates = fixture.updates();
    updates.check(&fixture).await;
    let cancel = async {
        while !fixture.server.paths().contains(&FILE.to_owned()) {
            tokio::task::yield_now().await;
        }
        // A second step at the same time does nothing.
        updates.download(&fixture).await;
        assert_eq!(updates.check(&fixture).await, None);
        updates.cancel();
    };
    tokio::join!(updates.download(&fixture), cancel);
    let view = updates.view();
    assert_eq!((view.step, view.problem), (UpdateStep::Idle, None));
    assert_eq!(view.offer.unwrap().version, NEW);
    assert!(!updates.install(&fixture).await);
}

#[tokio::test]
async fn the_installation_waits_for_a_response_and_can_be_canceled() {
    let mut fixture = Fixture::new();
    fixture.response = Some(Notify::new());
    fixture.publish_new();
    let (updates, _) = fixture.downloaded().await;
    let cancel = async {
        while updates.view().step != UpdateStep::Waiting {
            tokio::task::yield_now().await;
        }
        updates.cancel();
    };
    let (is_installed, ()) = tokio::join!(updates.install(&fixture), cancel);
    assert!(!is_installed && fixture.done().is_empty());
    assert_eq!(fixture.installed(), b"old");
    assert_eq!(updates.view().step, UpdateStep::Ready);
    // The response is over, and another request comes before the engine ends: it is served first.
    *lock(&fixture.intruders) = 1;
    let response = fixture.response.as_ref().unwrap();
    let end = async {
        response.notify_one();
        while !fixture.done().contains(&"resume".to_owned()) {
            tokio::task::yield_now().await;
        }
        response.notify_one();
    };
    let (is_installed, ()) = tokio::join!(updates.install(&fixture), end);
    assert!(is_installed);
    let done = fixture.done();
    let expected = [
        "idle", "pause", "request", "resume", "idle", "pause", "unloaded", "leave",
    ];
    assert_eq!(done, expected);
    assert_eq!(fixture.installed(), appimage());
}

/// The supervisor of another program continues as the user left it.
#[tokio::test]
async fn an_update_does_not_resume_what_the_user_has_paused() {
    let mut fixture = Fixture::new();
    fixture.was_paused = true;
    fixture.publish_new();
    let (updates, _) = fixture.downloaded().await;
    assert!(updates.install(&fixture).await);
    assert_eq!(fixture.done(), ["idle", "unloaded", "leave paused"]);
}

#[tokio::test]
async fn a_failed_installation_leaves_the_old_app_and_resumes() {
    for was_paused in [false, true] {
        let mut fixture = Fixture::new();
        fixture.was_paused = was_paused;
        // Signed, but not an app.
        fixture.publish(NEW, b"text", &fixture.signed(NEW, b"text"));
        let (updates, view) = fixture.downloaded().await;
        assert_eq!(view.step, UpdateStep::Ready);
        assert!(!updates.install(&fixture).await);
        let view = updates.view();
        assert!(matches!(view.problem, Some(UpdateProblem::Failed { .. })));
        assert_eq!(view.step, UpdateStep::Ready);
        assert_eq!(fixture.installed(), b"old");
        assert_eq!(fixture.is_paused.load(Ordering::Relaxed), was_paused);
        let last = fixture.done().pop();
        let expected = if was_paused { "unloaded" } else { "resume" };
        assert_eq!(last.as_deref(), Some(expected));
    }
}

#[tokio::test]
async fn a_copy_that_does_not_update_itself_asks_nobody() {
    let fixture = Fixture::new();
    fixture.publish_new();
    let updates = Updates::new(Err(UpdateRefusal::Package));
    assert_eq!(updates.check(&fixture).await, None);
    updates.download(&fixture).await;
    assert!(!updates.install(&fixture).await);
    let view = updates.view();
    assert_eq!(view.refusal, Some(UpdateRefusal::Package));
    assert_eq!((&*view.host, view.step), ("", UpdateStep::Idle));
    assert!(fixture.server.requests().is_empty());
    assert!(lock(&fixture.views).is_empty());
}

#[tokio::test(start_paused = true)]
async fn checks_are_due_only_while_they_are_on_at_the_start_and_once_a_day() {
    let updates = Updates::new(Err(UpdateRefusal::NoServer));
    let (is_on, n_checks) = (AtomicBool::new(false), AtomicU32::new(0));
    let checks = async {
        let mut last = None;
        loop {
            last = Some(
                updates
                    .until_due(|| is_on.load(Ordering::Relaxed), last)
                    .await,
            );
            n_checks.fetch_add(1, Ordering::Relaxed);
        }
    };
    let after_half_days = async |n: u32| {
        for _ in 0..n {
            tokio::time::advance(CHECK_INTERVAL / 2 + Duration::from_secs(1)).await;
            tokio::task::yield_now().await;
        }
        n_checks.load(Ordering::Relaxed)
    };
    let user = async {
        assert_eq!(after_half_days(6).await, 0, "the user has not agreed");
        is_on.store(true, Ordering::Relaxed);
        updates.turned_on();
        assert_eq!(after_half_days(1).await, 1);
        assert_eq!(after_half_days(4).await, 3);
        is_on.store(false, Ordering::Relaxed);
        assert_eq!(after_half_days(6).await, 3, "the user turned it off");
    };
    tokio::select! {
        biased;
        () = checks => {}
        () = user => {}
    }
}
