//! The `transom` program: the command line, and under a hidden name the process that a model lives
//! in. Only that process touches the engine.

use std::process::ExitCode;

use transom_engine_host::child;
use transom_engine_mlx::MlxEngine;

fn main() -> ExitCode {
    if child::is_asked_for(std::env::args_os()) {
        return child::main(vec![Box::new(MlxEngine::new())]);
    }
    transom_cli::main()
}
