//! Converts a model folder to GGUF: `convert FOLDER FILE [F32|F16|Q8_0|Q4_1]`.
//!
//! Use it to inspect the converter's output with other tools.

use std::process::ExitCode;

use transom_catalog::test_support::convert::{Quantization, convert};

#[expect(clippy::print_stderr, reason = "a program for a terminal")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let quantization = match arguments.get(2).map(String::as_str) {
        Some("F32") => Quantization::F32,
        None | Some("F16") => Quantization::F16,
        Some("Q8_0") => Quantization::Q8_0,
        Some("Q4_1") => Quantization::Q4_1,
        Some(other) => {
            eprintln!("{other} is unknown; use F32, F16, Q8_0 or Q4_1");
            return ExitCode::FAILURE;
        }
    };
    let [folder, to, ..] = arguments.as_slice() else {
        eprintln!("give a model folder and the file to write");
        return ExitCode::FAILURE;
    };
    match convert(folder.as_ref(), to.as_ref(), quantization) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
