//! Models from a hub: downloaded, used, failed, resumed and removed; and the user's catalog.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use transom_window_tests::drag::Drag;
use transom_window_tests::hub::{self, FULL_NAME, Hub, NAME};
use transom_window_tests::models;
use transom_window_tests::{Failure, Outcome, Page, TestSetup, check, run_test, until};

use crate::actions;

/// Opens the models pane and searches the hub's model.
async fn models_pane(setup: &TestSetup) -> Outcome<Page> {
    setup.desktop.follow("transom://settings").await?;
    let settings = setup.window("settings").await?;
    settings.click("tab", "^Models$").await?;
    let field = settings.by("searchbox|textbox", "^Search models$").await?;
    field.clear().await?;
    field.send_keys(NAME).await?;
    settings.by("button", "^More about Tiny$").await?;
    Ok(settings)
}

/// Starts to download the hub's model.
async fn start_download(setup: &TestSetup) -> Outcome<Page> {
    let settings = models_pane(setup).await?;
    settings.click("button", "^Download Tiny").await?;
    settings.until_says("Downloads").await?;
    Ok(settings)
}

/// Returns the progress of a download in percent.
async fn progress(settings: &Page) -> Outcome<u64> {
    let body = "return document.querySelector('[role=progressbar]')?.ariaValueNow \
                ?? document.querySelector('[role=progressbar]')?.getAttribute('aria-valuenow');";
    let now = settings.run(body, vec![]).await?;
    let now = now.as_str().and_then(|now| now.parse().ok());
    now.ok_or_else(|| Failure::Wrong("no progress is shown".into()))
}

/// Waits until a download has more than this percentage.
async fn until_progress_above(settings: &Page, least: u64) -> Outcome<u64> {
    until("the download goes on", async || {
        let now = progress(settings).await?;
        let seen = Failure::Wrong(format!("{now} %"));
        (now > least).then_some(Some(now)).ok_or(seen)
    })
    .await
}

#[tokio::test]
async fn a_model_is_downloaded_used_and_removed() {
    run_test("a_model_is_fetched", async |setup| {
        let _hub = Hub::start(&setup.desktop, &[])?;
        let chat = setup.open().await?;
        let settings = start_download(setup).await?;
        settings.by("button", "^Use Tiny").await?;
        let folder = hub::folder_of(&setup.desktop);
        check(folder.join("config.json").is_file(), || {
            format!("{} has no model", folder.display())
        })?;

        chat.until_says("Tiny · 4-bit is ready").await?;
        chat.click("button", "^Use Now$").await?;
        chat.by("button", "^Model: Tiny · 4-bit").await?;
        actions::ask_to_the_end(&chat, "What is the capital of France?").await?;
        chat.by("article", &format!("^Response from {FULL_NAME}"))
            .await?;

        settings.click("tab", "^Model settings$").await?;
        settings.css("[placeholder='0.25 (default)']").await?;
        settings.click("tab", "^Models$").await?;
        settings.click("button", "^Remove Tiny").await?;
        settings.until_says(r"frees \d+ MB").await?;
        settings.click("button", "^Remove$").await?;
        settings.until_says(r"freed \d+ MB").await?;
        check(!folder.exists(), || "the model's folder stayed".into())?;
        chat.by("button", "^Model: Starter").await?;
        actions::ask_to_the_end(&chat, "What is a haiku?")
            .await
            .map(drop)
    })
    .await;
}

#[tokio::test]
async fn a_failed_download_shows_the_reason_and_can_be_retried() {
    run_test("a_download_that_failed", async |setup| {
        let _hub = Hub::start(&setup.desktop, &["resolve:status=403*1"])?;
        let chat = setup.open().await?;
        let settings = start_download(setup).await?;
        settings.until_says("denied access").await?;
        chat.until_says("Can.t download").await?;
        settings.click("button", "^Try Again$").await?;
        settings.by("button", "^Use Tiny").await?;
        Ok(())
    })
    .await;
}

/// Returns the bytes that the journals below a folder have recorded.
fn recorded_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes_of = |path: PathBuf| -> u64 {
        if path.is_dir() {
            return recorded_bytes(&path);
        }
        let is_journal = path.extension().is_some_and(|end| end == "journal");
        let text = fs::read(&path).ok().filter(|_| is_journal);
        let journal: Option<Value> = text.and_then(|text| serde_json::from_slice(&text).ok());
        let ranges: Option<Vec<(u64, u64)>> =
            journal.and_then(|mut journal| serde_json::from_value(journal["ranges"].take()).ok());
        let ranges = ranges.unwrap_or_default();
        ranges.iter().map(|(start, end)| end - start).sum()
    };
    entries.map(|entry| bytes_of(entry.path())).sum()
}

