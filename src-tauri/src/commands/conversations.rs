//! Conversations: listed, opened, named, deleted, and taken in and out as files.
//!
//! Rule: a conversation that is deleted is first stopped, so that its model is free at once, and last
//! the supervisor forgets all it holds of conversations, so that nothing of it is left anywhere. That
//! costs the others one prefill.

use tauri::{AppHandle, Manager, State, WebviewWindow};
use tauri_plugin_dialog::{DialogExt, FilePath};
use tokio::sync::oneshot;
use transom_chat::MessageView;
use transom_store::{ConversationId, FoundConversation, MessageId};

use super::{conversations_changed, other};
use crate::rooms;
use crate::shell::{Shell, blocking, guarded};
use crate::windows;
use crate::wire::{FileFormat, News, Opened, Refusal, Window};

type Done<T> = Result<T, Refusal>;

/// Most that a page may ask for at once.
const MAX_LISTED: u32 = 500;

/// Largest file that is taken in.
const MAX_IMPORT_BYTES: u64 = 1 << 30;

#[tauri::command]
pub(crate) async fn conversations(
    shell: State<'_, Shell>,
    search: String,
    offset: u32,
    limit: u32,
) -> Done<Vec<FoundConversation>> {
    let store = shell.rooms().await?.store.clone();
    blocking(move || Ok(store.search(&search, offset, limit.min(MAX_LISTED))?)).await
}

#[tauri::command]
pub(crate) async fn open_conversation(shell: State<'_, Shell>, id: ConversationId) -> Done<Opened> {
    let store = shell.rooms().await?.store.clone();
    blocking(move || {
        Ok(Opened {
            conversation: store.conversation(id)?,
            messages: store.path(id)?,
        })
    })
    .await
}

#[tauri::command]
pub(crate) async fn messages(
    shell: State<'_, Shell>,
    ids: Vec<MessageId>,
) -> Done<Vec<MessageView>> {
    let rooms = shell.rooms().await?;
    guarded(async move { Ok(rooms.turns.messages(&ids).await?) }).await
}

#[tauri::command]
pub(crate) async fn rename_conversation(
    app: AppHandle,
    shell: State<'_, Shell>,
    id: ConversationId,
    title: String,
) -> Done<()> {
    let store = shell.rooms().await?.store.clone();
    blocking(move || Ok(store.rename(id, title.trim())?)).await?;
    conversations_changed(&app);
    Ok(())
}

#[tauri::command]
pub(crate) async fn pin_conversation(
    app: AppHandle,
    shell: State<'_, Shell>,
    id: ConversationId,
    is_pinned: bool,
) -> Done<()> {
    let store = shell.rooms().await?.store.clone();
    blocking(move || Ok(store.pin(id, is_pinned)?)).await?;
    conversations_changed(&app);
    Ok(())
}

#[tauri::command]
pub(crate) async fn delete_conversation(
    app: AppHandle,
    shell: State<'_, Shell>,
    id: ConversationId,
) -> Done<()> {
    let rooms = shell.rooms().await?;
    if let Some(answer) = rooms.turns.running_in(id) {
        rooms.turns.stop(answer);
    }
    let store = rooms.store.clone();
    blocking(move || Ok(store.delete(id)?)).await?;
    rooms.handle().forget_conversations();
    conversations_changed(&app);
    Ok(())
}

#[tauri::command]
pub(crate) async fn clear_history(app: AppHandle, shell: State<'_, Shell>) -> Done<()> {
    let rooms = shell.rooms().await?;
    for answer in rooms.turns.running() {
        rooms.turns.stop(answer);
    }
    let store = rooms.store.clone();
    blocking(move || Ok(store.clear_history()?)).await?;
    rooms.handle().forget_conversations();
    app.state::<Shell>().tell(&News::HistoryCleared);
    conversations_changed(&app);
    Ok(())
}

#[tauri::command]
pub(crate) async fn show_branch(shell: State<'_, Shell>, message: MessageId) -> Done<()> {
    let store = shell.rooms().await?.store.clone();
    blocking(move || Ok(store.show_branch(message)?)).await
}

