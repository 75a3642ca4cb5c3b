//! `transom serve keys`: the keys of programs that use the local API.
//!
//! Rule: a key is written to standard output once, when it is created.

use clap::Subcommand;
use serde_json::json;
use transom_server::KeyFile;

use crate::{Client, Console, Result};

#[derive(Debug, Clone, Subcommand)]
pub(super) enum KeysCommand {
    /// Show the names of all keys
    List {
        /// Write the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Create a key for a program, and show it once
    Add {
        /// Its name, such as the name of the program
        name: String,
    },
    /// Revoke a key; requests with it are refused from now on
    Revoke {
        /// Its name
        name: String,
    },
}

pub(super) fn run(command: &KeysCommand, client: &Client, console: &mut Console) -> Result {
    let file = KeyFile::of(client.data_folder()?);
    match command {
        KeysCommand::List { json } => {
            let keys = file.read()?;
            let result: Vec<_> = keys
                .iter()
                .map(|key| json!({ "name": key.name, "created": key.created }))
                .collect();
            console.print_result(*json, &result, |_, _| match keys.is_empty() {
                true => "There is no key; `transom serve keys add NAME` creates one.\n".to_owned(),
                false => keys.iter().map(|key| format!("{}\n", key.name)).collect(),
            })
        }
        KeysCommand::Add { name } => {
            let key = file.add(name)?;
            console.note(&format!("The key {name}, which is shown only now:"));
            console.print(&(key + "\n"))
        }
        KeysCommand::Revoke { name } => {
            file.revoke(name)?;
            console.note(&format!("The key {name} is revoked."));
            Ok(())
        }
    }
}
