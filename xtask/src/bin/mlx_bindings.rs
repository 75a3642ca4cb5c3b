//! `mlx-bindings MLX_C OUT [HALF_SHIM]`: writes the Rust declarations of mlx-c's headers.
//!
//! The settings are those of mlx-sys's own build script. With a shim for the 16-bit types,
//! `float16_t` is declared here as mlx-rs expects it, a tuple struct; `bfloat16_t` is a `u16`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    match args.as_slice() {
        [mlx_c, out] => generate(mlx_c, out, None),
        [mlx_c, out, half_shim] => generate(mlx_c, out, Some(half_shim)),
        _ => Err("usage: mlx-bindings MLX_C OUT [HALF_SHIM]".into()),
    }
}

fn generate(mlx_c: &Path, out: &Path, half_shim: Option<&Path>) -> Result<(), Box<dyn Error>> {
    let mut headers = Vec::new();
    for entry in fs::read_dir(mlx_c.join("mlx/c"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "h") {
            headers.push(path);
        }
    }
    // The order of a folder differs from machine to machine; the bindings must not.
    headers.sort();

    let mut builder = bindgen::Builder::default()
        .rust_target("1.73.0".parse()?)
        .clang_arg(format!("-I{}", mlx_c.display()))
        .blocklist_function("malloc")
        .blocklist_function("realloc");
    if let Some(shim) = half_shim {
        builder = builder
            .clang_args(["-include", &shim.to_string_lossy()])
            .blocklist_type("float16_t")
            .raw_line("#[repr(transparent)]")
            .raw_line("#[derive(Debug, Copy, Clone, Default)]")
            .raw_line("pub struct float16_t(pub u16);");
    }
    for header in headers {
        builder = builder.header(header.to_string_lossy());
    }
    builder.generate()?.write_to_file(out)?;
    Ok(())
}