#[tauri::command]
pub(crate) async fn export_conversation(
    page: WebviewWindow,
    shell: State<'_, Shell>,
    id: Option<ConversationId>,
    format: FileFormat,
) -> Done<Option<String>> {
    let store = shell.rooms().await?.store.clone();
    let (name, text) = blocking(move || {
        let title = match id {
            Some(id) => store.conversation(id)?.title,
            None => "Transom".to_owned(),
        };
        let (text, end) = match (id, format) {
            (Some(id), FileFormat::Markdown) => (store.export_markdown(id)?, "md"),
            (id, _) => (store.export_json(id)?, "json"),
        };
        Ok((format!("{}.{end}", file_name(&title)), text))
    })
    .await?;
    let Some(path) = ask_where(&page, &name).await? else {
        return Ok(None);
    };
    blocking(move || {
        std::fs::write(&path, text).map_err(|error| Refusal::Storage {
            reason: format!("{}: {error}", path.display()),
        })?;
        Ok(Some(path.to_string_lossy().into_owned()))
    })
    .await
}

#[tauri::command]
pub(crate) async fn import_conversations(
    app: AppHandle,
    page: WebviewWindow,
    shell: State<'_, Shell>,
) -> Done<Option<u32>> {
    let held = hold(&page);
    let (reply, picked) = oneshot::channel();
    let dialog = page.dialog().file().set_parent(&page);
    let dialog = dialog.add_filter("JSON, Markdown", &["json", "md"]);
    dialog.pick_file(move |path| drop(reply.send(path)));
    let path = picked.await.ok().flatten();
    drop(held);
    let Some(path) = path else {
        return Ok(None);
    };
    let path = path.into_path().map_err(other)?;
    let store = shell.rooms().await?.store.clone();
    let n = blocking(move || {
        let unread = |error: std::io::Error| Refusal::Storage {
            reason: format!("{}: {error}", path.display()),
        };
        let bytes = std::fs::metadata(&path).map_err(unread)?.len();
        if bytes > MAX_IMPORT_BYTES {
            return Err(Refusal::Invalid {
                field: "file".to_owned(),
                reason: format!("{} is larger than 1 GB", path.display()),
            });
        }
        let text = std::fs::read_to_string(&path).map_err(unread)?;
        Ok(store.import(&text, rooms::now())?)
    })
    .await?;
    conversations_changed(&app);
    Ok(Some(u32::try_from(n).unwrap_or(u32::MAX)))
}

/// Asks where a file shall go; `None` if the person gave up.
pub(super) async fn ask_where(
    page: &WebviewWindow,
    name: &str,
) -> Done<Option<std::path::PathBuf>> {
    let held = hold(page);
    let (reply, chosen) = oneshot::channel();
    let dialog = page.dialog().file().set_parent(page).set_file_name(name);
    dialog.save_file(move |path| drop(reply.send(path)));
    let path = chosen.await.ok().flatten();
    drop(held);
    path.map(FilePath::into_path).transpose().map_err(other)
}

/// Keeps the calling window up while a dialog has the focus.
pub(super) fn hold(page: &WebviewWindow) -> Option<windows::Held> {
    let window = Window::of_label(page.label())?;
    Some(windows::hold(page.app_handle(), window))
}

/// A title as the name of a file: what no system refuses, and not longer than people read.
fn file_name(title: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_' | '.' | ',');
    let plain: String = title
        .chars()
        .map(|c| if is_plain(c) { c } else { ' ' })
        .take(60)
        .collect();
    let is_word = |word: &&str| word.chars().any(char::is_alphanumeric);
    let words: Vec<&str> = plain.split_whitespace().filter(is_word).collect();
    let name = words.join(" ");
    let name = name.trim_matches('.').trim();
    match name.is_empty() {
        true => "Conversation".to_owned(),
        false => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn a_title_becomes_a_file_name_that_every_system_takes() {
        assert_eq!(file_name("What is a haiku?"), "What is a haiku");
        assert_eq!(file_name("../../etc/passwd"), "etc passwd");
        assert_eq!(file_name("a/b\\c:d\n"), "a b c d");
        assert_eq!(file_name("俳句とは？"), "俳句とは");
        assert_eq!(file_name("???"), "Conversation");
        assert!(file_name(&"long ".repeat(100)).len() <= 60);
    }
}
