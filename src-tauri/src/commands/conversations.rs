//! Commands for conversations: list, open, rename, archive, delete, export and import.
//!
//! Rule: before a conversation is deleted, its response is stopped, so that the model is free at
//! once. After the deletion (see [`deletion`]) the supervisor deletes all saved KV caches, so that no
//! text is left anywhere. Other conversations pay with one prefill.

use std::path::Path;

use serde_json::Value;
use tauri::{AppHandle, State, WebviewWindow};
use transom_chat::MessageView;
use transom_chat::title::title;
use transom_store::{ConversationId, FoundConversation, Message, MessageId, Store, StoreError};

use super::{choose_path, save};
use crate::deletion::{self, Deletion};
use crate::now;
use crate::shell::Shell;
use crate::task::guarded;
use crate::wire::{AppEvent, CommandError, CommandResult, FileFormat, OpenedConversation};

/// Maximum number of conversations per call.
const MAX_LISTED: u32 = 500;

/// Maximum size of an imported file. Long histories of other programs have about 100 MB.
const MAX_IMPORT_BYTES: u64 = 256 << 20;

/// Returns the conversations that `search` finds. Without a word, lists the archived or all others.
#[tauri::command]
pub(crate) async fn conversations(
    shell: State<'_, Shell>,
    search: String,
    is_archived: bool,
    offset: u32,
    limit: u32,
) -> CommandResult<Vec<FoundConversation>> {
    let limit = limit.min(MAX_LISTED);
    with_store(&shell, move |store| {
        if !is_archived || !search.trim().is_empty() {
            return store.search(&search, offset, limit);
        }
        let archived = store.archived_conversations(offset, limit)?;
        Ok(archived.into_iter().map(FoundConversation::from).collect())
    })
    .await
}

#[tauri::command]
pub(crate) async fn open_conversation(
    shell: State<'_, Shell>,
    id: ConversationId,
) -> CommandResult<OpenedConversation> {
    let is_temporary = id.is_temporary();
    let opened = with_store_of(&shell, is_temporary, move |store| {
        let settings = store.conversation_settings(id)?;
        Ok((store.conversation(id)?, settings, store.path(id)?))
    });
    let (conversation, settings, messages) = opened.await?;
    let backend = shell.backend().await?;
    guarded(async move {
        Ok(OpenedConversation {
            conversation,
            settings,
            messages,
            summaries: backend.turns_of(is_temporary).summaries(id).await?,
        })
    })
    .await
}

/// Changes settings of a conversation, which count from the next response.
#[tauri::command]
pub(crate) async fn set_conversation_settings(
    shell: State<'_, Shell>,
    id: ConversationId,
    patch: Value,
) -> CommandResult<()> {
    let set = move |store: &Store| store.set_conversation_settings(id, &patch);
    with_store_of(&shell, id.is_temporary(), set).await?;
    shell.send(&AppEvent::Conversations);
    Ok(())
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
    shell: State<'_, Shell>,
    id: ConversationId,
    title: String,
) -> CommandResult<()> {
    let rename = move |store: &Store| store.rename(id, title.trim());
    with_store_of(&shell, id.is_temporary(), rename).await?;
    shell.send(&AppEvent::Conversations);
    Ok(())
}

#[tauri::command]
pub(crate) async fn pin_conversation(
    shell: State<'_, Shell>,
    id: ConversationId,
    is_pinned: bool,
) -> CommandResult<()> {
    with_store(&shell, move |store| store.pin(id, is_pinned)).await?;
    shell.send(&AppEvent::Conversations);
    Ok(())
}

#[tauri::command]
pub(crate) async fn archive_conversation(
    shell: State<'_, Shell>,
    id: ConversationId,
    is_archived: bool,
) -> CommandResult<()> {
    with_store(&shell, move |store| store.archive(id, is_archived)).await?;
    shell.send(&AppEvent::Conversations);
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
    backend.turns.stop_summaries(Some(id));
    with_store(&shell, move |store| store.conversation(id)).await?;
    deletion::schedule(&app, id).await;
    Ok(())
}

#[tauri::command]
pub(crate) async fn restore_conversation(
    deletion: State<'_, Deletion>,
    id: ConversationId,
) -> CommandResult<()> {
    let is_kept = deletion.cancel(id);
    is_kept.then_some(()).ok_or(CommandError::NotFound)
}

