//! Generates the TypeScript declarations of all types that pages receive: `ui/src/ipc/bindings.ts`.
//!
//! Rule: the Rust types are the source. A test fails if the file is stale, and names the command
//! that updates it.

use std::any::TypeId;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use ts_rs::{Config, TS, TypeVisitor};

use crate::wire;

/// If this variable is set, the test writes the file instead of comparing it.
const WRITE: &str = "TRANSOM_WRITE_BINDINGS";

const HEAD: &str = "\
// Generated from the Rust types in src-tauri/src/wire and in crates. Update with:
// TRANSOM_WRITE_BINDINGS=1 cargo test -p transom-app bindings
";

#[test]
fn bindings_are_fresh() {
    let path = file("ui/src/ipc/bindings.ts");
    let wanted = declarations();
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, wanted).unwrap();
        return;
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "ui/src/ipc/bindings.ts is stale; run: {WRITE}=1 cargo test -p transom-app bindings"
    );
}

/// Returns the path of a file in the checkout.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn declarations() -> String {
    // JSON numbers are exact up to 2⁵³, more than any id, time or size here.
    let mut found = Found::new(Config::new().with_large_int("number"));
    found.visit::<transom_chat::turns::StartedTurn>();
    found.visit::<wire::OpenedConversation>();
    found.visit::<wire::ModelView>();
    found.visit::<wire::FitView>();
    found.visit::<wire::ModelOffer>();
    found.visit::<wire::CatalogView>();
    found.visit::<wire::TierView>();
    found.visit::<wire::DownloadView>();
    found.visit::<wire::DownloadChange>();
    found.visit::<wire::HubAccessView>();
    found.visit::<wire::BenchmarksView>();
    found.visit::<wire::BenchmarkFormat>();
    found.visit::<wire::CapturedText>();
    found.visit::<wire::AboutView>();
    found.visit::<wire::LocalApiView>();
    found.visit::<wire::ApiSetupView>();
    found.visit::<wire::UpdatesView>();
    found.visit::<wire::FileFormat>();
    found.visit::<wire::FileSource>();
    found.visit::<wire::Window>();
    found.visit::<wire::ZoomStep>();
    found.visit::<wire::CommandError>();
    found.visit::<wire::AppEvent>();
    found.visit::<transom_chat::MessageView>();
    found.visit::<transom_chat::Update>();
    found.visit::<transom_chat::routing::Draft>();
    found.visit::<transom_chat::routing::DraftRoute>();
    found.visit::<transom_store::FoundConversation>();
    found.visit::<transom_store::Settings>();
    let by_name: Vec<String> = found.by_name.into_values().collect();
    format!("{HEAD}\n{}", by_name.join("\n"))
}

/// The declarations found so far.
struct Found {
    config: Config,
    seen: HashSet<TypeId>,
    by_name: BTreeMap<String, String>,
}

impl Found {
    fn new(config: Config) -> Self {
        Self {
            config,
            seen: HashSet::new(),
            by_name: BTreeMap::new(),
        }
    }
}

impl TypeVisitor for Found {
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        if !self.seen.insert(TypeId::of::<T>()) {
            return;
        }
        T::visit_dependencies(self);
        T::visit_generics(self);
        // Only our own types have an output path.
        if T::output_path().is_none() {
            return;
        }
        let docs = T::docs().unwrap_or_default();
        let lines = format!("{docs}export {}\n", T::decl(&self.config));
        let lines: Vec<&str> = lines.lines().map(str::trim_end).collect();
        let declared = lines.join("\n") + "\n";
        // A comment of one line is on one line.
        let declared = declared
            .replace("/**\n * ", "/** ")
            .replace("\n */\n", " */\n");
        let name = T::ident(&self.config);
        let before = self.by_name.insert(name.clone(), declared);
        assert_eq!(before, None, "two types are called {name}");
    }
}
