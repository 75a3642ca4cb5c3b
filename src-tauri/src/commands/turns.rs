//! Commands for questions and responses.
//!
//! Rule: a question returns the id of its response at once; the text comes through `follow`. A page
//! that closes stops following, and its responses continue.

use std::sync::Arc;

use tauri::ipc::Channel;
use tauri::{State, WebviewWindow};
use transom_chat::routing::{Draft, DraftRoute, Route, Routes, Routing, route_of_draft};
use transom_chat::turns::{StartedTurn, TurnOptions};
use transom_chat::{Failure, Update};
use transom_library::InstalledModel;
use transom_store::{
    AttachedText, ConversationId, ConversationSettings, MessageId, Store, StoreError, attached_text,
};

use crate::backend::Backend;
use crate::shell::Shell;
use crate::task::guarded;
use crate::wire::{CommandError, CommandResult, Window};
use crate::{models, usage_recorder};

#[tauri::command]
#[allow(
    clippy::too_many_arguments,
    reason = "a page names each argument of a command"
)]
pub(crate) async fn ask(
    shell: State<'_, Shell>,
    conversation: Option<ConversationId>,
    text: String,
    attachments: Vec<AttachedText>,
    over_budget: bool,
    is_temporary: bool,
    settings: ConversationSettings,
    route: Option<Route>,
    contained_tokens: Option<usize>,
) -> CommandResult<StartedTurn> {
    let is_temporary = conversation.map_or(is_temporary, ConversationId::is_temporary);
    let target = conversation.map_or(Target::New(settings), Target::Conversation);
    let ask = move |backend: Arc<Backend>, options| async move {
        let turns = backend.turns_of(is_temporary);
        let attachment = attached_text::join(&attachments);
        let options = TurnOptions {
            contained_tokens: contained_tokens.unwrap_or(0),
            ..with_route(options, route)
        };
        turns.ask(conversation, &text, &attachment, options).await
    };
    start(&shell, is_temporary, target, None, over_budget, ask).await
}

/// Lets the user choose the route, unless routes are switched off.
fn with_route(options: TurnOptions, route: Option<Route>) -> TurnOptions {
    match (options.routing, route) {
        (Routing::Automatic, Some(route)) => TurnOptions {
            routing: Routing::Chosen(route),
            ..options
        },
        _ => options,
    }
}

/// Returns the route that a message would get and the limits of its request, to show them before the
/// message is sent.
#[tauri::command]
pub(crate) async fn route(shell: State<'_, Shell>, draft: Draft) -> CommandResult<DraftRoute> {
    let route = shell.blocking(move |backend| {
        let settings = backend.settings();
        let is_temporary = draft.conversation.is_some_and(ConversationId::is_temporary);
        let store = backend.store_of(is_temporary);
        let routing = Routing::unless_off(settings.general.routing_off);
        let routes = Routes::with(&settings.routes);
        Ok(route_of_draft(store, &draft, routing, &routes)?)
    });
    route.await
}

#[tauri::command]
pub(crate) async fn regenerate(
    shell: State<'_, Shell>,
    answer: MessageId,
    over_budget: bool,
    model: Option<String>,
    route: Option<Route>,
) -> CommandResult<StartedTurn> {
    let is_temporary = answer.is_temporary();
    let regenerate = move |backend: Arc<Backend>, options| async move {
        let turns = backend.turns_of(is_temporary);
        let options = with_route(options, route);
        turns.regenerate(answer, options).await
    };
    let target = Target::Message(answer);
    start(&shell, is_temporary, target, model, over_budget, regenerate).await
}

#[tauri::command]
pub(crate) async fn continue_answer(
    shell: State<'_, Shell>,
    answer: MessageId,
    over_budget: bool,
) -> CommandResult<StartedTurn> {
    let is_temporary = answer.is_temporary();
    let continue_answer = move |backend: Arc<Backend>, options| async move {
        let turns = backend.turns_of(is_temporary);
        turns.continue_answer(answer, options).await
    };
    let target = Target::Message(answer);
    start(
        &shell,
        is_temporary,
        target,
        None,
        over_budget,
        continue_answer,
    )
    .await
}

#[tauri::command]
pub(crate) async fn edit_message(
    shell: State<'_, Shell>,
    message: MessageId,
    text: String,
    route: Option<Route>,
) -> CommandResult<StartedTurn> {
    let is_temporary = message.is_temporary();
    let edit = move |backend: Arc<Backend>, options| async move {
        let turns = backend.turns_of(is_temporary);
        let options = with_route(options, route);
        turns.edit(message, &text, options).await
    };
    let target = Target::Message(message);
    start(&shell, is_temporary, target, None, false, edit).await
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

/// Starts to write a summary of all messages up to and including `message`.
#[tauri::command]
pub(crate) async fn summarize(shell: State<'_, Shell>, message: MessageId) -> CommandResult<()> {
    let is_temporary = message.is_temporary();
    let target = Target::Message(message);
    let (options, _) = options(&shell, is_temporary, target, None, false).await?;
    let backend = shell.backend().await?;
    guarded(async move {
        let turns = backend.turns_of(is_temporary);
        Ok(turns.summarize(message, options).await?)
    })
    .await
}

/// Replaces the summary of all messages up to and including `message`. An empty text removes it.
#[tauri::command]
pub(crate) async fn set_summary(
    shell: State<'_, Shell>,
    message: MessageId,
    text: String,
) -> CommandResult<()> {
    let backend = shell.backend().await?;
    guarded(async move {
        let turns = backend.turns_of(message.is_temporary());
        Ok(turns.set_summary(message, &text).await?)
    })
    .await
}

/// What a response belongs to.
enum Target {
    /// A conversation that is created with these settings.
    New(ConversationSettings),
    Conversation(ConversationId),
    /// The conversation of this message.
    Message(MessageId),
}

impl Target {
    /// Returns the settings of the conversation.
    fn settings(self, store: &Store) -> Result<ConversationSettings, StoreError> {
        match self {
            Self::New(settings) => Ok(settings),
            Self::Conversation(id) => store.conversation_settings(id),
            Self::Message(id) => store.conversation_settings(store.message(id)?.conversation),
        }
    }
}

/// Starts a response of the model with the id `model`, or of the one that the conversation uses. Its
/// usage is recorded when it ends.
async fn start<F>(
    shell: &Shell,
    is_temporary: bool,
    target: Target,
    model: Option<String>,
    over_budget: bool,
    start: impl FnOnce(Arc<Backend>, TurnOptions) -> F + Send + 'static,
) -> CommandResult<StartedTurn>
where
    F: Future<Output = Result<StartedTurn, Failure>> + Send + 'static,
{
    let backend = shell.backend().await?;
    let (options, model) = options(shell, is_temporary, target, model, over_budget).await?;
    guarded(async move {
        let started = start(backend.clone(), options.clone()).await?;
        usage_recorder::record_at_end(backend, started.answer, model, options);
        Ok(started)
    })
    .await
}

/// Returns the options of a request to the model with the id `model`, or to the one that the
/// conversation uses.
async fn options(
    shell: &Shell,
    is_temporary: bool,
    target: Target,
    model: Option<String>,
    over_budget: bool,
) -> CommandResult<(TurnOptions, InstalledModel)> {
    let request = shell.blocking(move |backend| {
        let conversation = target.settings(backend.store_of(is_temporary))?;
        let (library, settings) = (backend.library(), backend.settings());
        models::prepare_request(&library, &settings, conversation, model, over_budget)
    });
    let (mut options, model) = request.await?;
    options.is_private = is_temporary;
    Ok((options, model))
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
