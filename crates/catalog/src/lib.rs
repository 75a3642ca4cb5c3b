//! The model catalog: which models exist, which are on this machine, and what memory they need.
//!
//! This crate is pure Rust. It loads no model and links no native library, so an app can describe
//! a file that its engines would refuse.
//!
//! Rule: files are not trusted. Each length is checked against the file before it is used, and
//! reading a file allocates less memory than the size of the file.

pub mod choice;
pub mod entries;
pub mod estimate;
pub mod facts;
mod facts_cache;
mod file_error;
pub mod fit;
pub mod gguf;
mod inspect;
pub mod installed;
pub mod machine;
pub mod measured;
pub mod model_files;
pub mod recommendations;
pub mod safetensors;
#[cfg(feature = "test-support")]
pub mod test_support;
pub mod versioned_file;
mod watch;
mod weight_files;

pub use entries::{Catalog, CatalogError, CatalogErrorCode, Entry, Variant};
pub use facts::{EmbeddingFacts, Format, KvType, LayerKind, ModelFacts, Pooling, TensorTypeStats};
pub use file_error::{Fault, FaultCode, FileError};
pub use inspect::inspect;
pub use installed::{InstalledModel, Origin, Places};
pub use model_files::ModelFiles;
pub use watch::{CatalogWatcher, read_catalog};
