//! Models from a hub: fetched, used, failed, gone on with, and removed; and the user's own list.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use transom_window_tests::drag::Drag;
use transom_window_tests::hub::{self, FULL_NAME, Hub, NAME};
use transom_window_tests::models;
use transom_window_tests::{Failure, Outcome, Page, Stage, check, on_stage, until};

use crate::talk;

/// The models pane, with the row of the hub's model in sight.
async fn pane(stage: &Stage) -> Outcome<Page> {
    stage.desktop.follow("transom://settings").await?;
    let settings = stage.window("settings").await?;
    settings.click("tab", "^Models$").await?;
    let field = settings.by("searchbox|textbox", "^Search models$").await?;
    field.clear().await?;
    field.send_keys(NAME).await?;
    settings.by("button", "^More about Tiny$").await?;
    Ok(settings)
}

/// Begins to fetch the hub's model.
async fn get(stage: &Stage) -> Outcome<Page> {
    let settings = pane(stage).await?;
    settings.click("button", "^Download Tiny").await?;
    settings.until_says("Downloads").await?;
    Ok(settings)
}

/// How far a download is, in per cent.
async fn progress(settings: &Page) -> Outcome<u64> {
    let body = "return document.querySelector('[role=progressbar]')?.ariaValueNow \
                ?? document.querySelector('[role=progressbar]')?.getAttribute('aria-valuenow');";
    let now = settings.run(body, vec![]).await?;
    let now = now.as_str().and_then(|now| now.parse().ok());
    now.ok_or_else(|| Failure::Wrong("no progress is shown".into()))
}

/// Waits until a download is further than so many per cent.
async fn beyond(settings: &Page, least: u64) -> Outcome<u64> {
    until("the download goes on", async || {
        let now = progress(settings).await?;
        let seen = Failure::Wrong(format!("{now} %"));
        (now > least).then_some(Some(now)).ok_or(seen)
    })
    .await
}

#[tokio::test]
async fn a_model_is_fetched_used_and_removed_in_the_window() {
    on_stage("a_model_is_fetched", async |stage| {
        let _hub = Hub::start(&stage.desktop, &[])?;
        let chat = stage.open().await?;
        let settings = get(stage).await?;
        settings.by("button", "^Use Tiny").await?;
        let folder = hub::folder_of(&stage.desktop);
        check(folder.join("config.json").is_file(), || {
            format!("{} has no model", folder.display())
        })?;

        chat.until_says("Tiny · 4-bit is ready").await?;
        chat.click("button", "^Use Now$").await?;
        chat.by("button", "^Model: Tiny · 4-bit").await?;
        talk::ask_to_the_end(&chat, "What is the capital of France?").await?;
        chat.by("article", &format!("^Response from {FULL_NAME}"))
            .await?;

        settings.click("tab", "^Model settings$").await?;
        settings.until_says(r"0\.25 \(default\)").await?;
        settings.click("tab", "^Models$").await?;
        settings.click("button", "^Remove Tiny").await?;
        settings.until_says(r"frees \d+ MB").await?;
        settings.click("button", "^Remove$").await?;
        settings.until_says(r"freed \d+ MB").await?;
        check(!folder.exists(), || "the model's folder stayed".into())?;
        chat.by("button", "^Model: Starter").await?;
        talk::ask_to_the_end(&chat, "What is a haiku?")
            .await
            .map(drop)
    })
    .await;
}

#[tokio::test]
async fn a_download_that_failed_says_why_and_goes_on_when_told() {
    on_stage("a_download_that_failed", async |stage| {
        let _hub = Hub::start(&stage.desktop, &["resolve:status=403*1"])?;
        let chat = stage.open().await?;
        let settings = get(stage).await?;
        settings.until_says("denied access").await?;
        chat.until_says("Can.t download").await?;
        settings.click("button", "^Try Again$").await?;
        settings.by("button", "^Use Tiny").await?;
        Ok(())
    })
    .await;
}

