//! The `transom` program: the command line of `transom_cli` on the MLX engine.

use std::process::ExitCode;

use transom_engine_mlx::MlxEngine;

fn main() -> ExitCode {
    transom_cli::main(&MlxEngine::new())
}
