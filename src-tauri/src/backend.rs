//! The backend of the app: the store, the supervisor, the chat turns and the model source.
//!
//! If something cannot be opened, a substitute keeps the app working: a store in memory, or the
//! app's own supervisor instead of the shared instance. A notice says so.
//!
//! Rule: opening blocks nothing. A command that arrives earlier waits for the backend.

mod forgotten;
mod migrate_added;
pub(crate) mod shared_settings;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use transom_chat::{TurnEvent, Turns, request};
use transom_engine_host::ProcessWorkers;
use transom_library::{AddedModelsWatcher, Library, ThisMachine};
use transom_signals::Hardware;
use transom_store::{ConversationId, Notice, Settings, Store, StoreError};
use transom_supervisor::{
    Connection, Handle, Keychain, Saving, Secrets, Supervisor, Tuning,
    instance::{self, InstanceError},
};

use crate::model_source::ModelSource;
use crate::models::{self, Names};
use crate::wire::{AppEvent, StatusView, fields_of};
use crate::{backups, lock, now, status_view};
use forgotten::Forgotten;

/// Time limits at exit for saving responses and for unloading models.
const SAVE_TIMEOUT: Duration = Duration::from_secs(3);
const UNLOAD_TIMEOUT: Duration = Duration::from_secs(8);

/// Time limit at exit for a reconnect that is still running.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct Backend {
    /// Conversations and settings.
    pub(crate) store: Store,
    /// Questions and responses.
    pub(crate) turns: Turns,
    /// Temporary conversations, which are never written to the disk.
    temporary_store: Store,
    temporary_turns: Turns,
    pub(crate) hardware: Hardware,
    /// The catalog, the hub and the downloads.
    pub(crate) model_source: ModelSource,
    data_folder: PathBuf,
    /// The handle of the current supervisor.
    handles: watch::Sender<Handle>,
    /// The connection that the handle belongs to; `None` while reconnecting or closing.
    connection: tokio::sync::Mutex<Option<Connection>>,
    is_client: AtomicBool,
    forgotten: Forgotten,
    settings: Mutex<Settings>,
    /// Held while settings are changed, so that changes take effect in the order of the store.
    pub(crate) changing_settings: tokio::sync::Mutex<()>,
    names: Mutex<Names>,
    _added: AddedModelsWatcher,
}

impl Backend {
    /// Opens the backend and returns notices for the user. `on_catalog_change` is called when the
    /// catalog changes, `on_models_change` when another program added or removed a model or when
    /// display names may have changed.
    pub(crate) async fn open(
        data_folder: &Path,
        on_event: impl Fn(TurnEvent) + Clone + Send + Sync + 'static,
        mut on_catalog_change: impl FnMut() + Send + 'static,
        on_models_change: impl Fn() + Clone + Send + 'static,
    ) -> (Self, Vec<AppEvent>) {
        let mut notices = Vec::new();
        let store = open_store(data_folder.to_owned(), &mut notices).await;
        let settings = load_settings(&store, data_folder, &mut notices).await;
        let model_source = ModelSource::new(data_folder, {
            let on_models_change = on_models_change.clone();
            move || {
                on_catalog_change();
                on_models_change();
            }
        });
        let hardware = Hardware::detect();
        // Reads model files while the app connects to the supervisor.
        let recent = tokio::task::spawn_blocking({
            let machine = ThisMachine::read(&hardware, data_folder, None);
            let places = models::places(data_folder, &settings);
            let library = Library::new(model_source.catalog(), places, machine);
            let (store, settings) = (store.clone(), settings.clone());
            move || recent_models(&library, &store, settings)
        });
        let tuning = tuning_for(&settings);
        let (connection, is_client) = connect(data_folder, tuning, &hardware, &mut notices).await;
        let handles = watch::Sender::new(connection.handle());
        let turns = Turns::new(handles.subscribe(), store.clone(), now, on_event.clone());
        let temporary_store = in_memory(Store::temporary);
        let temporary_turns =
            Turns::new(handles.subscribe(), temporary_store.clone(), now, on_event);
        let (names, settings) = recent.await.unwrap_or((Names::default(), settings));
        tokio::spawn(backups::back_up_daily(store.clone()));
        let backend = Self {
            store,
            turns,
            temporary_store,
            temporary_turns,
            hardware,
            model_source,
            data_folder: data_folder.to_owned(),
            handles,
            connection: tokio::sync::Mutex::new(Some(connection)),
            is_client: AtomicBool::new(is_client),
            forgotten: Forgotten::default(),
            settings: Mutex::new(settings),
            changing_settings: tokio::sync::Mutex::default(),
            names: Mutex::new(names),
            _added: AddedModelsWatcher::start(data_folder.to_owned(), on_models_change),
        };
        (backend, notices)
    }

