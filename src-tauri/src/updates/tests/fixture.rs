//! A published release, a copy of the app, and an app that writes down what it is told to do.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use minisign::KeyPair;
use serde_json::{Value, json};
use tauri::test::{MockRuntime, mock_builder, mock_context, noop_assets};
use tauri::{App, AppHandle, Url};
use tokio::sync::Notify;

use super::server::{Reply, Server};
use crate::lock;
use crate::updates::client::Client;
use crate::updates::place::Place;
use crate::updates::source::Source;
use crate::updates::{Host, Updates};
use crate::wire::{UpdateStep, UpdatesView};

/// The version of the running app.
pub(super) const CURRENT: &str = "1.0.0";
pub(super) const NEW: &str = "1.1.0";

pub(super) const MANIFEST: &str = "/latest.json";
pub(super) const FILE: &str = "/Transom.AppImage";

/// An executable, as far as the updater looks at it.
pub(super) fn appimage() -> Vec<u8> {
    let mut file = b"\x7fELF".to_vec();
    file.extend((0..50_000).map(|n: u32| (n % 251) as u8));
    file
}

/// What the updater calls this system.
pub(super) fn platform() -> String {
    tauri_plugin_updater::target().unwrap()
}

/// The configuration that users have.
pub(super) fn shipped_configuration() -> Value {
    let configuration: Value =
        serde_json::from_str(include_str!("../../../tauri.conf.json")).unwrap();
    configuration["plugins"]["updater"].clone()
}

/// A published release, a copy of the app, and what the app did with it.
pub(super) struct Fixture {
    _app: App<MockRuntime>,
    handle: AppHandle<MockRuntime>,
    pub(super) server: Server,
    pub(super) keys: KeyPair,
    pub(super) folder: tempfile::TempDir,
    pub(super) free_bytes: Option<u64>,
    pub(super) was_paused: bool,
    pub(super) is_paused: AtomicBool,
    /// The requests that come between the pause and the end of the engines.
    pub(super) intruders: Mutex<u32>,
    /// Holds the installation until a response is over.
    pub(super) response: Option<Notify>,
    pub(super) done: Mutex<Vec<String>>,
    pub(super) views: Mutex<Vec<UpdatesView>>,
}

impl Fixture {
    pub(super) fn new() -> Self {
        let mut context = mock_context(noop_assets());
        let mut configuration = shipped_configuration();
        configuration["dangerousAcceptInvalidCerts"] = true.into();
        let plugins = &mut context.config_mut().plugins.0;
        plugins.insert("updater".to_owned(), configuration);
        context.package_info_mut().version = CURRENT.parse().unwrap();
        let updater = tauri_plugin_updater::Builder::new().build();
        let app = mock_builder().plugin(updater).build(context).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("Transom.AppImage"), "old").unwrap();
        Self {
            handle: app.handle().clone(),
            _app: app,
            server: Server::start(),
            keys: KeyPair::generate_unencrypted_keypair().unwrap(),
            folder,
            free_bytes: Some(u64::MAX),
            was_paused: false,
            is_paused: AtomicBool::new(false),
            intruders: Mutex::new(0),
            response: None,
            done: Mutex::default(),
            views: Mutex::default(),
        }
    }

    pub(super) fn program(&self) -> PathBuf {
        self.folder.path().join("Transom.AppImage")
    }

    pub(super) fn installed(&self) -> Vec<u8> {
        fs::read(self.program()).unwrap()
    }

    pub(super) fn updates(&self) -> Updates {
        self.is_paused.store(self.was_paused, Ordering::Relaxed);
        self.updates_of(&self.server.url(MANIFEST))
    }

    pub(super) fn updates_of(&self, url: &str) -> Updates {
        Updates::new(Ok(Client {
            source: Source {
                url: Url::parse(url).unwrap(),
                key: STANDARD.encode(self.keys.pk.to_box().unwrap().to_string()),
            },
            place: Place {
                program: self.program(),
                folder: self.folder.path().to_owned(),
            },
        }))
    }

    /// Publishes a file, announced as `version`, with this signature.
    pub(super) fn publish(&self, version: &str, file: &[u8], signature: &str) {
        self.server.reply(FILE, Reply::Bytes(file.to_vec()));
        self.announce(version, file.len(), signature);
    }

    pub(super) fn announce(&self, version: &str, size: usize, signature: &str) {
        let manifest = json!({
            "version": version,
            "notes": "### App\n\n- A new thing.\n",
            "platforms": { platform(): {
                "url": self.server.url(FILE), "signature": signature, "size": size,
            } },
        });
        let manifest = manifest.to_string().into_bytes();
        self.server.reply(MANIFEST, Reply::Bytes(manifest));
    }

    pub(super) fn signed(&self, version: &str, file: &[u8]) -> String {
        sign(
            &self.keys,
            file,
            &format!("timestamp:1\tfile:x\tversion:{version}"),
        )
    }

    /// Publishes a release as it should be.
    pub(super) fn publish_new(&self) {
        self.publish(NEW, &appimage(), &self.signed(NEW, &appimage()));
    }

    /// Checks and downloads, as after two clicks.
    pub(super) async fn downloaded(&self) -> (Updates, UpdatesView) {
        let updates = self.updates();
        updates.check(self).await;
        updates.download(self).await;
        let view = updates.view();
        (updates, view)
    }

    pub(super) fn steps(&self) -> Vec<UpdateStep> {
        lock(&self.views).iter().map(|view| view.step).collect()
    }

    pub(super) fn done(&self) -> Vec<String> {
        lock(&self.done).clone()
    }
}

impl Host for Fixture {
    type Runtime = MockRuntime;

    fn app(&self) -> &AppHandle<MockRuntime> {
        &self.handle
    }

    fn publish(&self, view: UpdatesView) {
        lock(&self.views).push(view);
    }

    fn free_bytes(&self, folder: &Path) -> Option<u64> {
        assert_eq!(folder, self.folder.path());
        self.free_bytes
    }

    fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    fn set_paused(&self, is_paused: bool) {
        let was = self.is_paused.swap(is_paused, Ordering::Relaxed);
        if was != is_paused {
            let done = if is_paused { "pause" } else { "resume" };
            lock(&self.done).push(done.to_owned());
        }
    }

    fn leave(&self, was_paused: bool) {
        let done = if was_paused { "leave paused" } else { "leave" };
        lock(&self.done).push(done.to_owned());
    }

    async fn until_idle(&self) {
        if let Some(response) = &self.response {
            response.notified().await;
        }
        lock(&self.done).push("idle".to_owned());
    }

    async fn until_unloaded(&self) -> bool {
        assert!(self.is_paused());
        assert_eq!(self.installed(), b"old");
        let mut intruders = lock(&self.intruders);
        let comes = *intruders > 0;
        *intruders = intruders.saturating_sub(1);
        lock(&self.done).push(if comes { "request" } else { "unloaded" }.to_owned());
        !comes
    }
}

pub(super) fn sign(keys: &KeyPair, file: &[u8], comment: &str) -> String {
    let signature = minisign::sign(Some(&keys.pk), &keys.sk, file, Some(comment), None).unwrap();
    STANDARD.encode(signature.into_string())
}
