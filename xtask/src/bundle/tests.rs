use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use object::macho::{
    CPU_TYPE_ARM64, CPU_TYPE_X86_64, LC_BUILD_VERSION, LC_LOAD_DYLIB, LC_LOAD_WEAK_DYLIB, LC_RPATH,
    LoadCommandType, MH_DYLIB, MH_EXECUTE, MH_MAGIC_64, PLATFORM_MACOS, Version,
};
use plist::Value;
use tempfile::TempDir;

use super::check::{INFO, REQUIRED, check_linux, violations};
use super::layout::{LICENSES, LINUX_RUN_PATH, RUN_PATH, Sources, assemble_app, assemble_linux};
use super::{PROGRAMS, mach_o};
use crate::process;
use crate::setup::BUNDLE_WHEEL;
use crate::skipped_checks;

const SYSTEM_LIBRARY: &str = "/usr/lib/libSystem.B.dylib";
const MLX: &str = "@rpath/libmlx.dylib";

/// A folder of the machine that builds.
const PRIVATE: &str = "/machine/of/a/developer";

/// A file with a header and load commands, which is all that a check reads.
struct Code {
    cpu: u32,
    kind: u32,
    minimum: Option<Version>,
    run_paths: Vec<&'static str>,
    dependencies: Vec<&'static str>,
    text: &'static str,
}

impl Code {
    fn library() -> Self {
        Self {
            kind: MH_DYLIB.0,
            ..Self::program()
        }
    }

    /// A program without MLX.
    fn program() -> Self {
        Self {
            cpu: CPU_TYPE_ARM64.0,
            kind: MH_EXECUTE.0,
            minimum: Some(Version::new(14, 0, 0)),
            run_paths: Vec::new(),
            dependencies: vec![SYSTEM_LIBRARY],
            text: "code",
        }
    }

    /// The program `transom`.
    fn engine() -> Self {
        Self {
            run_paths: vec![RUN_PATH],
            dependencies: vec![SYSTEM_LIBRARY, MLX],
            ..Self::program()
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut commands = Vec::new();
        if let Some(minimum) = self.minimum {
            let version = [PLATFORM_MACOS.0, minimum.0, 0, 0];
            commands.push(command(LC_BUILD_VERSION, &version, ""));
        }
        for &path in &self.run_paths {
            commands.push(command(LC_RPATH, &[12], path));
        }
        for &name in &self.dependencies {
            commands.push(command(LC_LOAD_DYLIB, &[24, 0, 0, 0], name));
        }
        let n_commands = u32::try_from(commands.len()).unwrap();
        let commands = commands.concat();
        let size = u32::try_from(commands.len()).unwrap();
        let header = [MH_MAGIC_64, self.cpu, 0, self.kind, n_commands, size, 0, 0];
        [words(&header), commands, self.text.into()].concat()
    }
}

/// Returns a load command with these numbers and then a text, padded to eight bytes.
fn command(kind: LoadCommandType, numbers: &[u32], text: &str) -> Vec<u8> {
    let mut body = words(numbers);
    if !text.is_empty() {
        body.extend(text.bytes().chain([0]));
    }
    body.resize(body.len().next_multiple_of(8), 0);
    let size = u32::try_from(body.len() + 8).unwrap();
    [words(&[kind.0, size]), body].concat()
}

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

fn write(path: &Path, contents: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, contents).unwrap();
}

/// Writes the three programs into a folder.
fn write_programs(folder: &Path) {
    for name in PROGRAMS {
        let code = match name {
            "transom" => Code::engine(),
            _ => Code::program(),
        };
        write(&folder.join(name), code.bytes());
    }
}

/// An app made of small files by the code that makes the real one.
struct App {
    folder: TempDir,
}

