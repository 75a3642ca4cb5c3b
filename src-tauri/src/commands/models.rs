//! Models: listed, chosen, tried for size, loaded and given back.
//!
//! Rule: choosing a model takes effect with the next answer; it never ends a running one.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use tauri::{AppHandle, Manager, State, WebviewWindow};
use tauri_plugin_dialog::DialogExt;
use tokio::sync::oneshot;
use transom_catalog::{Installed, Origin, installed};
use transom_store::ModelSettings;
use transom_supervisor::{Ask, Outcome, Unload, WhenHeld, Work};

use super::app::change_settings;
use super::conversations::hold;
use super::other;
use crate::models;
use crate::rooms::Rooms;
use crate::shell::{Shell, blocking};
use crate::wire::{FitView, ModelView, News, Refusal};

type Done<T> = Result<T, Refusal>;

#[tauri::command]
pub(crate) async fn models(shell: State<'_, Shell>) -> Done<Vec<ModelView>> {
    let rooms = shell.rooms().await?;
    let settings = rooms.settings();
    let places = models::places(&shell.data_folder, &settings);
    blocking(move || Ok(models::list(&places, &settings, &rooms.shelf.list()))).await
}

#[tauri::command]
pub(crate) async fn choose_model(app: AppHandle, id: String) -> Done<()> {
    choose(app, id).await
}

/// Asks a model from now on.
pub(crate) async fn choose(app: AppHandle, id: String) -> Done<()> {
    let (rooms, model) = find(&app, id).await?;
    let id = models::id_of(&model);
    let recent = models::with_recent(&rooms.settings().recent_models, &id);
    change_settings(&app, json!({ "model": id, "recent_models": recent })).await?;
    app.state::<Shell>().tell(&News::Models);
    Ok(())
}

#[tauri::command]
pub(crate) async fn fit(app: AppHandle, id: String, settings: ModelSettings) -> Done<FitView> {
    let (rooms, model) = find(&app, id).await?;
    blocking(move || models::fit(&model, &settings, &rooms.hardware, &rooms.here())).await
}

#[tauri::command]
pub(crate) async fn add_model(
    app: AppHandle,
    page: WebviewWindow,
    kind: String,
) -> Done<Option<ModelView>> {
    let held = hold(&page);
    let (reply, picked) = oneshot::channel();
    let dialog = page.dialog().file().set_parent(&page);
    match kind.as_str() {
        "folder" => dialog.pick_folder(move |path| drop(reply.send(path))),
        _ => dialog
            .add_filter("GGUF", &["gguf"])
            .pick_file(move |path| drop(reply.send(path))),
    }
    let path = picked.await.ok().flatten();
    drop(held);
    let Some(path) = path else {
        return Ok(None);
    };
    let path = path.into_path().map_err(other)?;
    add(&app, path).await.map(Some)
}

/// Puts the model at `path` on the list; it is used where it lies.
pub(crate) async fn add(app: &AppHandle, path: PathBuf) -> Done<ModelView> {
    let path = std::path::absolute(&path).unwrap_or(path);
    let at = path.clone();
    let added = blocking(move || models::given(&at)).await?;
    let shell = app.state::<Shell>();
    let rooms = shell.rooms().await?;
    let places = models::places(&shell.data_folder, &rooms.settings());
    let id = models::id_of(&added);
    let is_known = blocking({
        let id = id.clone();
        move || {
            let mut known = installed::list(&places).into_iter();
            Ok(known.any(|model| models::id_of(&model) == id))
        }
    })
    .await?;
    let mut paths = rooms.settings().added_models;
    // What lies in the models folder, or was found with another app, is there already.
    if !is_known && !paths.contains(&path) {
        paths.push(path);
        change_settings(app, json!({ "added_models": paths })).await?;
    }
    shell.tell(&News::Models);
    let settings = rooms.settings();
    let places = models::places(&shell.data_folder, &settings);
    blocking(move || {
        let list = rooms.shelf.list();
        let mut models = models::list(&places, &settings, &list).into_iter();
        models.find(|model| model.id == id).ok_or(Refusal::NotFound)
    })
    .await
}

