//! The `transom` program: the command line and, with a hidden first argument, the child
//! process that runs one model. Only the child process uses an engine.

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

/// Returns all engines. Each refuses the files of the others.
fn engines() -> Vec<Box<dyn Engine>> {
    vec![
        Box::new(MlxEngine::new()),
        #[cfg(feature = "llama")]
        Box::new(llama()),
    ]
}

/// Uses only the fast cores: each step waits for its slowest thread.
#[cfg(feature = "llama")]
fn llama() -> LlamaEngine {
    LlamaEngine::new().with_threads(Hardware::detect().n_performance_cores)
}
