//! A local hub for the app under test with a tiny model, and a user catalog that contains the
//! model.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use crate::desktop::Desktop;
use crate::failure::{Failure, Outcome};
use crate::models;
use crate::programs;

/// The model's display name.
pub const NAME: &str = "Tiny";

/// The display name with the quantization.
pub const FULL_NAME: &str = "Tiny · 4-bit";

/// The model's repository.
const REPOSITORY: &str = "tests/tiny";

/// The size of the weights in tests with faults. One connection downloads this much, so faults
/// occur in order. This shortened model is listed but cannot respond.
const TRUNCATED_BYTES: u64 = 14_600_000;

/// A catalog entry as a user would write it.
pub const CATALOG: &str = r#"
[[model]]
id = "tiny"
name = "Tiny"
family = "Tiny"
description = "For tests only."
license = "MIT"
tags = ["chat"]
source = "https://example.com/tiny"

[model.sampling]
temperature = 0.25

[model.architecture]
model_type = "qwen3"
parameters = 25_961_984
layers = 8
hidden_size = 512
heads = 8
kv_heads = 2
head_dim = 64
intermediate_size = 1344
vocabulary = 8192
context_length = 2048

[[model.variant]]
format = "mlx"
quantization = "4-bit"
repository = "tests/tiny"
revision = "main"
size_bytes = 15_000_000
unverified = ["size_bytes"]
"#;

/// A running hub. Dropping it stops the hub.
#[derive(Debug)]
pub struct Hub {
    child: Child,
}

impl Hub {
    /// Starts a hub with these faults and configures the app for it: sets the hub's address, and
    /// adds its model to the user's catalog.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(desktop: &Desktop, faults: &[&str]) -> Outcome<Self> {
        let folder = desktop.home().join("hub");
        let starter = programs::checkout().join("assets/starter");
        let model = folder.join(REPOSITORY);
        models::copy(&starter, &model).map_err(Failure::doing("fill the hub"))?;
        if faults.iter().any(|fault| fault.starts_with("blob:")) {
            truncate_tensors(&model.join("model.safetensors"), TRUNCATED_BYTES)
                .map_err(Failure::doing("shorten the model"))?;
        }
        let mut command = desktop.command(programs::ours("local-hub")?);
        command
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        for fault in faults {
            command.args(["--fault", fault]);
        }
        let mut child = command.spawn().map_err(Failure::doing("start the hub"))?;
        let mut address = String::new();
        if let Some(out) = child.stdout.take() {
            let read = BufReader::new(out).read_line(&mut address);
            read.map_err(Failure::doing("read the hub's address"))?;
        }
        let hub = Self { child };
        let address = address.trim();
        if address.is_empty() {
            return Err(Failure::setup("start the hub", "it exited without output"));
        }
        let chosen = serde_json::json!({ "endpoint": address });
        let doing = "name the hub to the app";
        fs::create_dir_all(desktop.data()).map_err(Failure::doing(doing))?;
        fs::write(desktop.data().join("hub.json"), chosen.to_string())
            .map_err(Failure::doing(doing))?;
        write_catalog(desktop, CATALOG)?;
        Ok(hub)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // The hub exits when its standard input is closed.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Removes the tensors that end after the first `most_bytes` of a file's data.
fn truncate_tensors(path: &Path, most_bytes: u64) -> io::Result<()> {
    let bytes = fs::read(path)?;
    let (length, rest) = bytes.split_at(8);
    let length = u64::from_le_bytes(length.try_into().map_err(io::Error::other)?) as usize;
    let (header, data) = rest.split_at(length);
    let mut header: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(header)?;
    let end = |tensor: &serde_json::Value| tensor["data_offsets"][1].as_u64().unwrap_or(0);
    header.retain(|_, tensor| end(tensor) <= most_bytes);
    let kept = header.values().map(end).max().unwrap_or(0) as usize;
    let mut header = serde_json::to_string(&header)?;
    // The data starts at a multiple of eight.
    while header.len() % 8 != 0 {
        header.push(' ');
    }
    let length = (header.len() as u64).to_le_bytes();
    fs::write(path, [&length, header.as_bytes(), &data[..kept]].concat())
}

/// Writes the user's catalog like an editor: to a new file that replaces the old one.
///
/// # Errors
/// If the disk refuses.
pub fn write_catalog(desktop: &Desktop, text: &str) -> Outcome {
    let (fresh, list) = (
        desktop.data().join("models.toml.new"),
        desktop.data().join("models.toml"),
    );
    fs::write(&fresh, text)
        .and_then(|()| fs::rename(&fresh, &list))
        .map_err(Failure::doing("write the user's list"))
}

/// Returns the folder of the downloaded model.
pub fn folder_of(desktop: &Desktop) -> std::path::PathBuf {
    desktop.data().join("models").join(Path::new(REPOSITORY))
}
