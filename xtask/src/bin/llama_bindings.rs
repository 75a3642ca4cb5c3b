//! `llama-bindings LLAMA_CPP_SYS OUT`: writes the Rust declarations of llama.cpp's headers for another
//! system, which the arguments for libclang in the environment name.
//!
//! The settings are those of the build script of llama-cpp-sys-2 without features.

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [package, out] = args.as_slice() else {
        return Err("usage: llama-bindings LLAMA_CPP_SYS OUT".into());
    };
    let source = package.join("llama.cpp");
    bindgen::Builder::default()
        .header(package.join("wrapper.h").to_string_lossy())
        .clang_arg(format!("-I{}", source.join("include").display()))
        .clang_arg(format!("-I{}", source.join("ggml/include").display()))
        .derive_partialeq(true)
        .allowlist_item("ggml_.*")
        .allowlist_item("gguf_.*")
        .allowlist_item("llama_.*")
        .allowlist_recursively(false)
        .raw_line("type FILE = ::std::os::raw::c_void;")
        .prepend_enum_name(false)
        .generate()?
        .write_to_file(out)?;
    Ok(())
}