#[tauri::command]
pub(crate) async fn finish_deletion(app: AppHandle) -> CommandResult<()> {
    deletion::finish(&app).await;
    Ok(())
}

#[tauri::command]
pub(crate) async fn delete_exchange(
    shell: State<'_, Shell>,
    question: MessageId,
) -> CommandResult<()> {
    let backend = shell.backend().await?;
    let is_temporary = question.is_temporary();
    let find = move |store: &Store| store.message(question);
    let message = with_store_of(&shell, is_temporary, find).await?;
    let turns = backend.turns_of(is_temporary);
    turns.end(Some(message.conversation)).await;
    backend.forget(message.conversation);
    let delete = move |store: &Store| delete_with_title(store, &message);
    with_store_of(&shell, is_temporary, delete).await?;
    shell.send(&AppEvent::Conversations);
    Ok(())
}

#[tauri::command]
pub(crate) async fn duplicate_conversation(
    shell: State<'_, Shell>,
    id: ConversationId,
    title: String,
) -> CommandResult<()> {
    let duplicate = move |store: &Store| store.duplicate(id, &title, now());
    with_store(&shell, duplicate).await?;
    shell.send(&AppEvent::Conversations);
    Ok(())
}

#[tauri::command]
pub(crate) async fn copy_conversation(
    app: AppHandle,
    shell: State<'_, Shell>,
    id: ConversationId,
) -> CommandResult<()> {
    let text = with_store(&shell, move |store| store.readable_markdown(id));
    super::app::copy(app, text.await?).await
}

#[tauri::command]
pub(crate) async fn clear_history(
    shell: State<'_, Shell>,
    deletion: State<'_, Deletion>,
) -> CommandResult<()> {
    let backend = shell.backend().await?;
    backend.turns.end(None).await;
    deletion.forget();
    backend.discard_temporary().await;
    backend.forget_all();
    with_store(&shell, Store::clear_history).await?;
    shell.send(&AppEvent::HistoryCleared);
    shell.send(&AppEvent::Conversations);
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
    let show = move |store: &Store| store.show_branch(message);
    with_store_of(&shell, message.is_temporary(), show).await
}

#[tauri::command]
pub(crate) async fn export_conversation(
    app: AppHandle,
    page: WebviewWindow,
    shell: State<'_, Shell>,
    id: Option<ConversationId>,
    format: FileFormat,
) -> CommandResult<Option<String>> {
    if id.is_none() {
        // The deleted conversation is not exported with all the others.
        deletion::finish(&app).await;
    }
    let export = with_store(&shell, move |store| {
        let title = match id {
            Some(id) => store.conversation(id)?.title,
            None => "Transom".to_owned(),
        };
        let (text, end) = match (id, format) {
            (Some(id), FileFormat::Markdown) => (store.export_markdown(id)?, "md"),
            (id, _) => (store.export_json(id)?, "json"),
        };
        Ok((format!("{}.{end}", file_name(&title)), text))
    });
    let (name, text) = export.await?;
    save(&page, &name, || text).await
}

#[tauri::command]
pub(crate) async fn import_conversations(
    page: WebviewWindow,
    shell: State<'_, Shell>,
) -> CommandResult<Option<usize>> {
    let chosen = choose_path(&page, |dialog| {
        let dialog = dialog.add_filter("JSON, Markdown", &["json", "md"]);
        dialog.blocking_pick_file()
    });
    let Some(path) = chosen.await? else {
        return Ok(None);
    };
    let import = shell.blocking(move |backend| {
        let text = read_import(&path)?;
        Ok(backend.store.import(&text, now())?)
    });
    let n_imported = import.await?;
    shell.send(&AppEvent::Conversations);
    Ok(Some(n_imported))
}

fn read_import(path: &Path) -> CommandResult<String> {
    transom_files::read_to_string(path, MAX_IMPORT_BYTES)
        .map_err(|error| CommandError::of_file(path, &error))
}

/// Calls the store on a blocking thread.
async fn with_store<T: Send + 'static>(
    shell: &Shell,
    work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
) -> CommandResult<T> {
    with_store_of(shell, false, work).await
}

