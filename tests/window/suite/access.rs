//! Accessibility with axe and the keyboard, and no network requests.

use std::fs;

use serde_json::Value;
use transom_window_tests::page::keys;
use transom_window_tests::programs::checkout;
use transom_window_tests::{Failure, Outcome, Page, check, run_test, until};

use crate::actions;

/// Runs axe-core in the page, and fails with its violations.
async fn check_with_axe(page: &Page, view: &str) -> Outcome {
    let script = checkout().join("ui/node_modules/axe-core/axe.min.js");
    let script = fs::read_to_string(&script)
        .map_err(Failure::doing("read axe-core (`npm ci` in ui/ brings it)"))?;
    page.run(&script, vec![]).await?;
    let found = page
        .run_until_done(
            "axe.run(document).then((r) => done(r.violations.map((v) => `${v.id}: ${v.help}: ` + \
             v.nodes.map((n) => n.html.slice(0, 200)).join(' | '))), (e) => done([String(e)]));",
        )
        .await?;
    let found: Vec<String> =
        serde_json::from_value(found).map_err(Failure::doing("read what axe found"))?;
    check(found.is_empty(), || {
        format!("axe in {view}:\n{}", found.join("\n"))
    })
}

#[tokio::test]
async fn axe_finds_no_violation_in_any_view() {
    run_test("axe", async |setup| {
        let chat = setup.open_as_new().await?;
        chat.by("button", "^Try the Tiny Demo Model$").await?;
        check_with_axe(&chat, "the welcome").await?;
        chat.click("button", "^Try the Tiny Demo Model$").await?;
        chat.by("textbox", "^Message$").await?;
        check_with_axe(&chat, "the empty chat").await?;
        actions::ask_to_the_end(&chat, "What is a haiku?").await?;
        check_with_axe(&chat, "a chat").await?;
        chat.click("button", "^Model: ").await?;
        check_with_axe(&chat, "the menu of models").await?;
        chat.type_text(keys::ESCAPE).await?;
        actions::show_history(&chat).await?;
        check_with_axe(&chat, "the history").await?;

        setup.desktop.press("ctrl+space")?;
        let prompt = setup.window("prompt").await?;
        prompt.by("textbox", "").await?;
        check_with_axe(&prompt, "the quick prompt").await?;

        setup.desktop.follow("transom://settings").await?;
        let settings = setup.window("settings").await?;
        for pane in [
            "Models",
            "Model settings",
            "Performance",
            "General",
            "About",
        ] {
            let tab = format!("^{pane}$");
            settings.click("tab", &tab).await?;
            check_with_axe(&settings, &format!("settings, {pane}")).await?;
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn pages_cannot_send_network_requests() {
    run_test("no_network", async |setup| {
        let chat = setup.open().await?;
        let tried = chat
            .run_until_done(
                "const blocked = [];
                 document.addEventListener('securitypolicyviolation', (e) => \
                   blocked.push(e.effectiveDirective));
                 const image = new Image();
                 image.onload = () => blocked.push('an image came');
                 image.src = 'https://example.org/a.png';
                 const socket = (() => { try { new WebSocket('wss://example.org'); } catch {} })();
                 fetch('https://example.org/').then(() => 'it came', (e) => 'refused').then((f) => \
                   setTimeout(() => done([f, ...new Set(blocked)]), 100));",
            )
            .await?;
        let tried: Vec<String> =
            serde_json::from_value(tried).map_err(Failure::doing("read what was tried"))?;
        let mut expected = tried.clone();
        expected.sort();
        check(expected == ["connect-src", "img-src", "refused"], || {
            format!("the policy stopped only these: {tried:?}")
        })?;
        // The page itself requested only its own files.
        let asked = chat
            .run(
                "return performance.getEntriesByType('resource').map((e) => e.name);",
                vec![],
            )
            .await?;
        let asked: Vec<String> =
            serde_json::from_value(asked).map_err(Failure::doing("read what was asked for"))?;
        let own = [
            "tauri://localhost/",
            "ipc://localhost/",
            "http://ipc.localhost/",
        ];
        let others: Vec<&String> = asked
            .iter()
            .filter(|address| !own.iter().any(|own| address.starts_with(own)))
            .filter(|address| !address.contains("example.org"))
            .collect();
        check(others.is_empty(), || format!("it asked for {others:?}"))
    })
    .await;
}

/// Presses Tab until the focused element matches; fails after a full round.
async fn tab_to(page: &Page, wanted: &str) -> Outcome {
    for _ in 0..60 {
        let focused = page.focused().await?;
        let is_it = page
            .run(
                "return new RegExp(arguments[0]).test(arguments[1]);",
                vec![Value::from(wanted), Value::from(focused)],
            )
            .await?;
        if is_it == Value::Bool(true) {
            return Ok(());
        }
        page.type_text(keys::TAB).await?;
    }
    Err(Failure::Wrong(format!("Tab never came to {wanted}")))
}

#[tokio::test]
async fn the_main_flows_work_with_the_keyboard_alone() {
    run_test("keyboard", async |setup| {
        let chat = setup.open_as_new().await?;
        until("the welcome's button has the focus", async || {
            let focused = chat.focused().await?;
            (focused == "button: Try the Tiny Demo Model")
                .then_some(Some(()))
                .ok_or(Failure::Wrong(focused))
        })
        .await?;
        chat.type_text(keys::ENTER).await?;
        until("the composer has the focus", async || {
            let focused = chat.focused().await?;
            (focused == "textbox: Message")
                .then_some(Some(()))
                .ok_or(Failure::Wrong(focused))
        })
        .await?;
        chat.type_text("What is a haiku?").await?;
        chat.type_text(keys::ENTER).await?;
        actions::until_written(&chat, 1).await?;
        actions::until_ended(&chat).await?;

        tab_to(&chat, "^button: Regenerate").await?;
        chat.type_text(keys::ENTER).await?;
        chat.until_says("2 ?(/|of) ?2").await?;
        actions::until_ended(&chat).await?;
        tab_to(&chat, "^button: Previous version").await?;
        chat.type_text(keys::ENTER).await?;
        chat.until_says("1 ?(/|of) ?2").await?;

        tab_to(&chat, "^button: Model: ").await?;
        chat.type_text(keys::ENTER).await?;
        chat.by("menu|listbox", "").await?;
        chat.type_text(keys::ESCAPE).await?;
        until("the menu's button has the focus again", async || {
            let focused = chat.focused().await?;
            let is_back = focused.starts_with("button: Model: ");
            is_back.then_some(Some(())).ok_or(Failure::Wrong(focused))
        })
        .await
    })
    .await;
}
