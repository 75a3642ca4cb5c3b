//! Commands for models: list, select, estimate, load, unload, add and remove.
//!
//! Rule: selecting a model affects the next response and never ends a running one.

use std::path::PathBuf;

use serde_json::json;
use tauri::{AppHandle, Manager, State, WebviewWindow};
use transom_chat::Route;
use transom_library::{InstalledModel, read_added};
use transom_store::{ConversationSettings, ModelSettings};
use transom_supervisor::{
    ClientId, ModelRequest, ModelSelector, Outcome, ResponseEvent, WhenBlocked, Work,
};

use super::app::update_settings;
use super::choose_path;
use crate::backend::Backend;
use crate::models;
use crate::offer::offer;
use crate::shell::Shell;
use crate::tray;
use crate::wire::{AppEvent, CommandError, CommandResult, FitView, ModelOffer, ModelView};

#[tauri::command]
pub(crate) async fn models(app: AppHandle) -> CommandResult<Vec<ModelView>> {
    let shell = app.state::<Shell>();
    let list = |backend: &Backend| Ok(models::list(&backend.library(), &backend.settings()));
    let views = shell.blocking(list).await?;
    let names = views
        .iter()
        .map(|view| (view.id.clone(), view.name.clone()));
    if shell.backend().await?.remember_names(names.collect()) {
        tray::draw(&app);
    }
    Ok(views)
}

/// Handles changes of models by another program, and changed names: tells the pages, redraws the
/// menu, and reports a damaged list.
pub(crate) fn changed(app: &AppHandle) {
    app.state::<Shell>().send(&AppEvent::Models);
    let app = app.clone();
    tauri::async_runtime::spawn(async move {
        let shell = app.state::<Shell>();
        let read = shell.blocking(|backend| {
            let names = models::names_of_recent(&backend.library(), &backend.settings());
            Ok((names, read_added(backend.data_folder())))
        });
        let (names, added) = read.await?;
        if shell.backend().await?.remember_names(names) {
            tray::draw(&app);
        }
        if let Err(error) = added {
            shell.notice(AppEvent::notice("other", error.to_string()));
        }
        Ok::<(), CommandError>(())
    });
}

/// Selects a model.
#[tauri::command]
pub(crate) async fn choose_model(app: AppHandle, id: String) -> CommandResult<()> {
    let shell = app.state::<Shell>();
    let model = find(&shell, &id).await?;
    let backend = shell.backend().await?;
    // Cached before the change of settings redraws the menu.
    backend.remember_names([(id.clone(), model.title(&backend.model_source.catalog()))].into());
    let recent = models::add_recent(&backend.settings().recent_models, &id);
    let patch = json!({ "model": id, "recent_models": recent });
    update_settings(app.clone(), patch).await?;
    shell.send(&AppEvent::Models);
    Ok(())
}

#[tauri::command]
pub(crate) async fn fit(
    shell: State<'_, Shell>,
    id: String,
    settings: ModelSettings,
) -> CommandResult<FitView> {
    let model = find(&shell, &id).await?;
    let fit = move |backend: &Backend| models::fit(&backend.timed_library(), &model, &settings);
    shell.blocking(fit).await
}

/// Returns an installed model to offer in place of `model` for a message on `route`, in a conversation with
/// these settings.
#[tauri::command]
pub(crate) async fn model_offer(
    shell: State<'_, Shell>,
    route: Route,
    model: String,
    settings: ConversationSettings,
) -> CommandResult<Option<ModelOffer>> {
    let found = move |backend: &Backend| {
        // The machine is short of something, so that a smaller model is offered.
        let is_short = backend
            .handle()
            .status()
            .borrow()
            .restrictions
            .offer_smaller_model;
        if is_short {
            return Ok(None);
        }
        let (library, chosen) = (backend.library(), backend.settings());
        Ok(offer(&library, &chosen, route, &model, &settings))
    };
    shell.blocking(found).await
}

#[tauri::command]
pub(crate) async fn add_model(
    app: AppHandle,
    page: WebviewWindow,
    kind: String,
) -> CommandResult<Option<ModelView>> {
    let chosen = choose_path(&page, move |dialog| match kind.as_str() {
        "folder" => dialog.blocking_pick_folder(),
        _ => dialog.add_filter("GGUF", &["gguf"]).blocking_pick_file(),
    });
    match chosen.await? {
        Some(path) => add(&app, path).await.map(Some),
        None => Ok(None),
    }
}