    /// Returns the store of temporary or of all other conversations.
    pub(crate) fn store_of(&self, is_temporary: bool) -> &Store {
        match is_temporary {
            true => &self.temporary_store,
            false => &self.store,
        }
    }

    /// Returns the turns of temporary or of all other conversations.
    pub(crate) fn turns_of(&self, is_temporary: bool) -> &Turns {
        match is_temporary {
            true => &self.temporary_turns,
            false => &self.turns,
        }
    }

    /// Deletes the temporary conversations that there are now, also from the KV caches of the models. One
    /// that starts meanwhile stays.
    pub(crate) async fn discard_temporary(&self) {
        let store = self.temporary_store.clone();
        let conversations = tokio::task::spawn_blocking(move || store.conversations(0, u32::MAX));
        let conversations = match conversations.await {
            Ok(Ok(conversations)) => conversations,
            Ok(Err(error)) => {
                return tracing::error!(%error, "a temporary chat could not be discarded");
            }
            Err(_) => return tracing::error!("the task that discards temporary chats panicked"),
        };
        for conversation in conversations {
            let id = conversation.id;
            self.temporary_turns.end(Some(id)).await;
            self.forget(id);
            let store = self.temporary_store.clone();
            match tokio::task::spawn_blocking(move || store.delete(id)).await {
                // Two pages may have left it.
                Ok(Ok(()) | Err(StoreError::NoConversation(_))) => {}
                Ok(Err(error)) => {
                    tracing::error!(%error, "a temporary chat could not be discarded")
                }
                Err(_) => tracing::error!("the task that discards temporary chats panicked"),
            }
        }
    }

    /// Deletes what models keep of a conversation, in memory and on the disk.
    pub(crate) fn forget(&self, conversation: ConversationId) {
        for id in request::request_ids(conversation) {
            self.forgotten.forget(Some(id), || self.handle());
        }
    }

    /// Deletes what models keep of all conversations, like [`Backend::forget`].
    pub(crate) fn forget_all(&self) {
        self.forgotten.forget(None, || self.handle());
    }

    /// Returns the current handle of the supervisor.
    pub(crate) fn handle(&self) -> Handle {
        self.handles.borrow().clone()
    }

    /// Returns a receiver of the handle, which changes after a reconnect.
    pub(crate) fn handles(&self) -> watch::Receiver<Handle> {
        self.handles.subscribe()
    }

    pub(crate) fn data_folder(&self) -> &Path {
        &self.data_folder
    }

    /// Returns the library of this user on this machine. Reads files.
    pub(crate) fn library(&self) -> Library {
        let (budget_bytes, in_use_bytes) = {
            let status = self.handle().status();
            let status = status.borrow();
            (status.budget_bytes, status.in_use_bytes)
        };
        let machine = ThisMachine::read(&self.hardware, &self.data_folder, None);
        let machine = machine.with_status(budget_bytes, in_use_bytes);
        let places = models::places(&self.data_folder, &self.settings());
        Library::new(self.model_source.catalog(), places, machine)
    }

    /// Returns the library with memory bandwidth, see [`ThisMachine::with_bandwidth`].
    pub(crate) fn timed_library(&self) -> Library {
        let library = self.library();
        library.with_machine(library.machine().clone().with_bandwidth(|| {}))
    }

    /// Returns true if the supervisor belongs to another program.
    pub(crate) fn is_client(&self) -> bool {
        self.is_client.load(Ordering::Relaxed)
    }

    /// Returns the supervisor's status as of now.
    pub(crate) async fn status_view(&self) -> StatusView {
        let status = self.handle().current_status().await;
        status_view::from_status(&status, self.is_client())
    }

