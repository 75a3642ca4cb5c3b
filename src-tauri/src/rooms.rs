//! The rooms below, opened: the store, the supervisor, and the turns between them.
//!
//! What cannot be opened is stood in for, so that the app always works: without the store in memory,
//! without the running instance with a supervisor of its own. A notice says so.
//!
//! Rule: opening blocks nobody; a command that comes before it is done waits for it.

mod added;
pub(crate) mod shared_settings;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use transom_chat::{Happening, Turns};
use transom_engine_host::ProcessWorkers;
use transom_library::AddedModelsWatcher;
use transom_library::{Library, ThisMachine};
use transom_signals::Hardware;
use transom_store::{Notice, Settings, Store, StoreError, Timestamp};
use transom_supervisor::{
    Connection, Handle, ModelSelector, Supervisor, Tuning,
    instance::{self, InstanceError},
};

use crate::backups::Backups;
use crate::models::{self, Names};
use crate::shelf::Shelf;
use crate::wire::News;

/// Longest wait for answers to be saved, and for models to go, when the app ends.
const SAVED_WITHIN: Duration = Duration::from_secs(3);
const CLOSED_WITHIN: Duration = Duration::from_secs(8);

/// Longest wait for what is left when the models are gone.
const LET_GO_WITHIN: Duration = Duration::from_secs(1);

/// See the head of this file.
pub(crate) struct Rooms {
    /// Conversations and settings.
    pub(crate) store: Store,
    /// Questions and answers.
    pub(crate) turns: Turns,
    /// This machine.
    pub(crate) hardware: Hardware,
    /// Models that can be had.
    pub(crate) shelf: Shelf,
    link: Arc<Link>,
    settings: Mutex<Settings>,
    names: Mutex<Names>,
    _added: AddedModelsWatcher,
    _backups: Backups,
}

/// The way to the supervisor, which may change while the app runs.
struct Link {
    data_folder: PathBuf,
    handles: watch::Sender<Handle>,
    /// The connection that the handle is of; `None` when it is being made anew or closed.
    connection: tokio::sync::Mutex<Option<Connection>>,
    is_guest: watch::Sender<bool>,
}

impl Rooms {
    /// Opens everything, and returns what a person should know of it.
    /// `on_list` hears that another list of models is in force, `on_models` that another program
    /// added or forgot a model, or that models may be called otherwise.
    pub(crate) async fn open(
        data_folder: &Path,
        tell: impl Fn(Happening) + Send + Sync + 'static,
        mut on_list: impl FnMut() + Send + 'static,
        on_models: impl Fn() + Clone + Send + 'static,
    ) -> (Self, Vec<News>) {
        let mut notices = Vec::new();
        let store = open_store(data_folder.to_owned(), &mut notices).await;
        let settings = settings_of(&store, data_folder, &mut notices).await;
        let shelf = Shelf::new(data_folder, {
            let on_models = on_models.clone();
            move || {
                on_list();
                on_models();
            }
        });
        let hardware = Hardware::detect();
        // Files are read for it, while the supervisor is looked for.
        let recent = tokio::task::spawn_blocking({
            let machine = ThisMachine::read(&hardware, data_folder, None);
            let places = models::places(data_folder, &settings);
            let library = Library::new(shelf.list(), places, machine);
            let (store, settings) = (store.clone(), settings.clone());
            move || recent_models(&library, &store, settings)
        });
        let tuned = tuning(&settings);
        let (connection, is_guest) =
            open_link(data_folder, tuned.clone(), &hardware, &mut notices).await;
        let handle = connection.handle();
        // Of a running instance the user's settings hold as well: it is the same user.
        handle.set_tuning(tuned);
        let link = Arc::new(Link {
            data_folder: data_folder.to_owned(),
            is_guest: watch::Sender::new(is_guest),
            handles: watch::Sender::new(handle),
            connection: tokio::sync::Mutex::new(Some(connection)),
        });
        let turns = Turns::new(link.handles.subscribe(), store.clone(), now, tell);
        let (names, settings) = recent.await.unwrap_or((Names::default(), settings));
        let rooms = Self {
            store: store.clone(),
            turns,
            hardware,
            shelf,
            link,
            settings: Mutex::new(settings),
            names: Mutex::new(names),
            _added: AddedModelsWatcher::start(data_folder.to_owned(), on_models),
            _backups: Backups::start(store.clone()),
        };
        (rooms, notices)
    }