impl App {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [programs, mlx, checkout] =
            ["programs", "mlx", "checkout"].map(|name| folder.path().join(name));
        write_programs(&programs);
        write(&mlx.join("mlx/lib/libmlx.dylib"), Code::library().bytes());
        write(&mlx.join("mlx/lib/mlx.metallib"), "MTLB kernels");
        // Not for the app.
        write(&mlx.join("mlx/lib/libjaccl.dylib"), Code::library().bytes());
        for name in [
            "assets/starter/config.json",
            "assets/starter/model.safetensors",
            "assets/starter/recipe/main.py",
            "icons/app.icns",
            "src-tauri/licenses.txt",
            "LICENSE-APACHE",
            "LICENSE-MIT",
        ] {
            write(&checkout.join(name), name);
        }
        let info = "src-tauri/Info.plist";
        let real_info = fs::read(process::workspace().join(info)).unwrap();
        write(&checkout.join(info), real_info);
        let app = Self { folder };
        let sources = Sources {
            programs: &programs,
            mlx: &mlx,
            checkout: &checkout,
        };
        assemble_app(&sources, &app.path()).unwrap();
        app
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("Transom.app")
    }

    /// Returns the path of a file below `Contents`.
    fn file(&self, name: &str) -> PathBuf {
        self.path().join("Contents").join(name)
    }

    fn violations(&self) -> Vec<String> {
        violations(&self.path(), &[PRIVATE.into()]).unwrap()
    }
}

/// Checks that an app with one mistake breaks exactly one rule, and that the line says `expected`.
#[track_caller]
fn check(make_mistake: impl FnOnce(&App), expected: &str) {
    let app = App::new();
    make_mistake(&app);
    let found = app.violations();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains(expected), "{found:?}");
}

/// Checks an app with another `transom`.
#[track_caller]
fn check_engine(engine: &Code, expected: &str) {
    check(
        |app| write(&app.file("MacOS/transom"), engine.bytes()),
        expected,
    );
}

/// Checks an app with another value in `Info.plist`; without a value, the key is removed.
#[track_caller]
fn check_info(key: &str, value: Option<Value>, expected: &str) {
    let make_mistake = |app: &App| {
        let path = app.file("Info.plist");
        let mut info = Value::from_file(&path).unwrap();
        let keys = info.as_dictionary_mut().unwrap();
        match value {
            Some(value) => keys.insert(key.to_owned(), value),
            None => keys.remove(key),
        };
        info.to_file_xml(&path).unwrap();
    };
    check(make_mistake, expected);
}

#[test]
fn an_assembled_app_breaks_no_rule() {
    let app = App::new();
    assert_eq!(app.violations(), [""; 0]);
    assert!(app.file(&format!("Resources/{LICENSES}")).is_file());
    let starter = app.file("Resources/assets/starter");
    assert!(!starter.join("recipe").exists(), "only the model");
}

#[test]
fn each_wrong_run_path_is_noticed() {
    for run_paths in [
        vec![],
        vec!["/machine/cache/mlx/lib"],
        vec![RUN_PATH, "/machine/cache/mlx/lib"],
        vec!["@loader_path/../Frameworks"],
    ] {
        let engine = Code {
            run_paths,
            ..Code::engine()
        };
        check_engine(&engine, "MacOS/transom: its run paths are");
    }
    let app = Code {
        run_paths: vec![RUN_PATH],
        ..Code::program()
    };
    let unneeded = |bundle: &App| write(&bundle.file("MacOS/transom-app"), app.bytes());
    check(unneeded, "MacOS/transom-app: its run paths are");
}

#[test]
fn a_library_that_other_macs_lack_is_noticed() {
    for dependency in ["@rpath/libjaccl.dylib", "/opt/lib/libfmt.dylib"] {
        let engine = Code {
            dependencies: vec![MLX, dependency],
            ..Code::engine()
        };
        check_engine(
            &engine,
            &format!("MacOS/transom: other Macs do not have {dependency}"),
        );
    }
    let library = Code {
        dependencies: vec!["@rpath/libjaccl.dylib"],
        ..Code::library()
    };
    check(
        |app| write(&app.file("Frameworks/libmlx.dylib"), library.bytes()),
        "Frameworks/libmlx.dylib: other Macs do not have @rpath/libjaccl.dylib",
    );
}