    /// Reconnects after the supervisor has quit. Returns notices for the user, or `None` if the app
    /// is closing.
    pub(crate) async fn reconnect(&self) -> Option<Vec<AppEvent>> {
        let mut connection = self.connection.lock().await;
        // Dropped first: our own supervisor still holds the lock.
        drop(connection.take()?);
        let mut notices = Vec::new();
        let tuning = tuning_for(&self.settings());
        let (opened, is_client) =
            connect(&self.data_folder, tuning, &self.hardware, &mut notices).await;
        tracing::info!(is_client, "reconnected to a supervisor");
        self.is_client.store(is_client, Ordering::Relaxed);
        self.handles.send_replace(opened.handle());
        self.forgotten.repeat(&opened.handle());
        *connection = Some(opened);
        Some(notices)
    }

    pub(crate) fn settings(&self) -> Settings {
        lock(&self.settings).clone()
    }

    /// Returns cached model names, for callers that must not read files.
    pub(crate) fn names(&self) -> Names {
        lock(&self.names).clone()
    }

    /// Caches model names. Returns true if a name is new or changed.
    pub(crate) fn remember_names(&self, read: Names) -> bool {
        let mut names = lock(&self.names);
        let is_new = read.iter().any(|(id, name)| names.get(id) != Some(name));
        names.extend(read);
        is_new
    }

    /// Takes over new settings from the store and passes them to the supervisor.
    pub(crate) fn settings_changed(&self, settings: Settings) {
        self.handle().set_tuning(tuning_for(&settings));
        *lock(&self.settings) = settings;
    }

    /// Shuts down within a time limit: saves responses and unloads models.
    pub(crate) async fn close(&self) {
        let saved = async {
            self.temporary_turns.close().await;
            self.turns.close().await;
        };
        within(SAVE_TIMEOUT, saved, "a response was not saved in time").await;
        self.model_source.close().await;
        // Locked while a reconnect reads files.
        let locked = tokio::time::timeout(RECONNECT_TIMEOUT, self.connection.lock()).await;
        let Some(connection) = locked.ok().and_then(|mut connection| connection.take()) else {
            return;
        };
        close_connection(connection).await;
    }
}

/// Ends the app's part of the supervisor, which saves KV caches and unloads the models, unless other
/// programs use it.
async fn close_connection(connection: Connection) {
    // A separate task, so that a blocking close delays nothing here.
    let closing = tokio::spawn(connection.close());
    within(
        UNLOAD_TIMEOUT,
        closing,
        "the supervisor did not end in time",
    )
    .await;
}

/// Waits for `work` within a time limit, and logs `problem` if that is not enough.
async fn within(limit: Duration, work: impl Future, problem: &str) {
    if tokio::time::timeout(limit, work).await.is_err() {
        tracing::warn!("{problem}");
    }
}

/// Returns the names of recent models, and the settings with model ids in place of the paths that
/// older versions stored.
fn recent_models(library: &Library, store: &Store, settings: Settings) -> (Names, Settings) {
    let settings = match models::replace_paths_by_ids(library, &settings) {
        Some(patch) => store.patch_settings(&patch).unwrap_or_else(|error| {
            tracing::warn!(%error, "the settings still contain paths of models");
            settings
        }),
        None => settings,
    };
    (models::names_of_recent(library, &settings), settings)
}

/// Returns the supervisor's tuning for these settings.
fn tuning_for(settings: &Settings) -> Tuning {
    shared_settings::shared_part(&settings.behavior).tuning()
}

async fn open_store(data_folder: PathBuf, notices: &mut Vec<AppEvent>) -> Store {
    let opened = tokio::task::spawn_blocking(move || Store::open(&data_folder, now())).await;
    let (kind, reason) = match opened {
        Ok(Ok(opened)) => {
            for notice in &opened.notices {
                tracing::info!(code = notice.code(), "the store was repaired");
                // The user need not know of a backup before an update, or of interrupted responses,
                // which are marked as such.
                if !matches!(notice, Notice::BackedUp { .. } | Notice::Interrupted { .. }) {
                    notices.push(store_notice(notice));
                }
            }
            return opened.store;
        }
        Ok(Err(error)) => (error.kind(), error.to_string()),
        Err(error) => (None, error.to_string()),
    };
    tracing::error!(reason, "the store cannot be opened");
    notices.push(AppEvent::store_notice("store_unavailable", kind, reason));
    in_memory(Store::in_memory)
}