#[tokio::test]
async fn dismissing_a_failed_download_keeps_its_data() {
    run_test("dismissing_a_download", async |setup| {
        let _hub = Hub::start(
            &setup.desktop,
            &["blob:drop=3000000*1", "blob:status=403*5"],
        )?;
        let chat = setup.open().await?;
        let settings = start_download(setup).await?;
        chat.until_says("Can.t download").await?;
        let parts = setup.desktop.data().join("models/.downloads");
        let before = recorded_bytes(&parts);
        check(before > 0, || "nothing had come of it".into())?;
        chat.click("button", "^Dismiss$").await?;
        chat.until_gone("alert", "Can.t download").await?;
        settings.by("button", "^Try Again$").await?;
        let after = recorded_bytes(&parts);
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
async fn a_download_resumes_after_the_app_was_killed() {
    run_test("a_download_goes_on", async |setup| {
        let _hub = Hub::start(&setup.desktop, &["blob:slow=300000"])?;
        setup.open().await?;
        start_download(setup).await?;
        until("an eighth of it is surely on the disk", async || {
            let bytes = recorded_bytes(&setup.desktop.data().join("models/.downloads"));
            let seen = Failure::Wrong(format!("{bytes} bytes"));
            (bytes > 2_500_000).then_some(Some(())).ok_or(seen)
        })
        .await?;
        setup.kill().await?;
        check(
            !hub::folder_of(&setup.desktop)
                .join("model.safetensors")
                .exists(),
            || "a part of a model lies in its place".into(),
        )?;

        setup.open().await?;
        let settings = models_pane(setup).await?;
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
async fn a_catalog_change_affects_neither_a_download_nor_a_response() {
    run_test("a_list_that_changes", async |setup| {
        let _hub = Hub::start(&setup.desktop, &["blob:slow=250000"])?;
        models::add(&setup.desktop)?;
        let chat = setup.open().await?;
        models::choose(&chat, models::TALKATIVE).await?;
        let settings = start_download(setup).await?;
        let before = until_progress_above(&settings, 2).await?;
        actions::ask(&chat, "Tell me a story.").await?;
        let written = actions::until_written(&chat, 20).await?.len();

        let wrong = format!("{}\n[[model]]\nname = 7\n", hub::CATALOG);
        hub::write_catalog(&setup.desktop, &wrong)?;
        settings
            .until_says(r"models\.toml, line \d+, column \d+")
            .await?;
        settings.by("button", "^More about Tiny$").await?;
        let renamed = hub::CATALOG.replace("For tests only.", "Another description.");
        hub::write_catalog(&setup.desktop, &renamed)?;
        settings.until_says("Another description").await?;
        settings.until_gone("alert", "models").await?;

        actions::until_written(&chat, written + 40).await?;
        chat.by("button", "^Stop").await?;
        until_progress_above(&settings, before).await?;
        chat.click("button", "^Stop").await?;
        settings.click("button", "^Cancel Tiny").await?;
        settings.by("button", "^Download Tiny").await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn the_welcome_recommends_a_model_for_this_machine() {
    run_test("the_welcome_proposes", async |setup| {
        let _hub = Hub::start(&setup.desktop, &[])?;
        let chat = setup.open_as_new().await?;
        chat.until_says("Recommended: ").await?;
        chat.by("button", "^Download ").await?;
        chat.click("button", "^Try the Tiny Demo Model$").await?;
        actions::ask_to_the_end(&chat, "What is a haiku?")
            .await
            .map(drop)
    })
    .await;
}

/// Puts a model into LM Studio's folder and returns the model's folder.
fn fill_lm_studio(setup: &TestSetup) -> Outcome<PathBuf> {
    let folder = "user/.lmstudio/models/someone/theirs";
    let theirs = setup.desktop.home().join(folder);
    let starter = transom_window_tests::programs::checkout().join("assets/starter");
    models::copy(&starter, &theirs).map_err(Failure::doing("fill LM Studio's folder"))?;
    Ok(theirs)
}

#[tokio::test]
async fn a_model_in_the_folder_of_another_app_is_used_in_place() {
    run_test("another_app_s_model", async |setup| {
        let theirs = fill_lm_studio(setup)?;
        setup.open().await?;
        setup.desktop.follow("transom://settings").await?;
        let settings = setup.window("settings").await?;
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
async fn the_welcome_offers_a_model_of_another_app_first() {
    run_test("the_welcome_offers", async |setup| {
        fill_lm_studio(setup)?;
        let chat = setup.open_as_new().await?;
        chat.until_says("From LM Studio").await?;
        chat.click("button", "^Use ").await?;
        chat.until_says("In use").await?;
        chat.click("button", "^Get Started$").await?;
        actions::ask_to_the_end(&chat, "What is a haiku?").await?;
        chat.by("article", "^Response from .*theirs").await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_dropped_model_is_added_and_other_files_are_refused() {
    run_test("a_model_is_dropped", async |setup| {
        let outside = setup.desktop.home().join("user/Dropped");
        let starter = transom_window_tests::programs::checkout().join("assets/starter");
        models::copy(&starter, &outside).map_err(Failure::doing("make a model"))?;
        let film = setup.desktop.home().join("user/Holiday.mov");
        fs::write(&film, "moving").map_err(Failure::doing("make a film"))?;
        setup.open().await?;
        setup.desktop.follow("transom://settings").await?;
        let settings = setup.window("settings").await?;
        settings.by("heading", "^Installed$").await?;
        until("the settings have the keyboard", async || {
            Ok(settings.has_keyboard().await?.then_some(()))
        })
        .await?;

        let drag = Drag::over(&setup.desktop, &film).await?;
        settings
            .until_says(r"Holiday\.mov can.t be used here")
            .await?;
        drag.drop().await?;
        settings
            .by("alert", r"Holiday\.mov can.t be used here")
            .await?;

        let drag = Drag::over(&setup.desktop, &outside).await?;
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
async fn the_table_of_models_by_memory_size_opens_with_one_click() {
    run_test("which_mac", async |setup| {
        setup.open().await?;
        setup.desktop.follow("transom://settings").await?;
        let settings = setup.window("settings").await?;
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
        setup.desktop.press("Escape")?;
        settings
            .until_gone("table", "^Models by memory size")
            .await?;
        let focused = settings.focused().await?;
        let is_back = focused.contains("Models by Memory Size");
        check(is_back, || format!("the keys are in {focused}"))
    })
    .await;
}
