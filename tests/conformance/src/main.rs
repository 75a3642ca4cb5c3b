//! The engine process of the suite: the child loop of the product, with the engines of the first
//! argument.
//!
//! Rule: this file contains none of the behavior of the product, so the results of the suite hold
//! for the program that users run. The process id is written to the file of the second argument,
//! for tests that kill the process.

use std::process::ExitCode;

use transom_engine::Engine;
use transom_engine_host::child;
use transom_engine_llama::LlamaEngine;
use transom_engine_mlx::MlxEngine;

/// The exit code for invalid arguments.
const EXIT_ARGUMENTS: u8 = 3;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let engines = arguments.next().as_deref().and_then(engines);
    let written = arguments
        .next()
        .map(|file| std::fs::write(file, std::process::id().to_string()));
    match (engines, written) {
        (Some(engines), Some(Ok(()))) => child::main(engines),
        _ => ExitCode::from(EXIT_ARGUMENTS),
    }
}

fn engines(name: &str) -> Option<Vec<Box<dyn Engine>>> {
    match name {
        "mlx" => Some(vec![Box::new(MlxEngine::new())]),
        // The threads of llama.cpp spin while they wait, and tests run in parallel. With as many
        // threads as cores in each process, a step can take a hundred times as long.
        "llama" => Some(vec![Box::new(LlamaEngine::new().with_threads(1))]),
        "every" => Some(vec![
            Box::new(MlxEngine::new()),
            Box::new(LlamaEngine::new()),
        ]),
        _ => None,
    }
}