fn in_memory(create: fn() -> Result<Store, StoreError>) -> Store {
    create().unwrap_or_else(|error| {
        // Without memory for an empty database nothing else would work either.
        panic!("no store in memory: {error}")
    })
}

async fn load_settings(store: &Store, data_folder: &Path, notices: &mut Vec<AppEvent>) -> Settings {
    let (store, data_folder) = (store.clone(), data_folder.to_owned());
    let read = tokio::task::spawn_blocking(move || {
        let settings = store.settings()?;
        let (settings, migrated) = migrate_added::migrate(&store, settings, &data_folder);
        let (settings, shared) = shared_settings::sync(&store, settings, &data_folder);
        Ok::<_, StoreError>((settings, [migrated, shared]))
    });
    match read.await {
        Ok(Ok((settings, results))) => {
            for reason in results.into_iter().filter_map(Result::err) {
                tracing::warn!(reason, "a settings file cannot be used");
                notices.push(AppEvent::notice("other", reason));
            }
            settings
        }
        Ok(Err(error)) => {
            let (kind, reason) = (error.kind(), error.to_string());
            notices.push(AppEvent::store_notice("settings_unreadable", kind, reason));
            Settings::default()
        }
        Err(_) => Settings::default(),
    }
}

/// Returns the path of `transom`, which runs models in child processes. It is in the folder of the
/// app.
fn child_program() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.with_file_name(format!("transom{}", std::env::consts::EXE_SUFFIX))
}

/// Returns how KV caches are saved. Their key is in the keychain, but not for a data folder at another
/// place, as tests have.
fn saving() -> Saving {
    let is_default = std::env::var_os("TRANSOM_DATA").is_none();
    let keychain = || Arc::new(Keychain) as Arc<dyn Secrets>;
    Saving {
        secrets: is_default.then(keychain),
        ..Saving::default()
    }
}

/// Connects to a supervisor and sets its tuning. The boolean is true if it belongs to another
/// program.
async fn connect(
    data_folder: &Path,
    tuning: Tuning,
    hardware: &Hardware,
    notices: &mut Vec<AppEvent>,
) -> (Connection, bool) {
    let program = child_program();
    if !program.is_file() {
        let reason = format!("{} is missing; install Transom again", program.display());
        tracing::error!(reason, "the program for models is missing");
        notices.push(AppEvent::notice("engine_missing", reason));
    }
    let start = || {
        Supervisor::start(
            Arc::new(ProcessWorkers::program(&program)),
            Arc::from(transom_signals::system_signals()),
            hardware,
            tuning.clone(),
        )
        .with_saving(saving())
    };
    let (connection, is_client) = match instance::open(data_folder, start).await {
        Ok(connection) => {
            if let Some(error) = connection.sharing_error() {
                notices.push(AppEvent::notice(notice_code(error), error.to_string()));
            }
            let is_client = !connection.is_own();
            (connection, is_client)
        }
        Err(error) => {
            tracing::error!(%error, "no instance can be opened");
            notices.push(AppEvent::notice(notice_code(&error), error.to_string()));
            // Not shared: other programs can't find it, but this app works.
            (Connection::Running(start().handle()), false)
        }
    };
    // A shared instance gets the settings too: it belongs to the same user.
    connection.handle().set_tuning(tuning);
    (connection, is_client)
}

fn notice_code(error: &InstanceError) -> &'static str {
    match error {
        InstanceError::VersionMismatch(_) => "instance_other_version",
        InstanceError::Unavailable(_) => "instance_silent",
        InstanceError::Folder(_) => "instance_alone",
    }
}

/// Converts a notice of the store, with its values for the translated sentence.
fn store_notice(notice: &Notice) -> AppEvent {
    AppEvent::Notice {
        code: format!("store_{}", notice.code()),
        detail: notice.to_string(),
        values: fields_of(notice),
    }
}

#[cfg(test)]
mod tests;
