//! Saves screenshots, texts and logs of a failed test.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::app::App;
use crate::desktop::Desktop;
use crate::failure::{Failure, Outcome};
use crate::programs;
use crate::{picture, screen};

/// Saves everything available under `target/window-tests/NAME`, and returns the folder's path.
pub async fn save(name: &str, desktop: &Desktop, app: Option<&App>, failure: &Failure) -> String {
    let Ok(target) = programs::target_folder() else {
        return "no folder: the target folder was not found".to_owned();
    };
    let folder = target.join("window-tests").join(name);
    let _ = fs::remove_dir_all(&folder);
    let _ = fs::create_dir_all(&folder);
    let _ = fs::write(folder.join("failure.txt"), failure.to_string());
    // Before reading the pages, because they may be the cause of the failure.
    let _ = save_screen(desktop, &folder.join("screen.png"));
    let _ = save_processes(desktop, &folder.join("processes.txt"));
    if let Some(app) = app {
        let timeout = Duration::from_secs(20);
        let _ = tokio::time::timeout(timeout, save_pages(app, &folder)).await;
    }
    for log in fs::read_dir(desktop.logs()).into_iter().flatten().flatten() {
        let _ = fs::copy(log.path(), folder.join(log.file_name()));
    }
    folder.display().to_string()
}

fn save_screen(desktop: &Desktop, path: &Path) -> Outcome {
    let screen = screen::capture(desktop)?;
    let png = picture::small_png(&screen)?;
    fs::write(path, png).map_err(Failure::doing("write the picture"))
}

fn save_processes(desktop: &Desktop, path: &Path) -> Outcome {
    let active = desktop.output("xdotool", &["getactivewindow", "getwindowname"]);
    let active = active.unwrap_or_default();
    let focused = desktop.output("xdotool", &["getwindowfocus", "getwindowname"]);
    let focused = focused.unwrap_or_default();
    let mut lines = vec![format!("active: {active}\nfocus: {focused}\n")];
    lines.extend(process_lines(desktop));
    fs::write(path, lines.concat()).map_err(Failure::doing("write the processes"))
}

fn process_lines(desktop: &Desktop) -> Vec<String> {
    let processes = desktop.processes();
    let processes = processes.iter();
    processes
        .map(|one| format!("{} {} {}\n", one.pid, one.parent, one.name))
        .collect()
}

async fn save_pages(app: &App, folder: &Path) -> Outcome {
    for page in app.windows().await? {
        let path = folder.join(page.name());
        if let Ok(text) = page.text().await {
            let _ = fs::write(path.with_extension("txt"), text);
        }
        let source = "return document.documentElement.outerHTML;";
        if let Ok(html) = page.run(source, vec![]).await {
            let html = html.as_str().unwrap_or_default().to_owned();
            let _ = fs::write(path.with_extension("html"), html);
        }
        if let Ok(png) = page.picture().await {
            let _ = fs::write(path.with_extension("png"), png);
        }
    }
    Ok(())
}
