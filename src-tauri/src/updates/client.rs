//! Asks the server, downloads, verifies and installs, through Tauri's updater.
//!
//! Rule: a request contains no version, no id and no cookie, only encrypted connections are used, and a
//! file counts only with a signature of this app's key for exactly the announced version
//! (`requireSignedVersion` in `tauri.conf.json`). The updater verifies again before it installs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use semver::Version;
use tauri::{AppHandle, Runtime};
use tauri_plugin_updater::{Update, Updater, UpdaterExt};
use tokio::sync::oneshot;

use super::place::Place;
use super::problem::of_error;
use super::release::{check_space, is_newer, is_older, notes, size_of};
use super::source::Source;
use crate::lock;
use crate::wire::{OfferView, UpdateProblem};

/// Limit of a check, whose response has some kilobytes.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a server may send nothing.
const SILENCE: Duration = Duration::from_secs(30);

/// What a server learns of the program that asks.
const USER_AGENT: &str = "transom";

/// Asks one server about updates of one copy of the app.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) source: Source,
    pub(super) place: Place,
}

/// The result of a check.
pub(super) enum Found {
    Newer(Box<Offer>),
    /// There is nothing newer. `older` is what the server offered, if that is an older version.
    UpToDate {
        older: Option<Version>,
    },
}

/// A newer version.
#[derive(Clone)]
pub(super) struct Offer {
    update: Update,
    pub(super) size_bytes: u64,
}

impl Offer {
    pub(super) fn view(&self) -> OfferView {
        OfferView {
            version: self.update.version.clone(),
            size_bytes: self.size_bytes,
            notes: notes(self.update.body.as_deref().unwrap_or_default()),
        }
    }
}

impl Client {
    /// Asks the server for the newest version.
    pub(super) async fn check<R: Runtime>(
        &self,
        app: &AppHandle<R>,
    ) -> Result<Found, UpdateProblem> {
        let older = Arc::new(Mutex::new(None));
        let updater = self.updater(app, older.clone()).map_err(problem)?;
        match updater.check().await.map_err(problem)? {
            Some(update) => Ok(Found::Newer(Box::new(Offer {
                size_bytes: size_of(&update.raw_json, &update.download_url)?,
                update,
            }))),
            None => Ok(Found::UpToDate {
                older: lock(&older).take(),
            }),
        }
    }

    /// Returns the updater. A version that is older than this one goes to `older`.
    fn updater<R: Runtime>(
        &self,
        app: &AppHandle<R>,
        older: Arc<Mutex<Option<Version>>>,
    ) -> tauri_plugin_updater::Result<Updater> {
        let builder = app.updater_builder();
        // A proxy of the computer does not know the server of a test.
        let builder = if cfg!(test) {
            builder.no_proxy()
        } else {
            builder
        };
        builder
            .pubkey(&*self.source.key)
            .endpoints(vec![self.source.url.clone()])?
            .executable_path(&self.place.program)
            .clear_headers()
            .timeout(CHECK_TIMEOUT)
            .version_comparator(move |current, release| {
                if is_older(&current, &release.version) {
                    *lock(&older) = Some(release.version.clone());
                }
                is_newer(&current, &release.version)
            })
            .configure_client(|client| {
                client
                    .https_only(true)
                    .referer(false)
                    .user_agent(USER_AGENT)
                    .connect_timeout(CONNECT_TIMEOUT)
                    .read_timeout(SILENCE)
            })
            .build()
    }

    /// Downloads a version and verifies its signature. `free_bytes` is the free space where the app is;
    /// `on_bytes` gets the number of bytes so far.
    pub(super) async fn download(
        &self,
        offer: &Offer,
        free_bytes: Option<u64>,
        mut on_bytes: impl FnMut(u64),
    ) -> Result<Vec<u8>, UpdateProblem> {
        check_space(offer.size_bytes, free_bytes)?;
        let mut done_bytes = 0;
        // The updater would keep an endless file in memory.
        let (stop, too_long) = oneshot::channel();
        let mut stop = Some(stop);
        let on_chunk = |chunk: usize, _| {
            done_bytes += chunk as u64;
            if done_bytes <= offer.size_bytes {
                on_bytes(done_bytes);
            } else if let Some(stop) = stop.take() {
                let _ = stop.send(());
            }
        };
        let done = tokio::select! {
            biased;
            Ok(()) = too_long => Err(UpdateProblem::Malformed),
            done = offer.update.download(on_chunk, || {}) => done.map_err(problem),
        };
        match done_bytes > offer.size_bytes {
            true => Err(UpdateProblem::Malformed),
            false => done,
        }
    }

    /// Replaces the app. Blocks, and on a Mac the system may ask for a password. If it fails, the app is
    /// as it was, unless the problem says something else.
    pub(super) fn install(&self, offer: &Offer, file: &[u8]) -> Result<(), UpdateProblem> {
        offer.update.install(file).map_err(problem)
    }
}

fn problem(error: tauri_plugin_updater::Error) -> UpdateProblem {
    tracing::warn!(%error, "an update failed");
    of_error(&error)
}
