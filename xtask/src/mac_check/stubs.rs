//! Stubs of Apple's libraries: text files with the symbols that a linker finds in them.
//!
//! Apple's SDK must not be copied, so the symbols come from elsewhere: the objc2 packages declare the
//! classes, functions and constants of Apple's headers, and a short list has what these leave out. A
//! name that neither of them has is missing for the linker. The C library is that of zig, MLX the
//! library from Apple's wheel.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use crate::cache;
use crate::mac_check::objc::{Names, identifier};
use crate::problem::Problem;

/// The symbols that no objc2 package declares.
const LIST: &str = include_str!("../../native/mac_symbols.txt");

/// Libraries that are no frameworks, and their file names in `/usr/lib`.
const LIBRARIES: [(&str, &str); 2] = [("objc", "libobjc.A"), ("iconv", "libiconv.2")];

/// Frameworks that also export what others contain.
const UMBRELLAS: [(&str, &[&str]); 3] = [
    ("Foundation", &["CoreFoundation"]),
    ("ApplicationServices", &["CoreGraphics", "CoreText"]),
    ("Carbon", &["CoreServices"]),
];

/// Frameworks whose packages have another name than the library.
const RENAMED: [(&str, &str); 1] = [("CoreAnimation", "QuartzCore")];

/// Frameworks that programs name without using a symbol of them.
const EMPTY: [&str; 2] = ["Accelerate", "MetalKit"];

/// What one library exports.
#[derive(Debug, Default, Clone, PartialEq)]
struct Library {
    symbols: BTreeSet<String>,
    classes: BTreeSet<String>,
}

/// The libraries by name: `AppKit`, `objc`.
#[derive(Debug, Default)]
pub(super) struct Stubs {
    libraries: BTreeMap<String, Library>,
}

impl Stubs {
    /// Reads the list of symbols that no package declares.
    pub(super) fn from_list() -> Self {
        let mut stubs = Self::default();
        for line in LIST.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace().map(str::to_owned);
            if let Some(library) = words.next() {
                stubs.library(&library).symbols.extend(words);
            }
        }
        for framework in EMPTY {
            stubs.library(framework);
        }
        stubs
    }

    /// Adds what a package declares: the text of `lib.rs`, which names the framework, and that of
    /// every file. Returns false if it is not the package of a framework.
    pub(super) fn add_package(&mut self, lib: &str, files: &[String]) -> bool {
        let name = lib.split_once("# Bindings to the `");
        let name = name.and_then(|(_, rest)| rest.split_once("` framework"));
        let Some((framework, _)) = name else {
            return false;
        };
        let renamed = RENAMED.iter().find(|(package, _)| *package == framework);
        let library = self.library(renamed.map_or(framework, |(_, library)| library));
        for file in files {
            library.symbols.extend(declared_symbols(file));
            let mut names = Names::default();
            names.add_declared(file);
            library.classes.extend(names.into_classes());
        }
        true
    }

    /// Adds the functions of the runtime of Objective-C, from the bindings in the package objc2.
    pub(super) fn add_runtime(&mut self, files: &[String]) {
        let functions = files.iter().flat_map(|file| file.lines());
        let names = functions.filter_map(|line| declared_name(line.trim()));
        let names: Vec<String> = names.map(str::to_owned).collect();
        self.library("objc").symbols.extend(names);
    }

    fn library(&mut self, name: &str) -> &mut Library {
        self.libraries.entry(name.to_owned()).or_default()
    }

    /// Writes the stubs into `folder`, in the layout of an SDK.
    pub(super) fn write(mut self, folder: &Path) -> Result<(), Problem> {
        for (umbrella, parts) in UMBRELLAS {
            for part in parts {
                let Library { symbols, classes } = self.library(part).clone();
                let library = self.library(umbrella);
                library.symbols.extend(symbols);
                library.classes.extend(classes);
            }
        }
        cache::make_empty_folder(folder)?;
        for (name, library) in &self.libraries {
            let file_name = LIBRARIES.iter().find(|(library, _)| library == name);
            let (path, install_name) = match file_name {
                Some((_, file)) => (
                    format!("usr/lib/lib{name}.tbd"),
                    format!("/usr/lib/{file}.dylib"),
                ),
                None => (
                    format!("System/Library/Frameworks/{name}.framework/{name}.tbd"),
                    format!("/System/Library/Frameworks/{name}.framework/Versions/A/{name}"),
                ),
            };
            let path = folder.join(path);
            if let Some(parent) = path.parent() {
                cache::make_folder(parent)?;
            }
            cache::write_atomically(&path, library.stub(&install_name).as_bytes())?;
        }
        Ok(())
    }
}

