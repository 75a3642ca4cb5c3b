//! Finds models of other apps on the disk.
//!
//! Rule: nothing is written, moved or removed in the folders of other apps. Incomplete models are not
//! listed, because the app may still be downloading them, and neither are models that don't generate
//! text.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{InstalledModel, Origin, hugging_face, llama_cpp, models_in, ollama};
use crate::facts::ModelFacts;
use crate::model_files;
use crate::safetensors::read_json;

/// An app, or a library that many programs share, that stores models on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum App {
    /// The cache that Hugging Face's libraries, mlx-lm and current llama.cpp share.
    HuggingFace,
    /// LM Studio.
    LmStudio,
    /// The older cache of llama.cpp's programs.
    LlamaCpp,
    /// Ollama.
    Ollama,
}

impl App {
    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::HuggingFace => "Hugging Face",
            Self::LmStudio => "LM Studio",
            Self::LlamaCpp => "llama.cpp",
            Self::Ollama => "Ollama",
        }
    }
}

/// A folder in which an app stores models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppFolder {
    /// The app, which determines the layout of the folder.
    pub app: App,
    /// The folder; it need not exist.
    pub folder: PathBuf,
}

/// Levels of LM Studio's folders to search: `owner/name`, and one more for a file's own folder.
const DEPTH: usize = 3;
const MAX_SETTINGS_BYTES: u64 = 1 << 20;

impl AppFolder {
    pub(super) fn models(&self) -> impl Iterator<Item = InstalledModel> {
        let folder = model_files::absolute(&self.folder);
        let found = match self.app {
            App::HuggingFace => hugging_face::models_in(&folder),
            App::LmStudio => models_in(&folder, DEPTH),
            // `LLAMA_CACHE` may name a cache of either layout.
            App::LlamaCpp => {
                let mut found = llama_cpp::models_in(&folder);
                found.extend(hugging_face::models_in(&folder));
                found
            }
            App::Ollama => ollama::models_in(&folder),
        };
        let origin = Origin::OtherApp { app: self.app };
        let models = found.into_iter().filter(hugging_face::is_complete);
        let models = models.map(move |found| InstalledModel::new(found, origin.clone()));
        models.filter(|model| {
            model
                .facts
                .as_ref()
                .is_ok_and(|facts| generates_text(facts))
        })
    }
}

/// Returns the model folders of other apps on this computer, for this user.
pub fn app_folders() -> Vec<AppFolder> {
    let home = std::env::home_dir();
    let is_mac = cfg!(target_os = "macos");
    app_folders_for(home.as_deref(), is_mac, &|name| std::env::var_os(name))
}

/// Like [`app_folders`], for this home folder and these environment variables.
pub(super) fn app_folders_for(
    home: Option<&Path>,
    is_mac: bool,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Vec<AppFolder> {
    let environment = Environment {
        home,
        is_mac,
        variable,
    };
    let mut all = Vec::new();
    let mut add = |app, folder: Option<PathBuf>| {
        let one = folder.map(|folder| AppFolder { app, folder });
        all.extend(one.filter(|one| !all.contains(one)));
    };
    add(App::HuggingFace, environment.hugging_face());
    for folder in environment.lm_studio() {
        add(App::LmStudio, Some(folder));
    }
    add(App::LlamaCpp, environment.llama_cpp());
    add(App::Ollama, environment.ollama());
    all
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Settings {
    downloads_folder: Option<PathBuf>,
}

/// The home folder and the environment variables that determine where apps store models.
struct Environment<'a> {
    home: Option<&'a Path>,
    is_mac: bool,
    variable: &'a dyn Fn(&str) -> Option<OsString>,
}

impl Environment<'_> {
    fn folder(&self, variable: &str) -> Option<PathBuf> {
        let value = (self.variable)(variable).filter(|value| !value.is_empty())?;
        let path = PathBuf::from(value);
        match (path.strip_prefix("~"), self.home) {
            (Ok(rest), Some(home)) => Some(home.join(rest)),
            _ => Some(path),
        }
    }

    fn caches(&self) -> Option<PathBuf> {
        let own = self.folder("XDG_CACHE_HOME");
        own.or_else(|| Some(self.home?.join(".cache")))
    }

    /// Returns the cache folder, in the order in which Hugging Face's libraries search.
    fn hugging_face(&self) -> Option<PathBuf> {
        self.folder("HF_HUB_CACHE")
            .or_else(|| self.folder("HUGGINGFACE_HUB_CACHE"))
            .or_else(|| Some(self.folder("HF_HOME")?.join("hub")))
            .or_else(|| Some(self.caches()?.join("huggingface/hub")))
    }

    fn llama_cpp(&self) -> Option<PathBuf> {
        self.folder("LLAMA_CACHE").or_else(|| match self.is_mac {
            true => Some(self.home?.join("Library/Caches/llama.cpp")),
            false => Some(self.caches()?.join("llama.cpp")),
        })
    }

    fn ollama(&self) -> Option<PathBuf> {
        self.folder("OLLAMA_MODELS")
            .or_else(|| Some(self.home?.join(".ollama/models")))
    }

    /// Returns the folders from LM Studio's settings, and the default folders of current and older
    /// versions.
    fn lm_studio(&self) -> Vec<PathBuf> {
        let Some(home) = self.home else {
            return Vec::new();
        };
        let pointer = home.join(".lmstudio-home-pointer");
        let pointer = transom_files::read_to_string(&pointer, MAX_SETTINGS_BYTES).ok();
        let pointed = pointer.map(|path| PathBuf::from(path.trim()));
        let own = pointed.filter(|path| path.is_absolute());
        let own = own.unwrap_or_else(|| home.join(".lmstudio"));
        let settings = match self.is_mac {
            true => home.join("Library/Application Support"),
            false => self
                .folder("XDG_CONFIG_HOME")
                .unwrap_or_else(|| home.join(".config")),
        };
        let settings = [own.clone(), settings.join("LM Studio")];
        let chosen = settings.into_iter().filter_map(|folder| {
            let file = folder.join("settings.json");
            let settings: Settings = read_json(&file, MAX_SETTINGS_BYTES).ok()?;
            settings.downloads_folder.filter(|path| path.is_absolute())
        });
        let usual = [own.join("models"), home.join(".cache/lm-studio/models")];
        chosen.chain(usual).collect()
    }
}

/// Returns true if the facts are those of a model with layers that generates text. A projector for
/// images is none.
fn generates_text(facts: &ModelFacts) -> bool {
    !matches!(&*facts.architecture, "clip" | "mmproj") && facts.n_layers.is_some_and(|n| n > 0)
}
