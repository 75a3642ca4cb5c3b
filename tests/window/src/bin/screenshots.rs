//! Writes screenshots of every state of the gallery, light and dark, and of the real app into
//! `docs/screenshots`, with a page that shows them all.
//!
//! `screenshots [WORD]`: only states whose name contains this word.

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::io::{Write, stderr};
    use std::path::{Path, PathBuf};
    use std::process::ExitCode;

    use transom_window_tests::gallery::{Gallery, Look};
    use transom_window_tests::picture::{Picture, small_png};
    use transom_window_tests::{Desktop, Failure, Outcome, check, programs};

    pub(super) fn main() -> ExitCode {
        let only = std::env::args().nth(1).unwrap_or_default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let outcome = runtime
            .map_err(Failure::doing("start"))
            .and_then(|runtime| runtime.block_on(all(&only)));
        match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                let _ = writeln!(stderr(), "{failure}");
                ExitCode::FAILURE
            }
        }
    }

    /// Returns the size of a screenshot of the chat, the prompt or the settings window.
    fn size(state: &str) -> (u32, u32) {
        match state.split('-').next() {
            Some("settings") => (780, 600),
            // The window grows with the zoom, up to the width of the screen.
            Some("prompt") if state.ends_with("-zoomed") => (1024, 560),
            Some("prompt") => (680, 420),
            _ if state.contains("wide") => (900, 680),
            // The browser window can't be narrower.
            _ => (460, 680),
        }
    }

    async fn all(only: &str) -> Outcome {
        let folder = programs::checkout().join("docs/screenshots");
        fs::create_dir_all(&folder).map_err(Failure::doing("make docs/screenshots"))?;
        let mut desktop = Desktop::start().await?;
        let gallery = Gallery::open(&mut desktop).await?;
        let mut states = gallery.states()?;
        check(!states.is_empty(), || "the gallery has no state".into())?;
        states.retain(|state| state.contains(only));
        let fonts = desktop.output("fc-list", &[":lang=ja", "family"])?;
        let is_readable =
            !fonts.trim().is_empty() || !states.iter().any(|state| state.contains("japanese"));
        check(is_readable, || {
            "no font has Japanese characters; install a package such as fonts-noto-cjk".into()
        })?;
        for state in &states {
            let _ = writeln!(stderr(), "  {state}");
            let (width, height) = size(state);
            gallery.resize(width, height).await?;
            for look in [Look::Light, Look::Dark] {
                gallery.show(state, look).await?;
                let name = format!("{state}-{}", look.name());
                let picture = Picture::from_png(&gallery.picture(&name).await?)?;
                save(&folder, &name, &picture)?;
            }
        }
        drop(gallery);
        if only.is_empty() {
            remove_others(&folder, &states)?;
            write_index(&folder, &states)?;
        }
        Ok(())
    }

    /// Maximum size of a screenshot in bytes.
    const MAX_BYTES: usize = 100_000;

    fn save(folder: &Path, name: &str, picture: &Picture) -> Outcome {
        let png = small_png(picture)?;
        check(png.len() <= MAX_BYTES, || {
            format!("the picture {name} has {} bytes", png.len())
        })?;
        let path = folder.join(name).with_extension("png");
        fs::write(path, png).map_err(Failure::doing("write a picture"))
    }

    /// Removes screenshots of states that no longer exist.
    fn remove_others(folder: &Path, states: &[String]) -> Outcome {
        let doing = "tidy docs/screenshots";
        let entries = fs::read_dir(folder).map_err(Failure::doing(doing))?;
        for entry in entries.flatten() {
            let path: PathBuf = entry.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let stem = stem.unwrap_or_default();
            let looks = [Look::Light, Look::Dark];
            let is_ours = stem.starts_with("app-")
                || states.iter().any(|state| {
                    looks
                        .iter()
                        .any(|look| stem == format!("{state}-{}", look.name()))
                });
            if path.extension().is_some_and(|extension| extension == "png") && !is_ours {
                fs::remove_file(&path).map_err(Failure::doing(doing))?;
            }
        }
        Ok(())
    }

    fn write_index(folder: &Path, states: &[String]) -> Outcome {
        let mut page = String::from(
            "# Screenshots of every state\n\n`cargo xtask screenshots` makes these pictures, light \
             and dark, from the gallery of states in `ui/`, with WebKitGTK on Linux. On a Mac the \
             app uses the system's own font and window frames.\n",
        );
        for state in states {
            page += &format!(
                "\n## {state}\n\n![{state}, light]({state}-light.png) ![{state}, \
                 dark]({state}-dark.png)\n"
            );
        }
        fs::write(folder.join("README.md"), page).map_err(Failure::doing("write the index"))
    }
}