impl Library {
    /// Returns the stub, in version 4 of Apple's text format.
    fn stub(&self, install_name: &str) -> String {
        let targets = "[ arm64-macos, arm64e-macos ]";
        let mut text = format!(
            "--- !tapi-tbd\ntbd-version: 4\ntargets: {targets}\ninstall-name: '{install_name}'\n"
        );
        let symbols = self.symbols.iter().map(|name| format!("'_{name}'"));
        let classes = self.classes.iter().cloned();
        let lists = [
            ("symbols", symbols.collect::<Vec<_>>()),
            ("objc-classes", classes.collect()),
        ];
        if lists.iter().any(|(_, names)| !names.is_empty()) {
            let _ = writeln!(text, "exports:\n  - targets: {targets}");
        }
        for (kind, names) in lists.iter().filter(|(_, names)| !names.is_empty()) {
            let _ = writeln!(text, "    {kind}: [ {} ]", names.join(", "));
        }
        text.push_str("...\n");
        text
    }
}

/// Returns the names in the blocks of a Rust file that declare symbols of C.
fn declared_symbols(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let start = line.trim_start();
        let is_block = ["extern \"C", "unsafe extern \"C"]
            .iter()
            .any(|block| start.starts_with(block));
        if !is_block || !start.ends_with('{') || start.contains("fn ") {
            continue;
        }
        let indent = line.len() - start.len();
        let mut renamed = None;
        for line in lines.by_ref() {
            let text = line.trim_start();
            if text == "}" && line.len() - text.len() <= indent {
                break;
            }
            let name = text.strip_prefix("#[link_name = \"");
            if let Some((name, _)) = name.and_then(|rest| rest.split_once('"')) {
                renamed = Some(name.to_owned());
            } else if let Some(name) = declared_name(text) {
                names.push(renamed.take().unwrap_or_else(|| name.to_owned()));
            }
        }
    }
    names
}

/// Returns the name in a line that declares a function or a static.
fn declared_name(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("unsafe ").unwrap_or(line);
    let rest = line
        .strip_prefix("fn ")
        .or_else(|| line.strip_prefix("static mut "))
        .or_else(|| line.strip_prefix("static "))?;
    Some(identifier(rest)).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LIB: &str = "//! # Bindings to the `AppKit` framework\n//!\n";

    const SOURCE: &str = "
extern_class!(
    #[unsafe(super(NSObject))]
    pub struct NSWorkspace;
);
pub struct NSWorkspcae;
extern \"C\" {
    /// The name.
    pub static NSPasteboardTypeString: &'static NSPasteboardType;
}
pub static NSAlertFirstButtonReturn: NSModalResponse = 1000;
pub unsafe extern \"C-unwind\" fn NSRectFill(rect: NSRect) {
    extern \"C-unwind\" {
        #[link_name = \"NSRectFillReal\"]
        fn NSRectFill(rect: NSRect);
    }
    unsafe { NSRectFill(rect) }
}
pub extern \"C-unwind\" fn NSBeep() {
    extern \"C-unwind\" {
        fn NSBeep(
            twice: bool,
        );
    }
}
fn helper() {}
";

    #[test]
    fn a_stub_has_what_the_package_of_the_framework_declares() {
        let mut stubs = Stubs::default();
        assert!(!stubs.add_package("//! Encodings.", &[SOURCE.to_owned()]));
        assert!(stubs.add_package(LIB, &[SOURCE.to_owned()]));
        let stub = stubs.libraries["AppKit"].stub("/AppKit");
        for line in [
            "    symbols: [ '_NSBeep', '_NSPasteboardTypeString', '_NSRectFillReal' ]",
            "    objc-classes: [ NSWorkspace ]",
            "install-name: '/AppKit'",
        ] {
            assert!(stub.lines().any(|found| found == line), "{line}\n{stub}");
        }
    }

    #[test]
    fn stubs_are_where_a_linker_looks_for_them() {
        let folder = tempfile::tempdir().unwrap();
        let mut stubs = Stubs::from_list();
        let core = "//! # Bindings to the `CoreFoundation` framework";
        let declared = "extern \"C\" {\n    pub fn CFBundleGetMainBundle();\n}\n";
        assert!(stubs.add_package(core, &[declared.to_owned()]));
        let animation = "//! # Bindings to the `CoreAnimation` framework";
        assert!(stubs.add_package(animation, &[SOURCE.to_owned()]));
        stubs.add_runtime(&["    pub fn objc_getClass(name: *const c_char);\n".to_owned()]);
        stubs.write(folder.path()).unwrap();
        let read = |path: &str| fs::read_to_string(folder.path().join(path)).unwrap();
        let runtime = read("usr/lib/libobjc.tbd");
        assert!(runtime.contains("'_objc_getClass'"), "{runtime}");
        assert!(runtime.contains("'_OBJC_CLASS_$_NSObject'"), "{runtime}");
        let frameworks = "System/Library/Frameworks";
        // An umbrella exports what its part does.
        let foundation = read(&format!("{frameworks}/Foundation.framework/Foundation.tbd"));
        assert!(foundation.contains("CFBundleGetMainBundle"), "{foundation}");
        let animation = read(&format!("{frameworks}/QuartzCore.framework/QuartzCore.tbd"));
        assert!(animation.contains("NSWorkspace"), "{animation}");
        let empty = read(&format!("{frameworks}/Accelerate.framework/Accelerate.tbd"));
        assert!(!empty.contains("exports"), "{empty}");
    }
}
