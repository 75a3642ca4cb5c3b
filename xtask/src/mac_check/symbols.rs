//! The symbols of object files and libraries for a Mac.

use std::collections::BTreeSet;

use object::LittleEndian;
use object::read::macho::MachOFile64;
use object::{Object, ObjectSymbol};

/// A part of the names of everything in MLX, as C++ compilers write them.
const MLX: &str = "N3mlx4core";

/// The global symbols of a file.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    defined: BTreeSet<String>,
    undefined: BTreeSet<String>,
}

/// Reads the symbol table of a file for one 64-bit processor.
pub(super) fn read(file: &[u8]) -> object::read::Result<Symbols> {
    let mut found = Symbols::default();
    let file = MachOFile64::<LittleEndian>::parse(file)?;
    for symbol in file.symbols().filter(|symbol| symbol.is_global()) {
        let name = String::from_utf8_lossy(symbol.name_bytes()?).into_owned();
        match symbol.is_undefined() {
            true => found.undefined.insert(name),
            false => found.defined.insert(name),
        };
    }
    Ok(found)
}

impl Symbols {
    /// Returns the symbols of MLX that this file needs and the library does not have.
    pub(super) fn missing_in(&self, library: &Symbols) -> Vec<String> {
        let needed = self.undefined.iter().filter(|name| name.contains(MLX));
        let missing = needed.filter(|name| !library.defined.contains(*name));
        missing.cloned().collect()
    }

    /// Returns a symbol of MLX that this file has.
    pub(super) fn any_of_mlx(&self) -> Option<&str> {
        let mut names = self.defined.iter().map(String::as_str);
        names.find(|name| name.contains(MLX))
    }

    /// Returns the functions of Rust bindings that this file does not define.
    pub(super) fn undefined_functions(&self, bindings: &str) -> Vec<String> {
        let functions = bindings.lines().filter_map(|line| {
            let rest = line.trim_start().strip_prefix("pub fn ")?;
            rest.split('(')
                .next()
                .filter(|name| name.starts_with("mlx_"))
        });
        let missing = functions.filter(|name| !self.defined.contains(&format!("_{name}")));
        missing.map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADD: &str = "__ZN3mlx4core3addEv";
    const MISSING: &str = "__ZN3mlx4core7missingEv";

    /// Returns an object file with these global symbols.
    fn object(defined: &[&str], undefined: &[&str]) -> Vec<u8> {
        let words =
            |numbers: &[u32]| -> Vec<u8> { numbers.iter().flat_map(|n| n.to_le_bytes()).collect() };
        let (mut entries, mut strings) = (Vec::new(), vec![0]);
        // An absolute symbol, or an undefined one.
        let kinds = defined.iter().map(|name| (name, 0x03_u8));
        for (name, kind) in kinds.chain(undefined.iter().map(|name| (name, 0x01))) {
            entries.extend(words(&[u32::try_from(strings.len()).unwrap()]));
            entries.extend([kind, 0, 0, 0]);
            entries.extend([0; 8]);
            strings.extend(name.bytes().chain([0]));
        }
        let n_symbols = u32::try_from(defined.len() + undefined.len()).unwrap();
        let start = 32 + 24;
        let (n_entries, n_strings) = (entries.len() as u32, strings.len() as u32);
        // Magic, processor, kind, one command of 24 bytes; then LC_SYMTAB.
        let header = [0xfeed_facf, 0x0100_000c, 0, 1, 1, 24, 0, 0];
        let command = [2, 24, start, n_symbols, start + n_entries, n_strings];
        [words(&header), words(&command), entries, strings].concat()
    }

    #[test]
    fn a_symbol_that_the_library_lacks_is_found() {
        let library = read(&object(&[ADD], &["_malloc"])).unwrap();
        let needs = |names: &[&str]| read(&object(&["_mlx_add"], names)).unwrap();
        assert!(needs(&[ADD, "_malloc"]).missing_in(&library).is_empty());
        assert_eq!(needs(&[ADD, MISSING]).missing_in(&library), [MISSING]);
    }

    #[test]
    fn a_declared_function_without_a_definition_is_found() {
        let object = read(&object(&["_mlx_add"], &["_mlx_sub"])).unwrap();
        let bindings = "    pub fn mlx_add(a: c_int) -> c_int;\n    pub fn mlx_sub(\n";
        assert_eq!(object.undefined_functions(bindings), ["mlx_sub"]);
    }

    #[test]
    fn a_file_of_another_format_is_an_error() {
        assert!(read(b"\x7fELF and more bytes than a header has").is_err());
    }
}
