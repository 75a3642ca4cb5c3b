//! Models: listed, chosen, tried for size, loaded and given back.
//!
//! Rule: choosing a model takes effect with the next answer; it never ends a running one.

use std::sync::Arc;

use serde_json::json;
use tauri::{AppHandle, Manager, State, WebviewWindow};
use tauri_plugin_dialog::DialogExt;
use tokio::sync::oneshot;
use transom_catalog::{Installed, Origin};
use transom_store::ModelSettings;
use transom_supervisor::{Ask, Outcome, Unload, WhenHeld, Work};

use super::app::change_settings;
use super::conversations::hold;
use super::other;
use crate::models as catalogue;
use crate::rooms::Rooms;
use crate::shell::{Shell, blocking};
use crate::wire::{FitView, ModelView, News, Refusal};

type Done<T> = Result<T, Refusal>;

#[tauri::command]
pub(crate) async fn models(shell: State<'_, Shell>) -> Done<Vec<ModelView>> {
    let settings = shell.rooms().await?.settings();
    let places = catalogue::places(&shell.data_folder, &settings);
    blocking(move || Ok(catalogue::list(&places, &settings))).await
}

#[tauri::command]
pub(crate) async fn choose_model(app: AppHandle, id: String) -> Done<()> {
    choose(app, id).await
}

/// Asks a model from now on.
pub(crate) async fn choose(app: AppHandle, id: String) -> Done<()> {
    let (rooms, model) = find(&app, id).await?;
    let id = catalogue::id_of(&model);
    let recent = catalogue::with_recent(&rooms.settings().recent_models, &id);
    change_settings(&app, json!({ "model": id, "recent_models": recent })).await?;
    app.state::<Shell>().tell(&News::Models);
    Ok(())
}

#[tauri::command]
pub(crate) async fn fit(app: AppHandle, id: String, settings: ModelSettings) -> Done<FitView> {
    let (rooms, model) = find(&app, id).await?;
    let budget_bytes = rooms.handle().status().borrow().budget_bytes;
    let hardware = rooms.hardware.clone();
    blocking(move || catalogue::fit(&model, &settings, &hardware, budget_bytes)).await
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
    let origin = Origin::Added { path: path.clone() };
    let added = blocking({
        let path = path.clone();
        move || {
            let model = Installed::at(&path, origin);
            let refused = |reason: String| Refusal::Invalid {
                field: "model".to_owned(),
                reason,
            };
            let model = model.map_err(|error| refused(error.to_string()))?;
            match &model.facts {
                Ok(_) => Ok(model),
                Err(problem) => Err(refused(problem.clone())),
            }
        }
    })
    .await?;
    let rooms = app.state::<Shell>().rooms().await?;
    let mut paths = rooms.settings().added_models;
    if !paths.contains(&path) {
        paths.push(path);
        change_settings(&app, json!({ "added_models": paths })).await?;
    }
    let shell = app.state::<Shell>();
    shell.tell(&News::Models);
    let settings = rooms.settings();
    let places = catalogue::places(&shell.data_folder, &settings);
    let id = catalogue::id_of(&added);
    blocking(move || {
        let mut models = catalogue::list(&places, &settings).into_iter();
        Ok(models.find(|model| model.id == id))
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
    let settings = rooms.settings();
    let mut paths = settings.added_models;
    paths.retain(|other| other != path);
    let mut recent = settings.recent_models;
    recent.retain(|other| *other != id);
    let mut patch = json!({ "added_models": paths, "recent_models": recent });
    if settings.model.as_deref() == Some(&id) {
        patch["model"] = serde_json::Value::Null;
    }
    change_settings(&app, patch).await?;
    app.state::<Shell>().tell(&News::Models);
    Ok(())
}

#[tauri::command]
pub(crate) async fn remove_model(app: AppHandle, id: String) -> Done<u64> {
    let (_, _model) = find(&app, id).await?;
    Err(Refusal::NotFound)
}

#[tauri::command]
pub(crate) async fn load_model(shell: State<'_, Shell>) -> Done<()> {
    let rooms = shell.rooms().await?;
    let settings = rooms.settings();
    let places = catalogue::places(&shell.data_folder, &settings);
    let asking = blocking(move || catalogue::asking(&places, &settings, false)).await?;
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
    let places = catalogue::places(&shell.data_folder, &rooms.settings());
    let model = blocking(move || catalogue::find(&places, &id)).await?;
    Ok((rooms, model))
}