/// Bytes that the journals below a folder say are there.
fn noted_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |path: PathBuf| -> u64 {
        if path.is_dir() {
            return noted_bytes(&path);
        }
        let is_journal = path.extension().is_some_and(|end| end == "journal");
        let text = fs::read(&path).ok().filter(|_| is_journal);
        let journal: Option<Value> = text.and_then(|text| serde_json::from_slice(&text).ok());
        let ranges: Option<Vec<(u64, u64)>> =
            journal.and_then(|mut journal| serde_json::from_value(journal["ranges"].take()).ok());
        let ranges = ranges.unwrap_or_default();
        ranges.iter().map(|(start, end)| end - start).sum()
    };
    entries.map(|entry| of(entry.path())).sum()
}

#[tokio::test]
async fn dismissing_a_failed_download_keeps_what_came_of_it() {
    on_stage("dismissing_a_download", async |stage| {
        let _hub = Hub::start(
            &stage.desktop,
            &["blob:drop=3000000*1", "blob:status=403*5"],
        )?;
        let chat = stage.open().await?;
        let settings = get(stage).await?;
        chat.until_says("Can.t download").await?;
        let parts = stage.desktop.data().join("models/.downloads");
        let before = noted_bytes(&parts);
        check(before > 0, || "nothing had come of it".into())?;
        chat.click("button", "^Dismiss$").await?;
        chat.until_gone("alert", "Can.t download").await?;
        settings.by("button", "^Try Again$").await?;
        let after = noted_bytes(&parts);
        check(after == before, || {
            format!("{before} bytes had come, and {after} are left")
        })?;
        settings.click("button", "^Try Again$").await?;
        settings.by("button", "^Use Tiny").await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_download_goes_on_from_where_it_was_after_the_app_was_killed() {
    on_stage("a_download_goes_on", async |stage| {
        let _hub = Hub::start(&stage.desktop, &["blob:slow=300000"])?;
        stage.open().await?;
        get(stage).await?;
        until("an eighth of it is surely on the disk", async || {
            let bytes = noted_bytes(&stage.desktop.data().join("models/.downloads"));
            let seen = Failure::Wrong(format!("{bytes} bytes"));
            (bytes > 2_500_000).then_some(Some(())).ok_or(seen)
        })
        .await?;
        stage.kill().await?;
        check(
            !hub::folder_of(&stage.desktop)
                .join("model.safetensors")
                .exists(),
            || "a part of a model lies in its place".into(),
        )?;

        stage.open().await?;
        let settings = pane(stage).await?;
        let first = until("the download is shown", async || {
            progress(&settings).await.map(Some)
        })
        .await?;
        check(first >= 10, || format!("it began anew: {first} %"))?;
        settings.by("button", "^Use Tiny").await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_list_that_changes_disturbs_neither_a_download_nor_an_answer() {
    on_stage("a_list_that_changes", async |stage| {
        let _hub = Hub::start(&stage.desktop, &["blob:slow=700000"])?;
        models::add(&stage.desktop)?;
        let chat = stage.open().await?;
        models::choose(&chat, models::TALKATIVE).await?;
        let settings = get(stage).await?;
        let before = beyond(&settings, 2).await?;
        talk::ask(&chat, "Tell me a story.").await?;
        let written = talk::until_written(&chat, 20).await?.len();

        let wrong = format!("{}\n[[model]]\nname = 7\n", hub::LIST);
        hub::write_list(&stage.desktop, &wrong)?;
        settings
            .until_says(r"models\.toml, line \d+, column \d+")
            .await?;
        settings.by("button", "^More about Tiny$").await?;
        let renamed = hub::LIST.replace("For tests only.", "Another description.");
        hub::write_list(&stage.desktop, &renamed)?;
        settings.until_says("Another description").await?;
        settings.until_gone("alert", "models").await?;

        talk::until_written(&chat, written + 40).await?;
        chat.by("button", "^Stop").await?;
        beyond(&settings, before).await?;
        chat.click("button", "^Stop").await?;
        settings.click("button", "^Cancel Tiny").await?;
        settings.by("button", "^Download Tiny").await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn the_welcome_proposes_a_model_for_this_machine() {
    on_stage("the_welcome_proposes", async |stage| {
        let _hub = Hub::start(&stage.desktop, &[])?;
        let chat = stage.open_as_new().await?;
        chat.until_says("Recommended: ").await?;
        chat.by("button", "^Download ").await?;
        chat.click("button", "^Get Started$").await?;
        talk::ask_to_the_end(&chat, "What is a haiku?")
            .await
            .map(drop)
    })
    .await;
}

#[tokio::test]
async fn a_model_in_the_folder_of_another_app_is_used_in_place() {
    on_stage("another_app_s_model", async |stage| {
        let theirs = stage
            .desktop
            .home()
            .join("user/.lmstudio/models/someone/theirs");
        let starter = transom_window_tests::programs::checkout().join("assets/starter");
        models::copy(&starter, &theirs).map_err(Failure::doing("fill LM Studio's folder"))?;
        stage.open().await?;
        stage.desktop.follow("transom://settings").await?;
        let settings = stage.window("settings").await?;
        settings.until_says("From LM Studio").await?;
        check(settings.find("button", "^Remove ").await?.is_none(), || {
            "it offers to remove what is another app's".into()
        })?;
        check(
            fs::exists(theirs.join("config.json")).unwrap_or(false),
            || "it was moved".into(),
        )
    })
    .await;
}

#[tokio::test]
async fn a_model_that_is_dropped_is_on_the_list_and_what_is_none_is_refused() {
    on_stage("a_model_is_dropped", async |stage| {
        let outside = stage.desktop.home().join("user/Dropped");
        let starter = transom_window_tests::programs::checkout().join("assets/starter");
        models::copy(&starter, &outside).map_err(Failure::doing("make a model"))?;
        let film = stage.desktop.home().join("user/Holiday.mov");
        fs::write(&film, "moving").map_err(Failure::doing("make a film"))?;
        stage.open().await?;
        stage.desktop.follow("transom://settings").await?;
        let settings = stage.window("settings").await?;
        settings.by("heading", "^Installed$").await?;
        until("the settings have the keyboard", async || {
            Ok(settings.has_keyboard().await?.then_some(()))
        })
        .await?;

        let drag = Drag::over(&stage.desktop, &film).await?;
        settings
            .until_says(r"Holiday\.mov can.t be used here")
            .await?;
        drag.drop().await?;
        settings
            .by("alert", r"Holiday\.mov can.t be used here")
            .await?;

        let drag = Drag::over(&stage.desktop, &outside).await?;
        settings.until_says("Drop to add Dropped").await?;
        drag.drop().await?;
        settings.until_says("Added Dropped").await?;
        settings
            .by("button", "^Remove Dropped from the list")
            .await?;
        check(outside.join("config.json").is_file(), || {
            "the model was moved".into()
        })
    })
    .await;
}

#[tokio::test]
async fn which_models_suit_which_mac_is_one_click_away() {
    on_stage("which_mac", async |stage| {
        stage.open().await?;
        stage.desktop.follow("transom://settings").await?;
        let settings = stage.window("settings").await?;
        settings.click("tab", "^Models$").await?;
        settings.click("button", "^Models by Memory Size").await?;
        settings.by("table", "^Models by memory size$").await?;
        let rows = settings.names("rowheader").await?;
        let own = rows.iter().filter(|row| row.contains("This computer"));
        check(own.count() == 1, || {
            format!("this computer is not one of {rows:?}")
        })?;
        for size in ["8 GB", "16 GB", "36 GB", "192 GB"] {
            let is_there = rows.iter().any(|row| row.starts_with(size));
            check(is_there, || format!("{size} is not among {rows:?}"))?;
        }
        stage.desktop.press("Escape")?;
        settings
            .until_gone("table", "^Models by memory size")
            .await?;
        let focused = settings.focused().await?;
        let is_back = focused.contains("Models by Memory Size");
        check(is_back, || format!("the keys are in {focused}"))
    })
    .await;
}
