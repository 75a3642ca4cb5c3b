//! Interaction with the system: links, dialogs, autostart, the tray menu, and another Transom
//! program that runs the models.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use transom_window_tests::{
    Failure, Page, check, models, programs, run_test, run_test_with_tray, until,
};

use crate::actions;

#[tokio::test]
async fn a_link_fills_the_composer_and_sends_nothing() {
    run_test("a_link_composes", async |setup| {
        let chat = setup.open().await?;
        setup
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
        let questions = actions::questions(&chat).await?;
        check(questions.is_empty(), || format!("it asked {questions:?}"))
    })
    .await;
}

#[tokio::test]
async fn stored_data_is_private_and_in_the_data_folder() {
    run_test("kept_private", async |setup| {
        let chat = setup.open().await?;
        actions::ask_to_the_end(&chat, "Hello").await?;
        let data = setup.desktop.data();
        check(data.join("webview").is_dir(), || {
            "the web view keeps nothing in the data folder".to_owned()
        })?;
        let elsewhere = setup.desktop.home().join("user/share/app.transom");
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
async fn open_at_login_adds_and_removes_an_autostart_entry() {
    run_test("at_login", async |setup| {
        setup.open().await?;
        setup.desktop.follow("transom://settings").await?;
        let settings = setup.window("settings").await?;
        settings.click("tab", "^General").await?;
        let folder = setup.desktop.home().join("user/.config/autostart");
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
async fn the_tray_menu_pauses_and_resumes() {
    run_test_with_tray("the_tray_pauses", async |setup| {
        let chat = setup.open().await?;
        until("the icon is in the tray", async || {
            Ok(setup.desktop.tray_items()?.filter(|&n_items| n_items > 0))
        })
        .await?;
        for is_paused in [true, false] {
            setup.desktop.open_tray_menu().await?;
            // From the end of the menu: quit, settings, pause.
            for key in ["Up", "Up", "Up", "Return"] {
                setup.desktop.press(key)?;
            }
            // The menu took the focus, so the chat is hidden and gets no status until it is shown.
            setup.desktop.follow("transom://chat").await?;
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
async fn a_chat_is_exported_to_the_file_of_the_dialog() {
    run_test("a_chat_is_saved", async |setup| {
        let chat = setup.open().await?;
        actions::ask_to_the_end(&chat, "What is the capital of France?").await?;
        actions::open_menu(&chat, "France", "^Export as Markdown").await?;
        // Read before the click, because the dialog may have the focus when the click returns.
        let window = setup.desktop.active_window()?;
        chat.click("menuitem", "^Export as Markdown").await?;
        until("the dialog has the focus", async || {
            let now = setup.desktop.active_window()?;
            let seen = Failure::Wrong(format!("{now:?} is active, and was before"));
            let is_another = now != window && !now.is_empty();
            is_another.then_some(Some(())).ok_or(seen)
        })
        .await?;
        let file = setup.desktop.home().join("saved.md");
        let path = file.to_string_lossy();
        // The whole proposed name is selected; an absolute path replaces it.
        setup
            .desktop
            .output("xdotool", &["key", "ctrl+a", "type", &path])?;
        setup.desktop.press("Return")?;
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
async fn the_app_takes_over_when_the_supervisor_program_ends() {
    run_test("from_client_to_owner", async |setup| {
        models::add(&setup.desktop)?;
        let talkative = setup.desktop.data().join("models").join(models::TALKATIVE);
        let mut other = setup.desktop.command(programs::ours("transom")?);
        let mut other = other
            .args(["ask", "Tell me a story.", "--model"])
            .arg(talkative)
            .stdout(std::process::Stdio::null())
            .spawn()
            .map_err(Failure::doing("ask on the command line"))?;
        // Before the app starts, because the first of the two programs owns the supervisor.
        until("the other program has an engine", async || {
            let processes = setup.desktop.processes_named("transom");
            Ok((processes.len() > 1).then_some(()))
        })
        .await?;
        let chat: Page = setup.open().await?;
        let own = setup.app()?.engines(&setup.desktop);
        check(own.is_empty(), || {
            format!("the app has engines of its own: {own:?}")
        })?;
        other.kill().map_err(Failure::doing("end it"))?;
        other.wait().map_err(Failure::doing("wait for it"))?;
        actions::ask_to_the_end(&chat, "What is the capital of France?").await?;
        let own = setup.app()?.engines(&setup.desktop);
        check(own.len() == 1, || format!("the app answers with: {own:?}"))
    })
    .await;
}
