//! Looks for mistakes in a bundle that appear only on another machine.
//!
//! On the machine that builds, the system finds a library in a folder of the developer, and a file in
//! the wrong place or for a newer macOS does no harm. So a bundle is checked before it is packed.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use memchr::memmem;
use object::macho::Version;
use plist::Value;

use crate::bundle::PROGRAMS;
use crate::bundle::layout::{LICENSES, MINIMUM_MACOS, RUN_PATH, VERSION};
use crate::bundle::mach_o::{self, MachO};
use crate::cache;
use crate::problem::Problem;

/// What is wrong with a bundle that breaks a rule.
const WOULD_FAIL: &str = "the bundle would fail on other machines";

/// The first bytes of a library of Metal kernels.
const METALLIB: &[u8] = b"MTLB";

/// Libraries that every Mac has.
const SYSTEM: [&str; 2] = ["/usr/lib/", "/System/Library/"];

/// Files that must be there, besides the programs. The path is below `Contents`.
pub(super) const REQUIRED: [&str; 7] = [
    "Frameworks/libmlx.dylib",
    "Resources/LICENSE-APACHE",
    "Resources/LICENSE-MIT",
    "Resources/app.icns",
    "Resources/assets/starter/config.json",
    "Resources/assets/starter/model.safetensors",
    "Resources/mlx.metallib",
];

/// Keys of `Info.plist` and their texts.
pub(super) const INFO: [(&str, &str); 9] = [
    ("CFBundleExecutable", "transom-app"),
    ("CFBundleIconFile", "app.icns"),
    ("CFBundleIdentifier", "app.transom"),
    ("CFBundleName", "Transom"),
    ("CFBundlePackageType", "APPL"),
    ("CFBundleShortVersionString", VERSION),
    ("CFBundleVersion", VERSION),
    (
        "LSApplicationCategoryType",
        "public.app-category.productivity",
    ),
    ("LSMinimumSystemVersion", MINIMUM_MACOS),
];

/// Returns an error with every rule that the app breaks.
pub(super) fn check_app(app: &Path, private_folders: &[PathBuf]) -> Result<(), Problem> {
    Problem::unless_empty(WOULD_FAIL, &violations(app, private_folders)?)
}

/// Returns an error if a program names a folder of this machine or lacks the run path of MLX.
pub(super) fn check_linux(
    programs: &Path,
    run_path: &str,
    private_folders: &[PathBuf],
) -> Result<(), Problem> {
    let mut found = Vec::new();
    for name in PROGRAMS {
        let path = programs.join(name);
        let bytes = fs::read(&path).map_err(Problem::io("read", &path))?;
        found.extend(named_folders(name, &bytes, private_folders));
        if name == "transom" && memmem::find(&bytes, run_path.as_bytes()).is_none() {
            found.push(format!("{name}: its run path is not {run_path}"));
        }
    }
    Problem::unless_empty(WOULD_FAIL, &found)
}

/// Returns the rules that the app breaks, one line for each.
pub(super) fn violations(app: &Path, private_folders: &[PathBuf]) -> Result<Vec<String>, Problem> {
    let contents = app.join("Contents");
    let mut found = info_violations(&contents.join("Info.plist"));
    let programs = PROGRAMS.map(|program| format!("MacOS/{program}"));
    let licenses = format!("Resources/{LICENSES}");
    let required = REQUIRED.into_iter().chain([licenses.as_str()]);
    for name in required.chain(programs.iter().map(String::as_str)) {
        if !contents.join(name).is_file() {
            found.push(format!("{name}: is missing"));
        }
    }
    for path in cache::files_below(&contents)? {
        let name = path.strip_prefix(&contents).unwrap_or(&path);
        let name = name.to_string_lossy();
        let is_program = name.starts_with("MacOS/");
        let is_code = mach_o::is_mach_o(&start(&path)?);
        if !is_program && !name.starts_with("Frameworks/") {
            if is_code {
                found.push(format!("{name}: code must be in MacOS or Frameworks"));
            }
            continue;
        }
        if !is_code {
            found.push(format!("{name}: only code may be in this folder"));
            continue;
        }
        let bytes = fs::read(&path).map_err(Problem::io("read", &path))?;
        match mach_o::read(&bytes) {
            Ok(code) => found.extend(code_violations(&name, is_program, &code, &contents)),
            Err(error) => found.push(format!("{name}: not code for one processor ({error})")),
        }
        // Libraries of others name folders of the machines that built them.
        if is_program {
            found.extend(named_folders(&name, &bytes, private_folders));
        }
    }
    let kernels = contents.join("Resources/mlx.metallib");
    if kernels.is_file() && start(&kernels)? != METALLIB {
        found.push("Resources/mlx.metallib: not a library of Metal kernels".to_owned());
    }
    Ok(found)
}

