//! The models that there are, in a window's terms, and what is asked of the one that was chosen.
//!
//! Rule: reading files blocks, so all of this runs where it may.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use transom_catalog::fit::{self, KvChoice, Machine};
use transom_catalog::{Format, Installed, ModelFacts, Origin, Places, installed};
use transom_chat::turns::Asking;
use transom_engine::{KvCacheChoice, Limits, ModelSource};
use transom_signals::Hardware;
use transom_store::{KvCache, ModelSettings, Settings};
use transom_supervisor::{ModelSpec, Role, variants};

use crate::wire::{FactsView, FitView, ModelView, OriginView, Refusal, VerdictView};

/// Most models that are remembered as recently used.
pub(crate) const MAX_RECENT: usize = 8;

/// Where to look for models.
pub(crate) fn places(data_folder: &Path, settings: &Settings) -> Places {
    Places {
        executable: installed::own_executable(),
        data_folder: Some(data_folder.to_owned()),
        added: settings.added_models.clone(),
        elsewhere: installed::elsewhere(),
    }
}

/// Every model that is there, and the chosen one also if it is not.
pub(crate) fn list(places: &Places, settings: &Settings) -> Vec<ModelView> {
    let models = installed::list(places);
    let chosen = chosen_id(&models, settings);
    let mut views: Vec<ModelView> = models
        .iter()
        .map(|model| view(model, chosen.as_deref()))
        .collect();
    if let Some(id) = &chosen
        && !views.iter().any(|view| view.is_chosen)
        && let Ok(model) = Installed::at(id, Origin::Added { path: id.clone() })
    {
        views.push(view(&model, Some(&model.id)));
    }
    views
}

/// The model that is asked: the chosen one, else the starter, else the first that there is.
fn chosen_id(models: &[Installed], settings: &Settings) -> Option<PathBuf> {
    let chosen = settings.model.as_ref().map(PathBuf::from);
    let starter = models.iter().find(|model| model.origin == Origin::Starter);
    let any = starter.or(models.first()).map(|model| model.id.clone());
    chosen.or(any)
}

fn view(model: &Installed, chosen: Option<&Path>) -> ModelView {
    ModelView {
        id: id_of(model),
        name: model.name().to_owned(),
        origin: match &model.origin {
            Origin::Starter => OriginView::Starter,
            Origin::ModelsFolder => OriginView::Ours,
            Origin::Added { .. } => OriginView::Added,
            Origin::Elsewhere { app } => OriginView::Elsewhere {
                app: app.name().to_owned(),
            },
        },
        is_starter: model.origin == Origin::Starter,
        can_be_removed: model.origin == Origin::ModelsFolder,
        entry: None,
        size_bytes: model.size_bytes,
        sampling: None,
        is_added: matches!(model.origin, Origin::Added { .. }),
        is_chosen: chosen == Some(&*model.id),
        facts: model
            .facts
            .as_ref()
            .ok()
            .map(|facts| facts_view(model, facts)),
        problem: model.facts.as_ref().err().cloned(),
    }
}

/// The name by which commands and settings know a model.
pub(crate) fn id_of(model: &Installed) -> String {
    model.id.to_string_lossy().into_owned()
}

fn facts_view(model: &Installed, facts: &ModelFacts) -> FactsView {
    let formats = model.formats().into_iter().map(|format| match format {
        Format::Gguf => "gguf".to_owned(),
        Format::Safetensors => "mlx".to_owned(),
    });
    FactsView {
        architecture: facts.architecture.clone(),
        n_parameters: facts.n_parameters,
        quantisation: facts.packing(),
        formats: formats.collect(),
        size_bytes: model.size_bytes,
        max_context_length: facts
            .context_length
            .map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
        has_chat_template: facts.chat_template.is_some(),
    }
}

/// What is asked of the chosen model.
pub(crate) fn asking(
    places: &Places,
    settings: &Settings,
    insist: bool,
) -> Result<Asking, Refusal> {
    let models = installed::list(places);
    let id = chosen_id(&models, settings).ok_or_else(|| Refusal::Other {
        reason: "there is no model; add one in Settings".to_owned(),
    })?;
    let known = models.into_iter().find(|model| model.id == id);
    let model = match known {
        Some(model) => model,
        None => find(places, &id.to_string_lossy())?,
    };
    let chosen = settings
        .models
        .get(&id_of(&model))
        .cloned()
        .unwrap_or_default();
    Ok(Asking {
        model: spec(&model, &chosen),
        settings: chosen,
        insist,
    })
}

fn spec(model: &Installed, settings: &ModelSettings) -> ModelSpec {
    ModelSpec {
        name: model.name().to_owned(),
        role: Role::Chat,
        variants: sources(model),
        context_length: settings.context_length.map(|tokens| tokens as usize),
        kv_cache: match settings.kv_cache {
            KvCache::Automatic => KvCacheChoice::Automatic,
            KvCache::Full => KvCacheChoice::Full,
            KvCache::Small => KvCacheChoice::Small,
        },
    }
}

/// The model of an id.
pub(crate) fn find(places: &Places, id: &str) -> Result<Installed, Refusal> {
    let path = Path::new(id);
    let known = installed::list(places)
        .into_iter()
        .find(|model| model.id == path);
    if let Some(known) = known {
        return Ok(known);
    }
    let origin = Origin::Added {
        path: path.to_owned(),
    };
    Installed::at(path, origin).map_err(|error| Refusal::Invalid {
        field: "model".to_owned(),
        reason: error.to_string(),
    })
}

