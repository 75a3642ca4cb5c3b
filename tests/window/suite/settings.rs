//! Settings: how one comes there, and that they are kept.

use serde_json::json;
use transom_window_tests::{Failure, on_stage, until};

#[tokio::test]
async fn settings_survive_a_restart() {
    on_stage("settings_survive", async |stage| {
        let chat = stage.open().await?;
        stage.desktop.follow("transom://settings").await?;
        let settings = stage.window("settings").await?;
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
        let chat = stage.restart().await?;
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
    on_stage("a_deep_link", async |stage| {
        stage.open().await?;
        stage.desktop.follow("transom://settings").await?;
        let settings = stage.window("settings").await?;
        settings.by("tab", "^Performance").await?;
        until("the settings have the keyboard", async || {
            Ok(settings.has_keyboard().await?.then_some(()))
        })
        .await
    })
    .await;
}
