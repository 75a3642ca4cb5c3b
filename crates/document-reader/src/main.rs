//! The `transom-document-reader` program. The app and the command line start it for each document.

use std::process::ExitCode;

fn main() -> ExitCode {
    transom_document_reader::main()
}
