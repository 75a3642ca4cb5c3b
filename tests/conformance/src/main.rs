//! The suite's engine process: the child's loop of the product, with the engines that its first
//! argument names.
//!
//! Rule: nothing of the product's behaviour is written here, so that what the suite proves holds
//! for the program that people run. The second argument is a file that gets the process's id, for
//! tests that kill it.

use std::process::ExitCode;

use transom_engine::Engine;
use transom_engine_host::child;
use transom_engine_llama::LlamaEngine;
use transom_engine_mlx::MlxEngine;

/// The arguments make no sense.
const EXIT_ARGUMENTS: u8 = 3;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let engines = arguments.next().as_deref().and_then(engines);
    let told = arguments
        .next()
        .map(|file| std::fs::write(file, std::process::id().to_string()));
    match (engines, told) {
        (Some(engines), Some(Ok(()))) => child::main(engines),
        _ => ExitCode::from(EXIT_ARGUMENTS),
    }
}

fn engines(name: &str) -> Option<Vec<Box<dyn Engine>>> {
    match name {
        "mlx" => Some(vec![Box::new(MlxEngine::new())]),
        // llama.cpp's threads wait for each other by spinning, and tests run side by side: with as
        // many threads as cores in each process, a step can take a hundred times as long.
        "llama" => Some(vec![Box::new(LlamaEngine::new().with_threads(1))]),
        "every" => Some(vec![
            Box::new(MlxEngine::new()),
            Box::new(LlamaEngine::new()),
        ]),
        _ => None,
    }
}
