//! A C and C++ compiler for macOS that runs on Linux: zig, whose wheel contains the headers that are
//! free. Apple's frameworks are not among them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache;
use crate::problem::Problem;

/// Removes the options that only Apple's compiler knows; zig takes the target from its own option.
const WRAPPER: &str = r#"#!/bin/sh
# Written by `cargo xtask mac-check`.
n=$#
while [ "$n" -gt 0 ]; do
  argument=$1
  shift
  n=$((n - 1))
  case $argument in
    -arch | -isysroot)
      shift
      n=$((n - 1))
      ;;
    -mmacosx-version-min=* | -gfull | --target=*) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
"#;

/// The variable with the folder of the stubs, for the linker. Without it, rustc and build scripts
/// look for Apple's SDK with a program of Apple.
pub(super) const SDK: &str = "SDKROOT";

/// Adds the stubs of Apple's libraries to what is linked.
const STUBS: &str = r#" -F "$SDKROOT/System/Library/Frameworks" -L "$SDKROOT/usr/lib""#;

/// The wrappers with which cargo's build scripts compile C for a Mac.
pub(super) struct Compiler {
    folder: PathBuf,
    zig: PathBuf,
}

impl Compiler {
    /// Writes the wrappers of `zig` into `folder`.
    pub(super) fn write(zig: &Path, folder: &Path) -> Result<Self, Problem> {
        let folder = folder.join("compiler");
        cache::make_folder(&folder)?;
        let quoted = format!("'{}'", zig.display());
        for (name, wrapper, command, end) in [
            ("cc", WRAPPER, "cc -target aarch64-macos.14.0 -g0", ""),
            ("c++", WRAPPER, "c++ -target aarch64-macos.14.0 -g0", ""),
            // rustc would pass the options of a bare linker to a program with the name `ld`.
            (
                "linker",
                WRAPPER,
                "cc -target aarch64-macos.14.0 -g0",
                STUBS,
            ),
            ("ar", "#!/bin/sh\n", "ar", ""),
            ("ranlib", "#!/bin/sh\n", "ranlib", ""),
        ] {
            let path = folder.join(name);
            let script = format!("{wrapper}exec {quoted} {command} \"$@\"{end}\n");
            cache::write_atomically(&path, script.as_bytes())?;
            cache::make_executable(&path)?;
        }
        let zig = zig.to_owned();
        Ok(Self { folder, zig })
    }

    /// Returns the variables that name the wrappers to build scripts.
    pub(super) fn variables(&self) -> [(&'static str, PathBuf); 3] {
        [
            ("CC_aarch64_apple_darwin", self.folder.join("cc")),
            ("CXX_aarch64_apple_darwin", self.folder.join("c++")),
            ("AR_aarch64_apple_darwin", self.folder.join("ar")),
        ]
    }

    /// Returns the options that name the wrappers to cmake.
    pub(super) fn cmake_options(&self) -> [String; 4] {
        let option = |(name, program): (&str, &str)| {
            format!("-DCMAKE_{name}={}", self.folder.join(program).display())
        };
        [
            ("C_COMPILER", "cc"),
            ("CXX_COMPILER", "c++"),
            ("AR", "ar"),
            ("RANLIB", "ranlib"),
        ]
        .map(option)
    }

    /// Returns the linker, which needs the variable [`SDK`].
    pub(super) fn linker(&self) -> PathBuf {
        self.folder.join("linker")
    }

    /// Returns the C++ compiler.
    pub(super) fn cpp(&self) -> Command {
        Command::new(self.folder.join("c++"))
    }

    /// Returns the program that packs static libraries.
    pub(super) fn archiver(&self) -> Command {
        Command::new(self.folder.join("ar"))
    }

    /// Returns the arguments with which libclang reads headers for a Mac.
    pub(super) fn header_arguments(&self) -> String {
        let headers = self.zig.with_file_name("lib");
        let folders = ["include", "libc/include/any-darwin-any"].map(|name| headers.join(name));
        let [own, system] = folders.map(|folder| format!("-isystem \"{}\"", folder.display()));
        format!(
            "--target=arm64-apple-macosx14.0 -march=armv8.6-a+bf16+fp16 -nostdinc {own} {system}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

    #[test]
    fn the_wrapper_removes_what_only_apples_compiler_knows() {
        let folder = tempfile::tempdir().unwrap();
        let zig = folder.path().join("zig");
        std::fs::write(&zig, "#!/bin/sh\nprintf '%s|' \"$@\"\n").unwrap();
        cache::make_executable(&zig).unwrap();
        let compiler = Compiler::write(&zig, folder.path()).unwrap();
        let mut command = compiler.cpp();
        command.args([
            "-O2",
            "-arch",
            "arm64",
            "-mmacosx-version-min=11.0",
            "-gfull",
        ]);
        command.args(["-DNAME=\"a b\"", "-c", "a file.c"]);
        let arguments = process::output_of(&mut command, "compile").unwrap();
        assert_eq!(
            arguments,
            "c++|-target|aarch64-macos.14.0|-g0|-O2|-DNAME=\"a b\"|-c|a file.c|"
        );
    }
}
