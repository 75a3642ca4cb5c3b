//! Models: listed, chosen, tried for size, loaded and given back.
//!
//! Rule: choosing a model takes effect with the next answer; it never ends a running one.

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
use super::conversations::hold;
use super::other;
use crate::models;
use crate::rooms::Rooms;
use crate::shell::{Shell, blocking};
use crate::start::draw_tray;
use crate::wire::{FitView, ModelView, News, Refusal};

type Done<T> = Result<T, Refusal>;

#[tauri::command]
pub(crate) async fn models(app: AppHandle) -> Done<Vec<ModelView>> {
    let shell = app.state::<Shell>();
    let rooms = shell.rooms().await?;
    let of = rooms.clone();
    let views = blocking(move || Ok(models::list(&of.library(), &of.settings()))).await?;
    let names = views
        .iter()
        .map(|view| (view.id.clone(), view.name.clone()));
    if rooms.learn(names.collect()) {
        draw_tray(&app);
    }
    Ok(views)
}

/// Another program added or forgot a model, or models are called otherwise: tells the pages, and
/// draws the menu with the names that hold now. A list that was damaged is told of, too.
pub(crate) fn changed(app: &AppHandle) {
    app.state::<Shell>().tell(&News::Models);
    let app = app.clone();
    tauri::async_runtime::spawn(async move {
        let shell = app.state::<Shell>();
        let rooms = shell.rooms().await?;
        let of = rooms.clone();
        let read = blocking(move || {
            let names = models::names_of_recent(&of.library(), &of.settings());
            Ok((names, read_added(of.data_folder())))
        });
        let (names, added) = read.await?;
        if rooms.learn(names) {
            draw_tray(&app);
        }
        if let Err(error) = added {
            shell.notice(News::notice("other", error.to_string()));
        }
        Ok::<(), Refusal>(())
    });
}

#[tauri::command]
pub(crate) async fn choose_model(app: AppHandle, id: String) -> Done<()> {
    choose(app, id).await
}

/// Asks a model from now on.
pub(crate) async fn choose(app: AppHandle, id: String) -> Done<()> {
    let (rooms, model) = find(&app, id.clone()).await?;
    // Known before the menu is drawn, as the change of settings has it.
    rooms.learn([(id.clone(), model.title(&rooms.shelf.list()))].into());
    let recent = models::with_recent(&rooms.settings().recent_models, &id);
    change_settings(&app, json!({ "model": id, "recent_models": recent })).await?;
    app.state::<Shell>().tell(&News::Models);
    Ok(())
}

#[tauri::command]
pub(crate) async fn fit(app: AppHandle, id: String, settings: ModelSettings) -> Done<FitView> {
    let (rooms, model) = find(&app, id).await?;
    blocking(move || models::fit(&rooms.timed_library(), &model, &settings)).await
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
    let shell = app.state::<Shell>();
    let rooms = shell.rooms().await?;
    let view = blocking(move || {
        let added = rooms.library().add(&path)?;
        let library = rooms.library();
        let id = library.id_of(&added.model);
        let mut models = models::list(&library, &rooms.settings()).into_iter();
        models.find(|model| model.id == id).ok_or(Refusal::NotFound)
    });
    let view = view.await?;
    shell.tell(&News::Models);
    Ok(view)
}

#[tauri::command]
pub(crate) async fn forget_model(app: AppHandle, id: String) -> Done<()> {
    let (rooms, model) = find(&app, id.clone()).await?;
    let of = rooms.clone();
    if blocking(move || Ok(of.library().forget(&model)?))
        .await?
        .is_none()
    {
        return Err(Refusal::Invalid {
            field: "model".to_owned(),
            reason: "only a model that you added can be taken off the list".to_owned(),
        });
    }
    leave(&app, &rooms, &id).await
}

#[tauri::command]
pub(crate) async fn remove_model(app: AppHandle, id: String) -> Done<u64> {
    let (rooms, model) = find(&app, id.clone()).await?;
    // A file that is mapped keeps its space until its process is gone.
    rooms
        .handle()
        .unload(ModelSelector::Model(id.clone()))
        .await?;
    let of = rooms.clone();
    let freed = blocking(move || {
        of.library()
            .remove(&model)
            .map_err(|error| Refusal::Storage {
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
    let of = rooms.clone();
    let asked = blocking(move || models::asking(&of.library(), &of.settings(), false));
    let asking = asked.await?.asking;
    let mut answer = rooms.handle().submit(ModelRequest {
        model: asking.model,
        work: Work::Load,
        over_budget: false,
        when_blocked: WhenBlocked::Refuse,
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
    rooms.handle().unload(ModelSelector::All).await?;
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

async fn find(app: &AppHandle, id: String) -> Done<(Arc<Rooms>, InstalledModel)> {
    let shell = app.state::<Shell>();
    let rooms = shell.rooms().await?;
    let of = rooms.clone();
    let model = blocking(move || Ok(of.library().resolve(&id)?)).await?;
    Ok((rooms, model))
}