    /// The supervisor as it is reached now.
    pub(crate) fn handle(&self) -> Handle {
        self.link.handles.borrow().clone()
    }

    /// The data folder.
    pub(crate) fn data_folder(&self) -> &Path {
        &self.link.data_folder
    }

    /// Returns the models of this person on this machine as it is now. Reads files.
    pub(crate) fn library(&self) -> Library {
        let (budget_bytes, in_use_bytes) = {
            let status = self.handle().status();
            let status = status.borrow();
            (status.budget_bytes, status.in_use_bytes)
        };
        let folder = &self.link.data_folder;
        let machine = ThisMachine::read(&self.hardware, folder, None);
        let machine = machine.with_status(budget_bytes, in_use_bytes);
        let places = models::places(folder, &self.settings());
        Library::new(self.shelf.list(), places, machine)
    }

    /// The same, with the speed of the memory; see [`ThisMachine::with_bandwidth`].
    pub(crate) fn timed_library(&self) -> Library {
        let library = self.library();
        library.with_machine(library.machine().clone().with_bandwidth(|| {}))
    }

    /// Whether the supervisor is another program's.
    pub(crate) fn is_guest(&self) -> bool {
        *self.link.is_guest.borrow()
    }

    /// Looks for a supervisor again after the last one went away. Returns what a person should know
    /// of it; `None` when the app is closing.
    pub(crate) async fn reconnect(&self) -> Option<Vec<News>> {
        let mut connection = self.link.connection.lock().await;
        // Dropped first: an own one still has the lock.
        drop(connection.take()?);
        let mut notices = Vec::new();
        let tuned = tuning(&self.settings());
        let folder = &self.link.data_folder;
        let (opened, is_guest) =
            open_link(folder, tuned.clone(), &self.hardware, &mut notices).await;
        tracing::info!(is_guest, "connected anew");
        opened.handle().set_tuning(tuned);
        self.link.is_guest.send_replace(is_guest);
        self.link.handles.send_replace(opened.handle());
        *connection = Some(opened);
        Some(notices)
    }

    /// What the user chose.
    pub(crate) fn settings(&self) -> Settings {
        lock(&self.settings).clone()
    }

    /// The names of models, for what must not read their files.
    pub(crate) fn names(&self) -> Names {
        lock(&self.names).clone()
    }

    /// Remembers names that were read. Returns whether one of them is another than before.
    pub(crate) fn learn(&self, read: Names) -> bool {
        let mut names = lock(&self.names);
        let is_new = read.iter().any(|(id, name)| names.get(id) != Some(name));
        names.extend(read);
        is_new
    }

    /// The settings are these now, as the store has them. They hold for the supervisor at once.
    pub(crate) fn settings_changed(&self, settings: Settings) {
        self.handle().set_tuning(tuning(&settings));
        *lock(&self.settings) = settings;
    }

    /// Begins no new answers, or goes on.
    pub(crate) fn pause(&self, is_paused: bool) {
        self.handle().set_paused(is_paused);
    }

    /// Ends everything in order, within a bound: answers are saved, models give their memory back.
    pub(crate) async fn close(&self) {
        if tokio::time::timeout(SAVED_WITHIN, self.turns.close())
            .await
            .is_err()
        {
            tracing::warn!("an answer was not saved in time");
        }
        self.shelf.close().await;
        let Some(connection) = self.link.connection.lock().await.take() else {
            return;
        };
        let is_awaited = connection.n_remote_requests() > 0;
        if connection.is_own() && !is_awaited {
            // First what takes memory; the rest is threads and a socket, which go with the process.
            let gone = connection.handle().unload(ModelSelector::All);
            if tokio::time::timeout(CLOSED_WITHIN, gone).await.is_err() {
                tracing::warn!("a model was not unloaded in time");
            }
        }
        let within = if is_awaited {
            CLOSED_WITHIN
        } else {
            LET_GO_WITHIN
        };
        // A task of its own: what blocks in there holds up nothing here.
        let closing = tokio::spawn(connection.close());
        if tokio::time::timeout(within, closing).await.is_err() {
            tracing::warn!("the supervisor did not end in time");
        }
    }
}

/// Returns the names of the models that were used last, and the settings with the ids of models in
/// place of the paths that older versions wrote.
fn recent_models(library: &Library, store: &Store, settings: Settings) -> (Names, Settings) {
    let settings = match models::with_ids(library, &settings) {
        Some(patch) => store.patch_settings(&patch).unwrap_or_else(|error| {
            tracing::warn!(%error, "the settings keep paths of models");
            settings
        }),
        None => settings,
    };
    (models::names_of_recent(library, &settings), settings)
}