/// Whether a model fits under `settings`, where models may use `budget_bytes` together.
pub(crate) fn fit(
    model: &Installed,
    settings: &ModelSettings,
    hardware: &Hardware,
    budget_bytes: u64,
) -> Result<FitView, Refusal> {
    let machine = Machine {
        has_gpu: variants::mlx_has_gpu(hardware),
        memory_bytes: hardware.memory_bytes,
    };
    let facts = facts_that_run(model, hardware).map_err(|reason| Refusal::Other { reason })?;
    let kv = match settings.kv_cache {
        KvCache::Automatic => KvChoice::Automatic,
        KvCache::Full => KvChoice::Full,
        KvCache::Small => KvChoice::Small,
    };
    let context_length = settings
        .context_length
        .map_or(Limits::default().context_length as u64, u64::from);
    // Whatever else is loaded makes room.
    let taken_bytes = 0;
    let fit = fit::fit(
        &facts,
        &machine,
        kv,
        context_length,
        budget_bytes,
        taken_bytes,
    );
    let tokens = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    Ok(FitView {
        weight_bytes: fit.need.weight_bytes,
        kv_cache_bytes: fit.need.kv_cache_bytes,
        headroom_bytes: fit.need.headroom_bytes,
        draft_bytes: 0,
        prefix_bytes: 0,
        verdict: VerdictView::Fits,
        speed: None,
        is_measured: false,
        budget_bytes,
        taken_bytes,
        context_length: tokens(fit.need.context_length),
        context_that_fits: fit.context_that_fits.map(tokens),
        fits: fit.fits(),
    })
}

/// The facts of the form that is tried first here, of those that can be used.
fn facts_that_run(model: &Installed, hardware: &Hardware) -> Result<Arc<ModelFacts>, String> {
    let forms = variants::in_order(sources(model), hardware);
    let mut usable = forms
        .iter()
        .filter_map(|form| model.facts_of(&form.path).ok());
    match usable.next() {
        Some(facts) => Ok(facts),
        None => model.facts.clone(),
    }
}

/// A model's forms, as an engine takes them.
fn sources(model: &Installed) -> Vec<ModelSource> {
    let paths = model.variants().into_iter();
    paths.map(|path| ModelSource { path }).collect()
}

/// The models last used, with `id` as the latest.
pub(crate) fn with_recent(recent: &[String], id: &str) -> Vec<String> {
    let others = recent.iter().filter(|other| *other != id).cloned();
    std::iter::once(id.to_owned())
        .chain(others)
        .take(MAX_RECENT)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places_with_starter() -> (tempfile::TempDir, Places) {
        let root = tempfile::tempdir().unwrap();
        let starter = root.path().join("assets/starter");
        std::fs::create_dir_all(&starter).unwrap();
        std::fs::write(starter.join("config.json"), "{}").unwrap();
        std::fs::create_dir_all(root.path().join("data/models/own")).unwrap();
        std::fs::write(root.path().join("data/models/own/own.gguf"), "GGUF").unwrap();
        let places = Places {
            executable: Some(root.path().join("transom-app")),
            data_folder: Some(root.path().join("data")),
            added: Vec::new(),
            elsewhere: Vec::new(),
        };
        (root, places)
    }

    #[test]
    fn the_starter_is_asked_until_another_is_chosen() {
        let (_root, places) = places_with_starter();
        let mut settings = Settings::default();
        let models = list(&places, &settings);
        assert_eq!(models.len(), 2);
        assert!(models[0].is_starter && models[0].is_chosen);
        settings.model = Some(models[1].id.clone());
        let models = list(&places, &settings);
        assert!(!models[0].is_chosen && models[1].is_chosen);
        let asking = asking(&places, &settings, true).unwrap();
        assert_eq!(asking.model.name, "own");
        assert!(asking.insist);
    }

    #[test]
    fn a_damaged_model_is_listed_with_its_problem() {
        let (_root, places) = places_with_starter();
        let models = list(&places, &Settings::default());
        assert!(models[1].problem.is_some() && models[1].facts.is_none());
    }

    #[test]
    fn a_chosen_model_that_went_away_is_shown_with_its_problem_and_not_replaced() {
        let (_root, places) = places_with_starter();
        let settings = Settings {
            model: Some("/nowhere/gone.gguf".to_owned()),
            ..Settings::default()
        };
        let models = list(&places, &settings);
        let chosen = models.iter().find(|model| model.is_chosen).unwrap();
        assert_eq!(chosen.id, "/nowhere/gone.gguf");
        assert!(chosen.problem.is_some());
        assert_eq!(
            asking(&places, &settings, false).unwrap().model.name,
            "gone"
        );
    }

    #[test]
    fn each_model_is_asked_with_its_own_settings() {
        let (_root, places) = places_with_starter();
        let mut settings = Settings::default();
        let id = list(&places, &settings)[0].id.clone();
        let chosen = ModelSettings {
            context_length: Some(1024),
            kv_cache: KvCache::Small,
            ..ModelSettings::default()
        };
        settings.models.insert(id, chosen.clone());
        let asking = asking(&places, &settings, false).unwrap();
        assert_eq!(asking.model.context_length, Some(1024));
        assert_eq!(asking.model.kv_cache, KvCacheChoice::Small);
        assert_eq!(asking.settings, chosen);
    }

    #[test]
    fn recent_models_are_each_there_once_latest_first() {
        let recent: Vec<String> = ["a", "b", "c"].map(str::to_owned).into();
        assert_eq!(with_recent(&recent, "c"), ["c", "a", "b"]);
        let many: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        assert_eq!(with_recent(&many, "x").len(), MAX_RECENT);
    }
}
