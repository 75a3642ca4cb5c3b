//! Commands for conversations: list, open, rename, delete, export and import.
//!
//! Rule: before a conversation is deleted, its response is stopped, so that the model is free at
//! once. After the deletion (see [`deletion`]) the supervisor deletes all saved KV caches, so that no
//! text is left anywhere. Other conversations pay with one prefill.

use tauri::{AppHandle, Manager, State, WebviewWindow};
use tauri_plugin_dialog::{DialogExt, FilePath};
use tokio::sync::oneshot;
use transom_chat::MessageView;
use transom_store::{ConversationId, FoundConversation, MessageId};

use super::{conversations_changed, other};
use crate::backend;
use crate::deletion;
use crate::shell::{Shell, blocking, guarded};
use crate::windows;
use crate::wire::{AppEvent, CommandError, FileFormat, OpenedConversation, Window};

type CommandResult<T> = Result<T, CommandError>;

/// Maximum number of conversations per call.
const MAX_LISTED: u32 = 500;

/// Maximum size of an imported file.
const MAX_IMPORT_BYTES: u64 = 1 << 30;

#[tauri::command]
pub(crate) async fn conversations(
    shell: State<'_, Shell>,
    search: String,
    offset: u32,
    limit: u32,
) -> CommandResult<Vec<FoundConversation>> {
    let store = shell.backend().await?.store.clone();
    blocking(move || Ok(store.search(&search, offset, limit.min(MAX_LISTED))?)).await
}