#[test]
fn code_for_other_processors_is_noticed() {
    let engine = Code {
        cpu: CPU_TYPE_X86_64.0,
        ..Code::engine()
    };
    check_engine(&engine, "MacOS/transom: not for arm64");
    let universal = [&[0xca_u8, 0xfe, 0xba, 0xbe][..], &[0; 60]].concat();
    check(
        |app| write(&app.file("MacOS/transom"), universal),
        "MacOS/transom: not code for one processor",
    );
}

#[test]
fn code_for_a_newer_macos_is_noticed() {
    let library = Code {
        minimum: Some(Version::new(26, 2, 0)),
        ..Code::library()
    };
    check(
        |app| write(&app.file("Frameworks/libmlx.dylib"), library.bytes()),
        "Frameworks/libmlx.dylib: needs macOS 26.2.0, not 14.0",
    );
    let unknown = Code {
        minimum: None,
        ..Code::engine()
    };
    check_engine(&unknown, "MacOS/transom: does not say which macOS it needs");
    let app = App::new();
    let older = Code {
        minimum: Some(Version::new(11, 0, 0)),
        ..Code::engine()
    };
    write(&app.file("MacOS/transom"), older.bytes());
    assert_eq!(app.violations(), [""; 0]);
}

#[test]
fn data_among_code_and_code_among_data_are_noticed() {
    for folder in ["Frameworks", "MacOS"] {
        let name = format!("{folder}/mlx.metallib");
        let expected = format!("{name}: only code may be in this folder");
        check(|app| write(&app.file(&name), "MTLB"), &expected);
    }
    check(
        |app| write(&app.file("Resources/tool"), Code::program().bytes()),
        "Resources/tool: code must be in MacOS or Frameworks",
    );
    let universal = [0xca_u8, 0xfe, 0xba, 0xbe];
    check(
        |app| write(&app.file("PlugIns/tool"), universal),
        "PlugIns/tool: code must be in MacOS or Frameworks",
    );
}

#[test]
fn each_missing_file_is_noticed() {
    let programs = PROGRAMS.map(|program| format!("MacOS/{program}"));
    let others = programs
        .into_iter()
        .chain([format!("Resources/{LICENSES}")]);
    for name in REQUIRED.map(str::to_owned).into_iter().chain(others) {
        let app = App::new();
        fs::remove_file(app.file(&name)).unwrap();
        let mut expected = vec![format!("{name}: is missing")];
        if name == "Frameworks/libmlx.dylib" {
            expected.push(format!("MacOS/transom: other Macs do not have {MLX}"));
        }
        assert_eq!(app.violations(), expected);
    }
    check(
        |app| write(&app.file("Resources/mlx.metallib"), "version https://"),
        "not a library of Metal kernels",
    );
    check(
        |app| fs::remove_file(app.file("Info.plist")).unwrap(),
        "Info.plist: ",
    );
}

#[test]
fn a_path_of_the_builder_is_noticed() {
    let engine = Code {
        text: "panicked at /machine/of/a/developer/src/main.rs:1",
        ..Code::engine()
    };
    check_engine(&engine, "MacOS/transom: names /machine/of/a/developer");
}

#[test]
fn each_wrong_key_of_the_app_is_noticed() {
    let text = |text: &str| Some(Value::String(text.to_owned()));
    for (key, value) in INFO {
        let expected = format!("Info.plist: {key} is not {value}");
        check_info(key, text("another"), &expected);
        check_info(key, None, &expected);
    }
    check_info("NSHumanReadableCopyright", None, "Copyright is missing");
    let is_shown = Some(Value::Boolean(false));
    check_info("LSUIElement", is_shown, "LSUIElement is not true");
    check_info("CFBundleURLTypes", None, "transom:// does not open");
}

#[test]
fn weak_dependencies_are_read_too() {
    let header = [MH_MAGIC_64, CPU_TYPE_ARM64.0, 0, MH_DYLIB.0];
    let weak = command(LC_LOAD_WEAK_DYLIB, &[24, 0, 0, 0], SYSTEM_LIBRARY);
    let size = u32::try_from(weak.len()).unwrap();
    let file = [words(&header), words(&[1, size, 0, 0]), weak].concat();
    let code = mach_o::read(&file).unwrap();
    assert_eq!(code.dependencies, [SYSTEM_LIBRARY]);
    assert_eq!(code.minimum, None);
}