fn code_violations(name: &str, is_program: bool, code: &MachO, contents: &Path) -> Vec<String> {
    let mut found = Vec::new();
    if !code.is_arm64 {
        found.push(format!("{name}: not for arm64"));
    }
    match code.minimum {
        None => found.push(format!("{name}: does not say which macOS it needs")),
        Some(minimum) if minimum > Version::new(14, 0, 0) => {
            found.push(format!(
                "{name}: needs macOS {minimum}, not {MINIMUM_MACOS}"
            ));
        }
        Some(_) => {}
    }
    let bundled = |name: &String| name.strip_prefix("@rpath/").map(str::to_owned);
    let needs_run_path = code.dependencies.iter().any(|name| bundled(name).is_some());
    let expected: &[&str] = match is_program && needs_run_path {
        true => &[RUN_PATH],
        false => &[],
    };
    if code.run_paths != expected {
        let run_paths = &code.run_paths;
        found.push(format!(
            "{name}: its run paths are {run_paths:?}, not {expected:?}"
        ));
    }
    for dependency in &code.dependencies {
        let is_there = match bundled(dependency) {
            Some(library) => contents.join("Frameworks").join(library).is_file(),
            None => SYSTEM.iter().any(|folder| dependency.starts_with(folder)),
        };
        if !is_there {
            found.push(format!("{name}: other Macs do not have {dependency}"));
        }
    }
    found
}

/// Returns a line for each private folder that the bytes of a program contain.
fn named_folders(name: &str, bytes: &[u8], private_folders: &[PathBuf]) -> Vec<String> {
    let folders = private_folders
        .iter()
        .map(|folder| folder.to_string_lossy());
    folders
        .filter(|folder| memmem::find(bytes, format!("{folder}/").as_bytes()).is_some())
        .map(|folder| format!("{name}: names {folder}, a folder of this machine"))
        .collect()
}

fn info_violations(path: &Path) -> Vec<String> {
    let info = match Value::from_file(path) {
        Ok(info) => info,
        Err(error) => return vec![format!("Info.plist: {error}")],
    };
    let value = |key: &str| info.as_dictionary().and_then(|info| info.get(key));
    let wrong = INFO.iter().filter(|(key, expected)| {
        let text = value(key).and_then(Value::as_string);
        text != Some(*expected)
    });
    let mut found: Vec<String> = wrong
        .map(|(key, expected)| format!("Info.plist: {key} is not {expected}"))
        .collect();
    if value("NSHumanReadableCopyright").is_none() {
        found.push("Info.plist: NSHumanReadableCopyright is missing".to_owned());
    }
    if value("LSUIElement").and_then(Value::as_boolean) != Some(true) {
        found.push("Info.plist: LSUIElement is not true".to_owned());
    }
    let links = value("CFBundleURLTypes").and_then(Value::as_array);
    let schemes = links.into_iter().flatten().filter_map(|link| {
        let schemes = link.as_dictionary()?.get("CFBundleURLSchemes")?;
        schemes.as_array()
    });
    let transom = Value::String("transom".to_owned());
    if !schemes.flatten().any(|scheme| *scheme == transom) {
        found.push("Info.plist: transom:// does not open the app".to_owned());
    }
    found
}

/// Returns the first four bytes of a file.
fn start(path: &Path) -> Result<Vec<u8>, Problem> {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(4).read_to_end(&mut start));
    read.map_err(Problem::io("read", path))?;
    Ok(start)
}
