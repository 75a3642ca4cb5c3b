//! What the system reads of a Mach-O file before it starts it.

use object::LittleEndian;
use object::macho::{
    CPU_TYPE_ARM64, FAT_MAGIC, FAT_MAGIC_64, MH_MAGIC, MH_MAGIC_64, MachHeader64, Version,
};
use object::read::macho::{LoadCommandVariant, MachHeader};

/// A program or library for one processor.
#[derive(Debug, Default, PartialEq)]
pub(super) struct MachO {
    pub(super) is_arm64: bool,
    /// The oldest macOS that it runs on.
    pub(super) minimum: Option<Version>,
    /// The folders in which the system looks for `@rpath`.
    pub(super) run_paths: Vec<String>,
    /// The install names of the libraries that it needs, weak ones too.
    pub(super) dependencies: Vec<String>,
}

/// Returns true if a file that starts with these bytes is code for a Mac, for one processor or for
/// several.
pub(super) fn is_mach_o(start: &[u8]) -> bool {
    let magics = [FAT_MAGIC, FAT_MAGIC_64, MH_MAGIC, MH_MAGIC_64];
    start.first_chunk().is_some_and(|&magic| {
        magics.contains(&u32::from_be_bytes(magic)) || magics.contains(&u32::from_le_bytes(magic))
    })
}

/// Reads the load commands of a file for one 64-bit processor.
pub(super) fn read(file: &[u8]) -> object::read::Result<MachO> {
    let header = MachHeader64::<LittleEndian>::parse(file, 0)?;
    let mut code = MachO {
        is_arm64: header.cputype(LittleEndian) == CPU_TYPE_ARM64,
        ..MachO::default()
    };
    let mut commands = header.load_commands(LittleEndian, file, 0)?;
    while let Some(command) = commands.next()? {
        let text = |name| -> object::read::Result<String> {
            let bytes = command.string(LittleEndian, name)?;
            Ok(String::from_utf8_lossy(bytes).into_owned())
        };
        match command.variant()? {
            LoadCommandVariant::BuildVersion(version, _) => {
                code.minimum = Some(version.minos.get(LittleEndian));
            }
            LoadCommandVariant::Rpath(rpath) => code.run_paths.push(text(rpath.path)?),
            LoadCommandVariant::Dylib(dylib) => code.dependencies.push(text(dylib.dylib.name)?),
            _ => {}
        }
    }
    Ok(code)
}
