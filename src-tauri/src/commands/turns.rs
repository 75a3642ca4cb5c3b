//! Commands for questions and responses.
//!
//! Rule: a question returns the id of its response at once; the text comes through `follow`. A page
//! that closes stops following, and its responses continue.

use std::sync::Arc;

use tauri::ipc::Channel;
use tauri::{State, WebviewWindow};
use transom_chat::Update;
use transom_chat::turns::StartedTurn;
use transom_store::{ConversationId, MessageId};

use crate::backend::Backend;
use crate::models::{self, PreparedRequest};
use crate::shell::{Shell, blocking, guarded};
use crate::usage_recorder;
use crate::wire::{CommandError, Window};

type CommandResult<T> = Result<T, CommandError>;

#[tauri::command]
pub(crate) async fn ask(
    shell: State<'_, Shell>,
    conversation: Option<ConversationId>,
    text: String,
    attachment: String,
    over_budget: bool,
    is_temporary: bool,
) -> CommandResult<StartedTurn> {
    let is_temporary = conversation.map_or(is_temporary, ConversationId::is_temporary);
    let (backend, request) = prepare_request(&shell, None, over_budget, is_temporary).await?;
    guarded(async move {
        let (options, recorder) = usage_recorder::split(&backend, request);
        let turns = backend.turns_of(is_temporary);
        let started = turns.ask(conversation, &text, &attachment, options);
        Ok(recorder.follow(started.await?))
    })
    .await
}

#[tauri::command]
pub(crate) async fn regenerate(
    shell: State<'_, Shell>,
    answer: MessageId,
    over_budget: bool,
    model: Option<String>,
) -> CommandResult<StartedTurn> {
    let is_temporary = answer.is_temporary();
    let (backend, request) = prepare_request(&shell, model, over_budget, is_temporary).await?;
    guarded(async move {
        let (options, recorder) = usage_recorder::split(&backend, request);
        let turns = backend.turns_of(is_temporary);
        Ok(recorder.follow(turns.regenerate(answer, options).await?))
    })
    .await
}

#[tauri::command]
pub(crate) async fn continue_answer(
    shell: State<'_, Shell>,
    answer: MessageId,
) -> CommandResult<StartedTurn> {
    let is_temporary = answer.is_temporary();
    let (backend, request) = prepare_request(&shell, None, false, is_temporary).await?;
    guarded(async move {
        let (options, recorder) = usage_recorder::split(&backend, request);
        let turns = backend.turns_of(is_temporary);
        let started = turns.continue_answer(answer, options);
        Ok(recorder.follow(started.await?))
    })
    .await
}

#[tauri::command]
pub(crate) async fn edit_message(
    shell: State<'_, Shell>,
    message: MessageId,
    text: String,
) -> CommandResult<StartedTurn> {
    let is_temporary = message.is_temporary();
    let (backend, request) = prepare_request(&shell, None, false, is_temporary).await?;
    guarded(async move {
        let (options, recorder) = usage_recorder::split(&backend, request);
        let turns = backend.turns_of(is_temporary);
        Ok(recorder.follow(turns.edit(message, &text, options).await?))
    })
    .await
}

#[tauri::command]
pub(crate) async fn edit_answer(
    shell: State<'_, Shell>,
    answer: MessageId,
    text: String,
) -> CommandResult<()> {
    let backend = shell.backend().await?;
    guarded(async move {
        let turns = backend.turns_of(answer.is_temporary());
        Ok(turns.edit_answer(answer, &text).await?)
    })
    .await
}

#[tauri::command]
pub(crate) async fn stop(shell: State<'_, Shell>, answer: MessageId) -> CommandResult<()> {
    let backend = shell.backend().await?;
    backend.turns_of(answer.is_temporary()).stop(answer);
    Ok(())
}

#[tauri::command]
pub(crate) async fn follow(
    page: WebviewWindow,
    shell: State<'_, Shell>,
    answer: MessageId,
    updates: Channel<Update>,
) -> CommandResult<u32> {
    let window = Window::from_label(page.label()).ok_or(CommandError::NotFound)?;
    let backend = shell.backend().await?;
    let mut stream = backend.turns_of(answer.is_temporary()).follow(answer);
    Ok(shell.followers.start(window, async move {
        while let Some(update) = stream.next().await {
            if updates.send(update).is_err() {
                break;
            }
        }
    }))
}

#[tauri::command]
pub(crate) async fn unfollow(shell: State<'_, Shell>, follower: u32) -> CommandResult<()> {
    shell.followers.stop(follower);
    Ok(())
}

/// Returns the backend and a request to the model with the id `model`; `None` is the selected one.
async fn prepare_request(
    shell: &Shell,
    model: Option<String>,
    over_budget: bool,
    is_temporary: bool,
) -> CommandResult<(Arc<Backend>, PreparedRequest)> {
    let backend = shell.backend().await?;
    let shared = backend.clone();
    let request = blocking(move || {
        models::prepare_request(&shared.library(), &shared.settings(), model, over_budget)
    });
    let mut request = request.await?;
    request.options.is_private = is_temporary;
    Ok((backend, request))
}