/// Adds the model at `path` to the list. Its files stay where they are.
pub(crate) async fn add(app: &AppHandle, path: PathBuf) -> CommandResult<ModelView> {
    let shell = app.state::<Shell>();
    let add = shell.blocking(move |backend| {
        let model = backend.library().add(&path)?.model;
        let library = backend.library();
        let chosen = models::chosen_id(&library, &backend.settings());
        Ok(models::view(&model, chosen.as_deref(), &library))
    });
    let view = add.await?;
    shell.send(&AppEvent::Models);
    Ok(view)
}

#[tauri::command]
pub(crate) async fn forget_model(app: AppHandle, id: String) -> CommandResult<()> {
    let shell = app.state::<Shell>();
    let model = find(&shell, &id).await?;
    let forget = shell.blocking(move |backend| Ok(backend.library().forget(&model)?));
    if forget.await?.is_none() {
        let reason = "only a model that you added can be removed from the list";
        return Err(CommandError::invalid("model", reason));
    }
    remove_from_settings(&app, &id).await
}

#[tauri::command]
pub(crate) async fn remove_model(app: AppHandle, id: String) -> CommandResult<u64> {
    let shell = app.state::<Shell>();
    let model = find(&shell, &id).await?;
    // A mapped file keeps its disk space until its process is gone.
    let handle = shell.backend().await?.handle();
    handle.unload(ModelSelector::Model(id.clone())).await?;
    let remove = shell.blocking(move |backend| Ok(backend.library().remove(&model)?));
    let freed_bytes = remove.await?;
    remove_from_settings(&app, &id).await?;
    tracing::info!(id, bytes = freed_bytes, "a model was removed");
    Ok(freed_bytes)
}

/// Removes a model from the settings. If it was selected, the starter takes its place.
async fn remove_from_settings(app: &AppHandle, id: &str) -> CommandResult<()> {
    let shell = app.state::<Shell>();
    let settings = shell.backend().await?.settings();
    let mut recent = settings.recent_models;
    recent.retain(|other| other != id);
    let mut patch = json!({ "recent_models": recent });
    if settings.model.as_deref() == Some(id) {
        patch["model"] = serde_json::Value::Null;
    }
    update_settings(app.clone(), patch).await?;
    shell.send(&AppEvent::Models);
    Ok(())
}

#[tauri::command]
pub(crate) async fn load_model(
    shell: State<'_, Shell>,
    conversation: ConversationSettings,
) -> CommandResult<()> {
    let request = shell.blocking(|backend| {
        let (library, settings) = (backend.library(), backend.settings());
        models::prepare_request(&library, &settings, conversation, None, false)
    });
    let (options, _) = request.await?;
    let mut response = shell.backend().await?.handle().submit(ModelRequest {
        when_blocked: WhenBlocked::Refuse,
        ..ModelRequest::new(ClientId::app(), options.model, Work::Load)
    });
    while let Some(event) = response.next().await {
        if let ResponseEvent::Ended { outcome } = event {
            return match outcome {
                Outcome::Failed { error } => Err(error.into()),
                Outcome::Loaded { .. } | Outcome::Finished { .. } => Ok(()),
            };
        }
    }
    Err(CommandError::other("the supervisor has quit"))
}

/// Unloads every model.
#[tauri::command]
pub(crate) async fn eject(app: AppHandle) -> CommandResult<()> {
    let backend = app.state::<Shell>().backend().await?;
    backend.handle().unload(ModelSelector::All).await?;
    Ok(())
}

/// Pauses or resumes the supervisor.
#[tauri::command]
pub(crate) async fn pause(app: AppHandle, is_paused: bool) -> CommandResult<()> {
    let backend = app.state::<Shell>().backend().await?;
    backend.handle().set_paused(is_paused);
    Ok(())
}

pub(super) async fn find(shell: &Shell, id: &str) -> CommandResult<InstalledModel> {
    let id = id.to_owned();
    let resolve = shell.blocking(move |backend| Ok(backend.library().resolve(&id)?));
    resolve.await
}
