//! Commands for models: list, select, estimate, load, unload, add and remove.
//!
//! Rule: selecting a model affects the next response and never ends a running one.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use tauri::{AppHandle, Manager, State, WebviewWindow};
use tauri_plugin_dialog::DialogExt;
use tokio::sync::oneshot;
use transom_library::{InstalledModel, read_added};
use transom_store::ModelSettings;
use transom_supervisor::{ModelRequest, ModelSelector, Outcome, WhenBlocked, Work};

use super::app::change_settings;
use super::conversations::keep_open;
use super::other;
use crate::backend::Backend;
use crate::models;
use crate::shell::{Shell, blocking};
use crate::start::draw_tray;
use crate::wire::{AppEvent, CommandError, FitView, ModelView};

type CommandResult<T> = Result<T, CommandError>;

#[tauri::command]
pub(crate) async fn models(app: AppHandle) -> CommandResult<Vec<ModelView>> {
    let shell = app.state::<Shell>();
    let backend = shell.backend().await?;
    let shared = backend.clone();
    let views = blocking(move || Ok(models::list(&shared.library(), &shared.settings()))).await?;
    let names = views
        .iter()
        .map(|view| (view.id.clone(), view.name.clone()));
    if backend.remember_names(names.collect()) {
        draw_tray(&app);
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
        let backend = shell.backend().await?;
        let shared = backend.clone();
        let read = blocking(move || {
            let names = models::names_of_recent(&shared.library(), &shared.settings());
            Ok((names, read_added(shared.data_folder())))
        });
        let (names, added) = read.await?;
        if backend.remember_names(names) {
            draw_tray(&app);
        }
        if let Err(error) = added {
            shell.notice(AppEvent::notice("other", error.to_string()));
        }
        Ok::<(), CommandError>(())
    });
}

#[tauri::command]
pub(crate) async fn choose_model(app: AppHandle, id: String) -> CommandResult<()> {
    choose(app, id).await
}

/// Selects a model.
pub(crate) async fn choose(app: AppHandle, id: String) -> CommandResult<()> {
    let (backend, model) = find(&app, id.clone()).await?;
    // Cached before the change of settings redraws the menu.
    backend.remember_names([(id.clone(), model.title(&backend.model_source.catalog()))].into());
    let recent = models::add_recent(&backend.settings().recent_models, &id);
    change_settings(&app, json!({ "model": id, "recent_models": recent })).await?;
    app.state::<Shell>().send(&AppEvent::Models);
    Ok(())
}

#[tauri::command]
pub(crate) async fn fit(
    app: AppHandle,
    id: String,
    settings: ModelSettings,
) -> CommandResult<FitView> {
    let (backend, model) = find(&app, id).await?;
    blocking(move || models::fit(&backend.timed_library(), &model, &settings)).await
}

#[tauri::command]
pub(crate) async fn add_model(
    app: AppHandle,
    page: WebviewWindow,
    kind: String,
) -> CommandResult<Option<ModelView>> {
    let guard = keep_open(&page);
    let (reply, picked) = oneshot::channel();
    let dialog = page.dialog().file().set_parent(&page);
    match kind.as_str() {
        "folder" => dialog.pick_folder(move |path| drop(reply.send(path))),
        _ => dialog
            .add_filter("GGUF", &["gguf"])
            .pick_file(move |path| drop(reply.send(path))),
    }
    let path = picked.await.ok().flatten();
    drop(guard);
    let Some(path) = path else {
        return Ok(None);
    };
    let path = path.into_path().map_err(other)?;
    add(&app, path).await.map(Some)
}

/// Adds the model at `path` to the list. Its files stay where they are.
pub(crate) async fn add(app: &AppHandle, path: PathBuf) -> CommandResult<ModelView> {
    let shell = app.state::<Shell>();
    let backend = shell.backend().await?;
    let view = blocking(move || {
        let added = backend.library().add(&path)?;
        let library = backend.library();
        let id = library.id_of(&added.model);
        let mut models = models::list(&library, &backend.settings()).into_iter();
        models
            .find(|model| model.id == id)
            .ok_or(CommandError::NotFound)
    });
    let view = view.await?;
    shell.send(&AppEvent::Models);
    Ok(view)
}

