//! The `transom` program: the command line, and under a hidden name the process that a model lives
//! in. Only that process touches an engine.

use std::process::ExitCode;

use transom_engine::Engine;
use transom_engine_host::child;
#[cfg(feature = "llama")]
use transom_engine_llama::LlamaEngine;
use transom_engine_mlx::MlxEngine;
#[cfg(feature = "llama")]
use transom_signals::Hardware;

fn main() -> ExitCode {
    transom_files::make_new_files_private();
    if child::is_child_process(std::env::args_os()) {
        return child::main(engines());
    }
    transom_cli::main()
}

/// Each refuses the files of the others.
fn engines() -> Vec<Box<dyn Engine>> {
    vec![
        Box::new(MlxEngine::new()),
        #[cfg(feature = "llama")]
        Box::new(llama()),
    ]
}

/// Slower cores would hold the fast ones up: each step waits for its last thread.
#[cfg(feature = "llama")]
fn llama() -> LlamaEngine {
    LlamaEngine::new().with_threads(Hardware::detect().n_performance_cores)
}
