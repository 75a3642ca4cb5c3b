//! A hub on this machine for the app under test, with a tiny model in it, and the user's own list
//! that names it.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use crate::desktop::Desktop;
use crate::failure::{Failure, Outcome};
use crate::models;
use crate::programs;

/// What the app calls the model.
pub const NAME: &str = "Tiny";

/// Its name with how it is packed.
pub const FULL_NAME: &str = "Tiny · 4-bit";

/// Its repository.
const REPOSITORY: &str = "tests/tiny";

/// What its weights have where faults hit them: one connection fetches that much, so faults come in
/// their order. Such a model is listed and answers nothing.
const SHORT_BYTES: u64 = 14_600_000;

/// An entry for it, as a user writes one.
pub const LIST: &str = r#"
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
packing = "4-bit"
repository = "tests/tiny"
revision = "main"
size_bytes = 15_000_000
unverified = ["size_bytes"]
"#;

/// A running hub; it ends with this.
#[derive(Debug)]
pub struct Hub {
    child: Child,
}

impl Hub {
    /// Starts a hub with these faults, and has the app ask it: its address is the one that the user
    /// chose, and its model is in the user's own list.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start(desktop: &Desktop, faults: &[&str]) -> Outcome<Self> {
        let folder = desktop.home().join("hub");
        let starter = programs::checkout().join("assets/starter");
        let model = folder.join(REPOSITORY);
        models::copy(&starter, &model).map_err(Failure::doing("fill the hub"))?;
        if faults.iter().any(|fault| fault.starts_with("blob:")) {
            keep_beginning(&model.join("model.safetensors"), SHORT_BYTES)
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
            return Err(Failure::stage("start the hub", "it ended without a word"));
        }
        let chosen = serde_json::json!({ "endpoint": address });
        let doing = "name the hub to the app";
        fs::create_dir_all(desktop.data()).map_err(Failure::doing(doing))?;
        fs::write(desktop.data().join("hub.json"), chosen.to_string())
            .map_err(Failure::doing(doing))?;
        write_list(desktop, LIST)?;
        Ok(hub)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // It ends with its standard input.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Removes the tensors that end beyond the first `most_bytes` of a file's data.
fn keep_beginning(path: &Path, most_bytes: u64) -> io::Result<()> {
    let bytes = fs::read(path)?;
    let (length, rest) = bytes.split_at(8);
    let length = u64::from_le_bytes(length.try_into().map_err(io::Error::other)?) as usize;
    let (header, data) = rest.split_at(length);
    let mut header: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(header)?;
    let end = |tensor: &serde_json::Value| tensor["data_offsets"][1].as_u64().unwrap_or(0);
    header.retain(|_, tensor| end(tensor) <= most_bytes);
    let kept = header.values().map(end).max().unwrap_or(0) as usize;
    let mut header = serde_json::to_string(&header)?;
    // The data begins at a multiple of eight.
    while header.len() % 8 != 0 {
        header.push(' ');
    }
    let length = (header.len() as u64).to_le_bytes();
    fs::write(path, [&length, header.as_bytes(), &data[..kept]].concat())
}

/// Writes the user's own list as an editor does: beside it, then in its place.
///
/// # Errors
/// When the disk refuses.
pub fn write_list(desktop: &Desktop, text: &str) -> Outcome {
    let (fresh, list) = (
        desktop.data().join("models.toml.new"),
        desktop.data().join("models.toml"),
    );
    fs::write(&fresh, text)
        .and_then(|()| fs::rename(&fresh, &list))
        .map_err(Failure::doing("write the user's list"))
}

/// Where the model goes.
pub fn folder_of(desktop: &Desktop) -> std::path::PathBuf {
    desktop.data().join("models").join(Path::new(REPOSITORY))
}
