//! Opening settings, and keeping them.

use serde_json::json;
use transom_window_tests::{Failure, check, run_test, until};

#[tokio::test]
async fn settings_survive_a_restart() {
    run_test("settings_survive", async |setup| {
        let chat = setup.open().await?;
        setup.desktop.follow("transom://settings").await?;
        let settings = setup.window("settings").await?;
        settings.click("tab", "^General").await?;
        settings.click("radio", "^Dark").await?;
        for page in [&settings, &chat] {
            until("the pages are dark", async || {
                let scheme = page
                    .run(
                        "return getComputedStyle(document.documentElement).colorScheme;",
                        vec![],
                    )
                    .await?;
                let seen = Failure::Wrong(scheme.to_string());
                (scheme == "dark").then_some(Some(())).ok_or(seen)
            })
            .await?;
        }
        let chat = setup.restart().await?;
        until("it is dark after a restart", async || {
            let scheme = chat
                .run(
                    "return getComputedStyle(document.documentElement).colorScheme;",
                    vec![],
                )
                .await?;
            Ok((scheme == json!("dark")).then_some(()))
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn a_deep_link_opens_the_settings() {
    run_test("a_deep_link", async |setup| {
        setup.open().await?;
        setup.desktop.follow("transom://settings").await?;
        let settings = setup.window("settings").await?;
        settings.by("tab", "^Performance").await?;
        until("the settings have the keyboard", async || {
            Ok(settings.has_keyboard().await?.then_some(()))
        })
        .await?;
        // A build without a server for updates says so, and offers no check.
        setup.desktop.follow("transom://settings/about").await?;
        settings.until_says("update itself").await?;
        let button = settings.find("button", "^Check Now$").await?;
        check(button.is_none(), || "a check is offered".to_owned())
    })
    .await;
}
