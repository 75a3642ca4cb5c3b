//! Which models there are, what is in their files, and what they need.
//!
//! Pure Rust: nothing here loads a model or links a native library, so an app can describe a file
//! that its engines would refuse.
//!
//! Rule: a file from outside is never believed. Every length is checked against the file before it
//! is used, and reading allocates less than the file's own size.

pub mod choice;
pub mod convert;
pub mod entries;
pub mod estimate;
pub mod facts;
pub mod fit;
pub mod forms;
pub mod gguf;
mod inspect;
pub mod installed;
pub mod measured;
mod remembered;
pub mod safetensors;
#[cfg(feature = "test-support")]
pub mod test_support;
pub mod tiers;
mod watch;

pub use entries::{Catalogue, Entry, Mistake, Variant};
pub use facts::{Format, KvType, LayerKind, ModelFacts, Packed};
pub use forms::Forms;
pub use inspect::{InspectError, inspect};
pub use installed::{Installed, Origin, Places};
pub use watch::{Watch, read_list};