/// Calls the store of temporary or of all other conversations on a blocking thread.
async fn with_store_of<T: Send + 'static>(
    shell: &Shell,
    is_temporary: bool,
    work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
) -> CommandResult<T> {
    let called = shell.blocking(move |backend| Ok(work(backend.store_of(is_temporary))?));
    called.await
}

/// Deletes a question with its responses. If the title comes from the question, the next
/// question replaces it, so that no deleted text stays in it.
fn delete_with_title(store: &Store, question: &Message) -> Result<(), StoreError> {
    let title_of = |message: &Message| title(&message.text, &message.attachment);
    let (id, versions) = (question.conversation, store.messages(&question.siblings)?);
    let old = store.conversation(id)?.title;
    let is_derived = versions.iter().any(|version| title_of(version) == old);
    // A model wrote it from the first question.
    let is_title_deleted =
        is_derived || question.parent.is_none() && store.has_written_title(id)?;
    if is_title_deleted {
        store.rename(id, "")?;
    }
    store.delete_exchange(question.id)?;
    if is_title_deleted && let Some(first) = store.path(id)?.first() {
        store.set_title_if_empty(id, &title_of(&store.message(first.id)?))?;
    }
    Ok(())
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
    use std::fs::{self, File};
    use std::process::Command;

    use transom_store::{NewMessage, Timestamp};

    use super::*;

    #[test]
    fn a_deleted_first_question_is_not_in_the_title() {
        let store = Store::temporary().unwrap();
        let id = store.create_conversation(Timestamp(1)).unwrap();
        let ask = |parent, text: &str| {
            let question = NewMessage::from_user(id, parent, text.to_owned(), Timestamp(2));
            store.add_message(question).unwrap()
        };
        let first = ask(None, "A secret question?");
        let second = ask(Some(first), "What is a haiku?");
        store.rename(id, &title("A secret question?", "")).unwrap();
        delete_with_title(&store, &store.message(first).unwrap()).unwrap();
        assert_eq!(
            store.conversation(id).unwrap().title,
            title("What is a haiku?", "")
        );

        // A title that a model wrote goes with the first question, too.
        let old = title("What is a haiku?", "");
        let third = ask(Some(second), "What is a sonnet?");
        assert!(store.set_written_title(id, &old, "Short poems").unwrap());
        delete_with_title(&store, &store.message(third).unwrap()).unwrap();
        assert_eq!(store.conversation(id).unwrap().title, "Short poems");
        let fourth = ask(Some(second), "What is an ode?");
        delete_with_title(&store, &store.message(second).unwrap()).unwrap();
        assert_eq!(
            store.conversation(id).unwrap().title,
            title("What is an ode?", "")
        );

        let second = fourth;
        store.rename(id, "Poems").unwrap();
        delete_with_title(&store, &store.message(second).unwrap()).unwrap();
        assert_eq!(store.conversation(id).unwrap().title, "Poems");
    }

    #[test]
    fn a_title_becomes_a_valid_file_name() {
        assert_eq!(file_name("What is a haiku?"), "What is a haiku");
        assert_eq!(file_name("../../etc/passwd"), "etc passwd");
        assert_eq!(file_name("a/b\\c:d\n"), "a b c d");
        assert_eq!(file_name("俳句とは？"), "俳句とは");
        assert_eq!(file_name("???"), "Conversation");
        assert!(file_name(&"long ".repeat(100)).len() <= 60);
    }

    /// A FIFO would block for ever, and a long file would fill the memory.
    #[test]
    fn only_regular_files_of_a_limited_size_are_imported() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("history.json"), "[]").unwrap();
        assert_eq!(read_import(&at("history.json")).unwrap(), "[]");
        let made = Command::new("mkfifo").arg(at("fifo")).status().unwrap();
        assert!(made.success());
        let long = File::create(at("long")).unwrap();
        long.set_len(MAX_IMPORT_BYTES + 1).unwrap();
        for (name, expected) in [
            ("fifo", "is not a regular file"),
            ("long", "has 268435457 bytes; the limit is 268435456"),
        ] {
            let reason = read_import(&at(name)).unwrap_err().into_reason();
            assert!(reason.contains(name), "{reason}");
            assert!(reason.ends_with(expected), "{reason}");
        }
    }
}
