//! What comes from outside the windows: links, the system's dialogs and start of session, the
//! tray's menu, and another program of ours that has the models.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use transom_window_tests::{
    Failure, Page, check, models, on_stage, on_stage_with_tray, programs, until,
};

use crate::talk;

#[tokio::test]
async fn a_link_fills_the_composer_and_sends_nothing() {
    on_stage("a_link_composes", async |stage| {
        let chat = stage.open().await?;
        stage
            .desktop
            .follow("transom://compose?text=Is%20it%20late%3F")
            .await?;
        until("the composer has the link's text", async || {
            let text = chat
                .run("return document.querySelector('textarea').value;", vec![])
                .await?;
            let seen = Failure::Wrong(text.to_string());
            (text == "Is it late?").then_some(Some(())).ok_or(seen)
        })
        .await?;
        let questions = talk::questions(&chat).await?;
        check(questions.is_empty(), || format!("it asked {questions:?}"))
    })
    .await;
}

#[tokio::test]
async fn what_is_kept_lies_in_the_data_folder_and_is_open_to_no_other_user() {
    on_stage("kept_private", async |stage| {
        let chat = stage.open().await?;
        talk::ask_to_the_end(&chat, "Hello").await?;
        let data = stage.desktop.data();
        check(data.join("webview").is_dir(), || {
            "the web view keeps nothing in the data folder".to_owned()
        })?;
        let elsewhere = stage.desktop.home().join("user/share/app.transom");
        check(!elsewhere.join("localstorage").exists(), || {
            format!("drafts lie in {}", elsewhere.display())
        })?;
        let mut open = Vec::new();
        open_to_others(&data, &mut open).map_err(Failure::doing("look at the data folder"))?;
        check(open.is_empty(), || format!("other users may use {open:?}"))
    })
    .await;
}

/// Adds everything at and below `path` that other users may read, write or enter.
fn open_to_others(path: &Path, open: &mut Vec<PathBuf>) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.permissions().mode() & 0o077 != 0 && !metadata.is_symlink() {
        open.push(path.to_owned());
    }
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            open_to_others(&entry?.path(), open)?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn opening_at_login_is_left_to_the_session_and_taken_back() {
    on_stage("at_login", async |stage| {
        stage.open().await?;
        stage.desktop.follow("transom://settings").await?;
        let settings = stage.window("settings").await?;
        settings.click("tab", "^General").await?;
        let folder = stage.desktop.home().join("user/.config/autostart");
        let n_entries = || fs::read_dir(&folder).map_or(0, Iterator::count);
        for wanted in [1, 0] {
            settings.click("switch|checkbox", "^Open at login").await?;
            until("the session knows", async || {
                let seen = Failure::Wrong(format!("{} entries", n_entries()));
                (n_entries() == wanted).then_some(Some(())).ok_or(seen)
            })
            .await?;
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn the_trays_menu_pauses_and_resumes() {
    on_stage_with_tray("the_tray_pauses", async |stage| {
        let chat = stage.open().await?;
        until("the icon is in the tray", async || {
            Ok(stage.desktop.tray_items()?.filter(|&n_items| n_items > 0))
        })
        .await?;
        for is_paused in [true, false] {
            stage.desktop.open_tray_menu().await?;
            // From the menu's end: quit, settings, pause.
            for key in ["Up", "Up", "Up", "Return"] {
                stage.desktop.press(key)?;
            }
            // The menu took the focus, so the chat is hidden, and hears nothing until it is back.
            stage.desktop.follow("transom://chat").await?;
            until("the chat says so", async || {
                let text = chat.text().await?;
                let seen = Failure::Wrong(text.clone());
                (text.contains("Paused") == is_paused)
                    .then_some(Some(()))
                    .ok_or(seen)
            })
            .await?;
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_chat_is_saved_where_the_systems_dialog_says() {
    on_stage("a_chat_is_saved", async |stage| {
        let chat = stage.open().await?;
        talk::ask_to_the_end(&chat, "What is the capital of France?").await?;
        // The list is read anew when an answer has ended, and a click may meet the row as it was.
        until("the chat's menu is open", async || {
            talk::show_history(&chat).await?;
            chat.click("button", "^Actions for .*France").await?;
            chat.find("menuitem", "^Export as Markdown").await
        })
        .await?;
        // Asked before the click: the dialog can have the focus by the time the click returns.
        let window = stage.desktop.active_window()?;
        chat.click("menuitem", "^Export as Markdown").await?;
        until("the dialog has the focus", async || {
            let now = stage.desktop.active_window()?;
            let seen = Failure::Wrong(format!("{now:?} is active, and was before"));
            let is_another = now != window && !now.is_empty();
            is_another.then_some(Some(())).ok_or(seen)
        })
        .await?;
        let file = stage.desktop.home().join("saved.md");
        let path = file.to_string_lossy();
        // All of the proposed name is selected; a path from the root takes its place.
        stage
            .desktop
            .output("xdotool", &["key", "ctrl+a", "type", &path])?;
        stage.desktop.press("Return")?;
        let saved = until("the file is written", async || {
            Ok(fs::read_to_string(&file)
                .ok()
                .filter(|text| !text.is_empty()))
        })
        .await?;
        check(saved.contains("What is the capital of France?"), || {
            format!("it holds: {saved}")
        })?;
        chat.until_says("Saved as ").await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn when_the_program_that_had_the_models_ends_the_app_has_them() {
    on_stage("from_guest_to_owner", async |stage| {
        models::add(&stage.desktop)?;
        let talkative = stage.desktop.data().join("models").join(models::TALKATIVE);
        let mut other = stage.desktop.command(programs::ours("transom")?);
        let mut other = other
            .args(["ask", "Tell me a story.", "--model"])
            .arg(talkative)
            .stdout(std::process::Stdio::null())
            .spawn()
            .map_err(Failure::doing("ask on the command line"))?;
        // Before the app is there, else whoever is first of the two has the models.
        until("the other program has an engine", async || {
            let processes = stage.desktop.processes_named("transom");
            Ok((processes.len() > 1).then_some(()))
        })
        .await?;
        let chat: Page = stage.open().await?;
        let own = stage.app()?.engines(&stage.desktop);
        check(own.is_empty(), || {
            format!("the app has engines of its own: {own:?}")
        })?;
        other.kill().map_err(Failure::doing("end it"))?;
        other.wait().map_err(Failure::doing("wait for it"))?;
        talk::ask_to_the_end(&chat, "What is the capital of France?").await?;
        let own = stage.app()?.engines(&stage.desktop);
        check(own.len() == 1, || format!("the app answers with: {own:?}"))
    })
    .await;
}