#[test]
fn the_app_has_the_identifier_of_its_configuration_and_no_entitlements() {
    let folder = process::workspace().join("src-tauri");
    let configuration = fs::read_to_string(folder.join("tauri.conf.json")).unwrap();
    let configuration: serde_json::Value = serde_json::from_str(&configuration).unwrap();
    let info = Value::from_file(folder.join("Info.plist")).unwrap();
    let value = |key: &str| info.as_dictionary().unwrap()[key].as_string().unwrap();
    assert_eq!(value("CFBundleIdentifier"), configuration["identifier"]);
    assert_eq!(value("CFBundleName"), configuration["productName"]);
    assert_eq!(value("CFBundleExecutable"), configuration["mainBinaryName"]);
    let entitlements = Value::from_file(folder.join("entitlements.plist")).unwrap();
    assert!(entitlements.as_dictionary().unwrap().is_empty());
}

/// Returns the MLX of a Mac's bundle, which setup has unpacked next to the MLX of this machine.
fn real_mlx() -> Option<PathBuf> {
    let libraries = PathBuf::from(env::var_os("TRANSOM_MLX_LIB")?);
    let mlx = libraries.ancestors().nth(3)?.join(BUNDLE_WHEEL);
    mlx.is_dir().then_some(mlx)
}

#[test]
fn an_app_with_the_real_mlx_breaks_no_rule() {
    let Some(mlx) = real_mlx() else {
        skipped_checks::skip(
            "bundle with the real MLX",
            "`cargo xtask setup` has not run",
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (programs, app) = (folder.path().join("programs"), folder.path().join("a.app"));
    write_programs(&programs);
    let sources = Sources {
        programs: &programs,
        mlx: &mlx,
        checkout: &process::workspace(),
    };
    assemble_app(&sources, &app).unwrap();
    assert_eq!(violations(&app, &[]).unwrap(), [""; 0]);
    let library = fs::read(app.join("Contents/Frameworks/libmlx.dylib")).unwrap();
    let library = mach_o::read(&library).unwrap();
    assert_eq!(library.minimum, Some(Version::new(14, 0, 0)));
    assert!(library.dependencies.len() > 3, "{library:?}");
}

#[test]
fn a_linux_package_keeps_the_layout_of_mlx() {
    let app = App::new();
    let [programs, mlx, checkout] =
        ["programs", "mlx", "checkout"].map(|name| app.folder.path().join(name));
    for library in ["mlx/lib/libmlx.so", "mlx_cpu.libs/libblas-1.so.3"] {
        write(&mlx.join(library), library);
    }
    let package = app.folder.path().join("package");
    let sources = Sources {
        programs: &programs,
        mlx: &mlx,
        checkout: &checkout,
    };
    assemble_linux(&sources, &package).unwrap();
    for name in [
        "bin/transom",
        "bin/transom-document-reader",
        "lib/transom/mlx/lib/libmlx.so",
        "lib/transom/mlx_cpu.libs/libblas-1.so.3",
        "lib/transom/assets/starter/config.json",
        "lib/transom/THIRD_PARTY_LICENSES.txt",
    ] {
        assert!(package.join(name).is_file(), "{name}");
    }
    assert!(!package.join("bin/transom-app").exists());
}

#[test]
fn a_linux_program_with_another_run_path_or_a_private_path_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let check = |text: &str| {
        for name in PROGRAMS {
            write(&folder.path().join(name), text);
        }
        let checked = check_linux(folder.path(), LINUX_RUN_PATH, &[PRIVATE.into()]);
        checked.err().map(|problem| problem.to_string())
    };
    assert_eq!(check(&format!("ELF\0{LINUX_RUN_PATH}\0")), None);
    let other = check("ELF\0$ORIGIN\0").unwrap();
    assert!(other.contains("transom: its run path is not"), "{other}");
    let private = check(&format!("{LINUX_RUN_PATH}\0{PRIVATE}/lib.rs")).unwrap();
    assert!(private.contains("names /machine/of/a"), "{private}");
}