#[tauri::command]
pub(crate) async fn forget_model(app: AppHandle, id: String) -> Done<()> {
    let (rooms, model) = find(&app, id.clone()).await?;
    let Origin::Added { path } = &model.origin else {
        return Err(Refusal::Invalid {
            field: "model".to_owned(),
            reason: "only a model that you added can be taken off the list".to_owned(),
        });
    };
    let mut paths = rooms.settings().added_models;
    paths.retain(|other| other != path);
    change_settings(&app, json!({ "added_models": paths })).await?;
    leave(&app, &rooms, &id).await
}

#[tauri::command]
pub(crate) async fn remove_model(app: AppHandle, id: String) -> Done<u64> {
    let (rooms, model) = find(&app, id.clone()).await?;
    let shell = app.state::<Shell>();
    let settings = rooms.settings();
    let places = models::places(&shell.data_folder, &settings);
    let name = models::name_of(&model, &rooms.shelf.list());
    // A file that is mapped keeps its space until its process is gone.
    let is_loaded = {
        let status = rooms.handle().look().await.clone();
        status.models.iter().any(|loaded| loaded.name == name)
    };
    if is_loaded {
        rooms.handle().unload(Unload::Named(name)).await?;
    }
    let freed = blocking(move || {
        installed::remove(&model, &places).map_err(|error| Refusal::Storage {
            reason: error.to_string(),
        })
    })
    .await?;
    leave(&app, &rooms, &id).await?;
    tracing::info!(id, bytes = freed.bytes, "a model was removed");
    Ok(freed.bytes)
}

/// Nothing remembers a model that is gone, and the starter is asked in its place.
async fn leave(app: &AppHandle, rooms: &Rooms, id: &str) -> Done<()> {
    let settings = rooms.settings();
    let mut recent = settings.recent_models;
    recent.retain(|other| other != id);
    let mut patch = json!({ "recent_models": recent });
    if settings.model.as_deref() == Some(id) {
        patch["model"] = serde_json::Value::Null;
    }
    change_settings(app, patch).await?;
    app.state::<Shell>().tell(&News::Models);
    Ok(())
}

#[tauri::command]
pub(crate) async fn load_model(shell: State<'_, Shell>) -> Done<()> {
    let rooms = shell.rooms().await?;
    let settings = rooms.settings();
    let places = models::places(&shell.data_folder, &settings);
    let of = rooms.clone();
    let asking =
        blocking(move || models::asking(&places, &settings, &of.shelf.list(), &of.here(), false))
            .await?
            .asking;
    let mut answer = rooms.handle().ask(Ask {
        model: asking.model,
        work: Work::Load,
        over_budget: false,
        when_held: WhenHeld::Refuse,
    });
    loop {
        match answer.next().await {
            Some(transom_supervisor::AnswerEvent::Ended { outcome }) => {
                return match outcome {
                    Outcome::Failed { error } => Err(error.into()),
                    Outcome::Loaded { .. } | Outcome::Finished { .. } => Ok(()),
                };
            }
            Some(_) => {}
            None => return Err(other("the supervisor is gone")),
        }
    }
}

#[tauri::command]
pub(crate) async fn eject(app: AppHandle) -> Done<()> {
    eject_all(app).await
}

/// Unloads every model.
pub(crate) async fn eject_all(app: AppHandle) -> Done<()> {
    let rooms = app.state::<Shell>().rooms().await?;
    rooms.handle().unload(Unload::All).await?;
    Ok(())
}

#[tauri::command]
pub(crate) async fn pause(app: AppHandle, is_paused: bool) -> Done<()> {
    set_pause(app, is_paused).await
}

/// Begins no new answers, or goes on.
pub(crate) async fn set_pause(app: AppHandle, is_paused: bool) -> Done<()> {
    let rooms = app.state::<Shell>().rooms().await?;
    rooms.pause(is_paused);
    Ok(())
}

async fn find(app: &AppHandle, id: String) -> Done<(Arc<Rooms>, Installed)> {
    let shell = app.state::<Shell>();
    let rooms = shell.rooms().await?;
    let places = models::places(&shell.data_folder, &rooms.settings());
    let model = blocking(move || models::find(&places, &id)).await?;
    Ok((rooms, model))
}