/// The supervisor's tuning under these settings.
fn tuning(settings: &Settings) -> Tuning {
    shared_settings::of(&settings.behavior).tuning()
}

/// What a panic left is whole: every change is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time, for what is written down.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// The program that computes answers, beside this one.
pub(crate) fn worker_program() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.with_file_name(format!("transom{}", std::env::consts::EXE_SUFFIX))
}

async fn open_store(data_folder: PathBuf, notices: &mut Vec<News>) -> Store {
    let opened = tokio::task::spawn_blocking(move || Store::open(&data_folder, now())).await;
    let reason = match opened {
        Ok(Ok(opened)) => {
            for happened in &opened.notices {
                tracing::info!(code = happened.code(), "the store was put right");
                // A copy before an update, and answers that show for themselves that they were
                // cut short, are no news.
                if !matches!(
                    happened,
                    Notice::BackedUp { .. } | Notice::Interrupted { .. }
                ) {
                    notices.push(store_notice(happened));
                }
            }
            return opened.store;
        }
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    tracing::error!(reason, "the store cannot be opened");
    notices.push(News::notice("store_unavailable", reason));
    Store::in_memory().unwrap_or_else(|error| {
        // Without memory for an empty database nothing else would run either.
        panic!("no store in memory: {error}")
    })
}

async fn settings_of(store: &Store, data_folder: &Path, notices: &mut Vec<News>) -> Settings {
    let (store, data_folder) = (store.clone(), data_folder.to_owned());
    let read = tokio::task::spawn_blocking(move || {
        let settings = store.settings()?;
        let (settings, moved) = added::moved(&store, settings, &data_folder);
        let (settings, shared) = shared_settings::read(&store, settings, &data_folder);
        Ok::<_, StoreError>((settings, [moved, shared]))
    });
    match read.await {
        Ok(Ok((settings, results))) => {
            for reason in results.into_iter().filter_map(Result::err) {
                tracing::warn!(reason, "a file of settings cannot be used as it is");
                notices.push(News::notice("other", reason));
            }
            settings
        }
        Ok(Err(error)) => {
            notices.push(News::notice("settings_unreadable", error.to_string()));
            Settings::default()
        }
        Err(_) => Settings::default(),
    }
}

/// A supervisor, and whether it is another program's.
async fn open_link(
    data_folder: &Path,
    tuning: Tuning,
    hardware: &Hardware,
    notices: &mut Vec<News>,
) -> (Connection, bool) {
    let program = worker_program();
    if !program.is_file() {
        let reason = format!("{} is not there; install the app again", program.display());
        tracing::error!(reason, "no program for answers");
        notices.push(News::notice("engine_missing", reason));
    }
    let start = || start(tuning.clone(), hardware);
    match instance::open(data_folder, start).await {
        Ok(connection) => {
            if let Some(error) = connection.sharing_error() {
                notices.push(News::notice(code_of(error), error.to_string()));
            }
            let is_guest = !connection.is_own();
            (connection, is_guest)
        }
        Err(error) => {
            tracing::error!(%error, "no instance can be opened");
            notices.push(News::notice(code_of(&error), error.to_string()));
            // Alone: others do not find it, but this app answers.
            (Connection::Running(start().handle()), false)
        }
    }
}

fn start(tuning: Tuning, hardware: &Hardware) -> Supervisor {
    Supervisor::start(
        Arc::new(ProcessWorkers::program(&worker_program())),
        Arc::from(transom_signals::system_signals()),
        hardware,
        tuning,
    )
}

fn code_of(error: &InstanceError) -> &'static str {
    match error {
        InstanceError::VersionMismatch { .. } => "instance_other_version",
        InstanceError::Refused { .. } | InstanceError::Unresponsive { .. } => "instance_silent",
        InstanceError::NoHome
        | InstanceError::Folder { .. }
        | InstanceError::Unsafe { .. }
        | InstanceError::PathTooLong { .. } => "instance_alone",
    }
}

/// What the store did when it was opened, with its counts and files for the sentence of the page.
fn store_notice(happened: &Notice) -> News {
    let values = match serde_json::to_value(happened) {
        Ok(serde_json::Value::Object(values)) => values,
        _ => serde_json::Map::new(),
    };
    News::Notice {
        code: format!("store_{}", happened.code()),
        detail: happened.to_string(),
        values,
    }
}
