//! Puts a response into the program that the quick prompt was called from: at its cursor, or in
//! place of the selected text.
//!
//! The program and its selection are read at the press of the shortcut, before the prompt takes the
//! focus. A Mac sets the text through the Accessibility API if the program allows that. Otherwise,
//! and on X11, the program pastes it from the clipboard, whose earlier contents are restored. Either
//! can be undone there. Wayland offers none of this.
//!
//! Rule: the selected text stays in memory until the next press, and is neither stored nor logged.

mod contents;
#[cfg(target_os = "macos")]
mod mac;
#[cfg(any(test, not(target_os = "macos")))]
mod paste;
mod plan;
#[cfg(not(target_os = "macos"))]
mod x11;

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use tauri::{AppHandle, Manager};
use tokio::sync::watch;

#[cfg(target_os = "macos")]
use self::mac as platform;
#[cfg(not(target_os = "macos"))]
use self::x11 as platform;
use crate::clipboard::may_read_selection;
use crate::lock;
use crate::shell::Shell;
use crate::task::blocking;
use crate::wire::{AppEvent, CommandError, CommandResult, HotkeyView, TargetView, Window};

/// How long the quick prompt waits for the selection. A slower program is read while the prompt
/// appears.
const READ_TIMEOUT: Duration = Duration::from_millis(30);

/// The program that the quick prompt was called from.
#[derive(Debug, Default)]
pub(crate) struct Insertion {
    /// A new channel for each press, so that a slow program cannot replace a newer one.
    reading: Mutex<Option<watch::Receiver<Option<Target>>>>,
    /// Held while a text is pasted, because each paste restores the clipboard that it found.
    pasting: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone)]
struct Target {
    found: Found,
    view: TargetView,
}

/// What was read about a program.
#[derive(Debug, Clone)]
struct Found {
    /// Where its text goes; `None` without a program.
    field: Option<platform::Field>,
    /// The selected text, or why it can't be read.
    selection: Result<String, String>,
    has_selection: bool,
    is_password: bool,
}

/// Where a text is inserted.
#[derive(Debug)]
pub(crate) struct Destination {
    field: platform::Field,
    has_selection: bool,
}

impl Insertion {
    /// Waits until the program is read. `None` before the first press.
    async fn target(&self) -> Option<Target> {
        let mut reading = lock(&self.reading).clone()?;
        let target = reading.wait_for(Option::is_some).await;
        target.ok().and_then(|target| target.clone())
    }
}

/// Reads the program in front before the quick prompt takes the focus, and tells the prompt's page.
pub(crate) fn remember(app: &AppHandle) {
    let shell = app.state::<Shell>();
    // The focus is in one of our windows, or the program in front has it.
    let program = match shell.pages.focused() {
        Some((Window::Prompt, _)) => return,
        Some(_) => None,
        None => platform::program(),
    };
    let (target, reading) = watch::channel(None);
    *lock(&app.state::<Insertion>().reading) = Some(reading);
    let (done, is_done) = mpsc::channel();
    let app = app.clone();
    std::thread::spawn(move || {
        let shell = app.state::<Shell>();
        let read = read(&shell, program);
        let event = AppEvent::Target { target: read.view };
        // Fails if the shortcut was pressed again meanwhile.
        let is_current = target.send(Some(read)).is_ok();
        let _ = done.send(());
        if is_current {
            shell.pages.send(&app, Window::Prompt, event);
        }
    });
    let _ = is_done.recv_timeout(READ_TIMEOUT);
}

fn read(shell: &Shell, program: Option<platform::Program>) -> Target {
    let found = platform::read(program, &shell.clipboard);
    let problem = plan::problem(plan::Facts {
        is_wayland: matches!(shell.hotkey.view(), HotkeyView::Unavailable { .. }),
        is_allowed: may_read_selection(),
        has_program: found.field.is_some(),
        is_password: found.is_password,
    });
    let has_selection = found.has_selection;
    Target {
        found,
        view: TargetView {
            has_selection,
            problem,
        },
    }
}

/// Returns the text that was selected at the press of the shortcut; empty if none was. A Mac asks
/// the user for permission, once.
pub(crate) async fn selection(app: &AppHandle) -> Result<String, String> {
    let shell = app.state::<Shell>();
    shell.clipboard.ask_to_read_selection()?;
    match app.state::<Insertion>().target().await {
        Some(target) => target.found.selection,
        None => Ok(String::new()),
    }
}

/// Returns where a text is inserted: in the program that the quick prompt was called from.
///
/// # Errors
/// If the program does not take text.
pub(crate) async fn destination(app: &AppHandle) -> CommandResult<Destination> {
    let target = app.state::<Insertion>().target().await;
    let target = target.filter(|target| target.view.problem.is_none());
    let destination = target.and_then(|target| {
        Some(Destination {
            field: target.found.field?,
            has_selection: target.view.has_selection,
        })
    });
    let reason = "the quick prompt was not called from a program that takes text";
    destination.ok_or_else(|| CommandError::invalid("target", reason))
}

/// Puts `text` in place of the selected text, or after it. The quick prompt must be hidden, so that
/// the other program has the focus.
///
/// # Errors
/// If the program did not paste it.
pub(crate) async fn insert(
    app: &AppHandle,
    destination: Destination,
    text: String,
    replaces: bool,
) -> CommandResult<()> {
    let Destination {
        field,
        has_selection,
    } = destination;
    let (on, to, wanted) = (field.clone(), text.clone(), replaces);
    let set = move || Ok(platform::sets_text(&on, &to, wanted));
    if blocking(set).await? {
        return Ok(());
    }
    paste(app, &field, &text, plan::keys(replaces, has_selection)).await
}

/// Pastes a text, and restores the contents of the clipboard.
async fn paste(
    app: &AppHandle,
    field: &platform::Field,
    text: &str,
    keys: &'static [plan::Key],
) -> CommandResult<()> {
    let insertion = app.state::<Insertion>();
    let _one_at_a_time = insertion.pasting.lock().await;
    let shell = app.state::<Shell>();
    let before = contents::read(app).await;
    let pasted = platform::paste(&shell.clipboard, field, text, keys).await;
    let is_ours = pasted
        .as_ref()
        .map_or(true, |ending| ending.is_clipboard_ours);
    if is_ours && let Err(reason) = contents::restore(app, before) {
        tracing::warn!(reason, "the clipboard could not be restored");
    }
    match pasted.map_err(CommandError::other)?.is_pasted {
        true => Ok(()),
        false => Err(CommandError::other(
            "the other program did not paste the text",
        )),
    }
}