#[tauri::command]
pub(crate) async fn open_conversation(
    shell: State<'_, Shell>,
    id: ConversationId,
) -> CommandResult<OpenedConversation> {
    let backend = shell.backend().await?;
    let store = backend.store_of(id.is_temporary()).clone();
    blocking(move || {
        Ok(OpenedConversation {
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
) -> CommandResult<Vec<MessageView>> {
    let backend = shell.backend().await?;
    // All are of one conversation.
    let is_temporary = ids.first().is_some_and(|id| id.is_temporary());
    guarded(async move { Ok(backend.turns_of(is_temporary).messages(&ids).await?) }).await
}

#[tauri::command]
pub(crate) async fn rename_conversation(
    app: AppHandle,
    shell: State<'_, Shell>,
    id: ConversationId,
    title: String,
) -> CommandResult<()> {
    let backend = shell.backend().await?;
    let store = backend.store_of(id.is_temporary()).clone();
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
) -> CommandResult<()> {
    let store = shell.backend().await?.store.clone();
    blocking(move || Ok(store.pin(id, is_pinned)?)).await?;
    conversations_changed(&app);
    Ok(())
}

#[tauri::command]
pub(crate) async fn delete_conversation(
    app: AppHandle,
    shell: State<'_, Shell>,
    id: ConversationId,
) -> CommandResult<()> {
    let backend = shell.backend().await?;
    if let Some(answer) = backend.turns.running_in(id) {
        backend.turns.stop(answer);
    }
    let store = backend.store.clone();
    blocking(move || Ok(store.conversation(id)?)).await?;
    deletion::schedule(&app, id).await;
    Ok(())
}

#[tauri::command]
pub(crate) async fn restore_conversation(
    shell: State<'_, Shell>,
    id: ConversationId,
) -> CommandResult<()> {
    let is_kept = shell.deletion.cancel(id);
    is_kept.then_some(()).ok_or(CommandError::NotFound)
}

#[tauri::command]
pub(crate) async fn finish_deletion(app: AppHandle) -> CommandResult<()> {
    deletion::finish(&app).await;
    Ok(())
}

#[tauri::command]
pub(crate) async fn delete_exchange(
    app: AppHandle,
    shell: State<'_, Shell>,
    question: MessageId,
) -> CommandResult<()> {
    let backend = shell.backend().await?;
    let turns = backend.turns_of(question.is_temporary());
    let store = backend.store_of(question.is_temporary()).clone();
    let (message, store) = blocking(move || Ok((store.message(question)?, store))).await?;
    if let Some(answer) = turns.running_in(message.conversation) {
        turns.stop(answer);
    }
    blocking(move || Ok(store.delete_exchange(question)?)).await?;
    backend.handle().forget_conversations();
    conversations_changed(&app);
    Ok(())
}

#[tauri::command]
pub(crate) async fn duplicate_conversation(
    app: AppHandle,
    shell: State<'_, Shell>,
    id: ConversationId,
    title: String,
) -> CommandResult<()> {
    let store = shell.backend().await?.store.clone();
    blocking(move || Ok(store.duplicate(id, &title, backend::now())?)).await?;
    conversations_changed(&app);
    Ok(())
}

#[tauri::command]
pub(crate) async fn copy_conversation(
    app: AppHandle,
    shell: State<'_, Shell>,
    id: ConversationId,
) -> CommandResult<()> {
    let store = shell.backend().await?.store.clone();
    blocking(move || {
        let text = store.readable_markdown(id)?;
        app.state::<Shell>().clipboard.copy(text).map_err(other)
    })
    .await
}

#[tauri::command]
pub(crate) async fn clear_history(app: AppHandle, shell: State<'_, Shell>) -> CommandResult<()> {
    let backend = shell.backend().await?;
    for answer in backend.turns.running() {
        backend.turns.stop(answer);
    }
    shell.deletion.forget();
    backend.discard_temporary().await;
    let store = backend.store.clone();
    blocking(move || Ok(store.clear_history()?)).await?;
    backend.handle().forget_conversations();
    app.state::<Shell>().send(&AppEvent::HistoryCleared);
    conversations_changed(&app);
    Ok(())
}

/// Deletes all temporary conversations.
#[tauri::command]
pub(crate) async fn discard_temporary(shell: State<'_, Shell>) -> CommandResult<()> {
    shell.backend().await?.discard_temporary().await;
    Ok(())
}

#[tauri::command]
pub(crate) async fn show_branch(shell: State<'_, Shell>, message: MessageId) -> CommandResult<()> {
    let backend = shell.backend().await?;
    let store = backend.store_of(message.is_temporary()).clone();
    blocking(move || Ok(store.show_branch(message)?)).await
}

#[tauri::command]
pub(crate) async fn export_conversation(
    page: WebviewWindow,
    shell: State<'_, Shell>,
    id: Option<ConversationId>,
    format: FileFormat,
) -> CommandResult<Option<String>> {
    let store = shell.backend().await?.store.clone();
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
    let Some(path) = choose_save_path(&page, &name).await? else {
        return Ok(None);
    };
    blocking(move || {
        std::fs::write(&path, text).map_err(|error| CommandError::Storage {
            kind: None,
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
) -> CommandResult<Option<u32>> {
    let guard = keep_open(&page);
    let (reply, picked) = oneshot::channel();
    let dialog = page.dialog().file().set_parent(&page);
    let dialog = dialog.add_filter("JSON, Markdown", &["json", "md"]);
    dialog.pick_file(move |path| drop(reply.send(path)));
    let path = picked.await.ok().flatten();
    drop(guard);
    let Some(path) = path else {
        return Ok(None);
    };
    let path = path.into_path().map_err(other)?;
    let store = shell.backend().await?.store.clone();
    let n = blocking(move || {
        let io_error = |error: std::io::Error| CommandError::Storage {
            kind: None,
            reason: format!("{}: {error}", path.display()),
        };
        let bytes = std::fs::metadata(&path).map_err(io_error)?.len();
        if bytes > MAX_IMPORT_BYTES {
            return Err(CommandError::Invalid {
                field: "file".to_owned(),
                reason: format!("{} is larger than 1 GB", path.display()),
            });
        }
        let text = std::fs::read_to_string(&path).map_err(io_error)?;
        Ok(store.import(&text, backend::now())?)
    })
    .await?;
    conversations_changed(&app);
    Ok(Some(u32::try_from(n).unwrap_or(u32::MAX)))
}

/// Asks the user where to save a file; `None` if the user cancels.
pub(super) async fn choose_save_path(
    page: &WebviewWindow,
    name: &str,
) -> CommandResult<Option<std::path::PathBuf>> {
    let guard = keep_open(page);
    let (reply, chosen) = oneshot::channel();
    let dialog = page.dialog().file().set_parent(page).set_file_name(name);
    dialog.save_file(move |path| drop(reply.send(path)));
    let path = chosen.await.ok().flatten();
    drop(guard);
    path.map(FilePath::into_path).transpose().map_err(other)
}

/// Keeps the calling window open while a dialog has the focus.
pub(super) fn keep_open(page: &WebviewWindow) -> Option<windows::KeepOpen> {
    let window = Window::from_label(page.label())?;
    Some(windows::keep_open(page.app_handle(), window))
}

/// Converts a title to a file name that every system accepts, of limited length.
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
    fn a_title_becomes_a_valid_file_name() {
        assert_eq!(file_name("What is a haiku?"), "What is a haiku");
        assert_eq!(file_name("../../etc/passwd"), "etc passwd");
        assert_eq!(file_name("a/b\\c:d\n"), "a b c d");
        assert_eq!(file_name("俳句とは？"), "俳句とは");
        assert_eq!(file_name("???"), "Conversation");
        assert!(file_name(&"long ".repeat(100)).len() <= 60);
    }
}