#[tauri::command]
pub(crate) async fn forget_model(app: AppHandle, id: String) -> CommandResult<()> {
    let (backend, model) = find(&app, id.clone()).await?;
    let shared = backend.clone();
    if blocking(move || Ok(shared.library().forget(&model)?))
        .await?
        .is_none()
    {
        return Err(CommandError::Invalid {
            field: "model".to_owned(),
            reason: "only a model that you added can be removed from the list".to_owned(),
        });
    }
    remove_from_settings(&app, &backend, &id).await
}

#[tauri::command]
pub(crate) async fn remove_model(app: AppHandle, id: String) -> CommandResult<u64> {
    let (backend, model) = find(&app, id.clone()).await?;
    // A mapped file keeps its disk space until its process is gone.
    backend
        .handle()
        .unload(ModelSelector::Model(id.clone()))
        .await?;
    let shared = backend.clone();
    let freed = blocking(move || {
        shared
            .library()
            .remove(&model)
            .map_err(|error| CommandError::Storage {
                kind: None,
                reason: error.to_string(),
            })
    })
    .await?;
    remove_from_settings(&app, &backend, &id).await?;
    tracing::info!(id, bytes = freed.bytes, "a model was removed");
    Ok(freed.bytes)
}

/// Removes a model from the settings. If it was selected, the starter takes its place.
async fn remove_from_settings(app: &AppHandle, backend: &Backend, id: &str) -> CommandResult<()> {
    let settings = backend.settings();
    let mut recent = settings.recent_models;
    recent.retain(|other| other != id);
    let mut patch = json!({ "recent_models": recent });
    if settings.model.as_deref() == Some(id) {
        patch["model"] = serde_json::Value::Null;
    }
    change_settings(app, patch).await?;
    app.state::<Shell>().send(&AppEvent::Models);
    Ok(())
}

#[tauri::command]
pub(crate) async fn load_model(shell: State<'_, Shell>) -> CommandResult<()> {
    let backend = shell.backend().await?;
    let shared = backend.clone();
    let request = blocking(move || {
        models::prepare_request(&shared.library(), &shared.settings(), None, false)
    });
    let options = request.await?.options;
    let mut answer = backend.handle().submit(ModelRequest {
        model: options.model,
        work: Work::Load,
        over_budget: false,
        when_blocked: WhenBlocked::Refuse,
        is_private: false,
    });
    loop {
        match answer.next().await {
            Some(transom_supervisor::ResponseEvent::Ended { outcome }) => {
                return match outcome {
                    Outcome::Failed { error } => Err(error.into()),
                    Outcome::Loaded { .. } | Outcome::Finished { .. } => Ok(()),
                };
            }
            Some(_) => {}
            None => return Err(other("the supervisor has quit")),
        }
    }
}

#[tauri::command]
pub(crate) async fn eject(app: AppHandle) -> CommandResult<()> {
    eject_all(app).await
}

/// Unloads every model.
pub(crate) async fn eject_all(app: AppHandle) -> CommandResult<()> {
    let backend = app.state::<Shell>().backend().await?;
    backend.handle().unload(ModelSelector::All).await?;
    Ok(())
}

#[tauri::command]
pub(crate) async fn pause(app: AppHandle, is_paused: bool) -> CommandResult<()> {
    set_paused(app, is_paused).await
}

/// Pauses or resumes the supervisor.
pub(crate) async fn set_paused(app: AppHandle, is_paused: bool) -> CommandResult<()> {
    let backend = app.state::<Shell>().backend().await?;
    backend.pause(is_paused);
    Ok(())
}

async fn find(app: &AppHandle, id: String) -> CommandResult<(Arc<Backend>, InstalledModel)> {
    let shell = app.state::<Shell>();
    let backend = shell.backend().await?;
    let shared = backend.clone();
    let model = blocking(move || Ok(shared.library().resolve(&id)?)).await?;
    Ok((backend, model))
}
