//! `transom models token`: the hub's token, which some models need.
//!
//! Rule: the token comes from standard input, never from an argument, where other programs and the
//! shell's history would see it. It is not shown while it is typed, and never written.

use clap::{Args, Subcommand};
use serde_json::json;
use transom_hub::{Hub, Token, TokenSource};
use transom_terminal::read_hidden_line;

use crate::models::hub;
use crate::{Client, Console, Failure, Result};

/// Store or delete the hub's token, for models that need one
///
/// Some models need an account on the hub and an accepted license. Create a token with the right to
/// read at huggingface.co/settings/tokens. It is stored in the Keychain of a Mac and in the Secret
/// Service elsewhere (KWallet, GNOME Keyring), in no file.
#[derive(Debug, Clone, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_long_help = include_str!("../help/models-token.txt")
)]
pub(super) struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum TokenCommand {
    /// Store a token: type it when asked, or pipe it in
    Set,
    /// Delete the token
    Clear,
    /// Show whether there is one, and where it comes from
    Status {
        /// Write the result as JSON
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn run(args: &TokenArgs, client: &Client, console: &mut Console) -> Result {
    let options = hub::options(client)?;
    let hub = Hub::new(options.clone())?;
    let name = hub::name_of(&hub);
    let is_in_environment = matches!(options.token, TokenSource::Given(_));
    match args.command {
        TokenCommand::Set => {
            let prompt = format!("Token for {name} (it is not shown): ");
            let is_typed = console.terminals.stdin;
            let (input, err) = (&mut *console.input, &mut *console.err);
            let line = read_hidden_line(&prompt, input, err, is_typed, &client.interrupt);
            let line = line.map_err(Failure::input)?;
            hub::wait(hub.set_token(Token::new(line)?), client)?;
            console.note(&format!("The token for {name} is stored."));
        }
        TokenCommand::Clear => {
            hub::wait(hub.clear_token(), client)?;
            console.note(&format!("No token for {name} is stored."));
        }
        TokenCommand::Status { json } => {
            // Where the token comes from; `null` in the JSON if there is none.
            let (origin, text) = if is_in_environment {
                (Some("environment"), "a token from HF_TOKEN")
            } else if hub::wait(hub.has_token(), client)? {
                (Some("keychain"), "a token is stored")
            } else {
                (None, "no token")
            };
            let status = json!({ "hub": name, "token_from": origin });
            return console.print_result(json, &status, |_, _| format!("{name}: {text}\n"));
        }
    }
    if is_in_environment {
        console.note("HF_TOKEN is set in the environment and takes precedence.");
    }
    Ok(())
}
