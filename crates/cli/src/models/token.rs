//! `transom models token`: the hub's token, which some models ask for.
//!
//! Rule: the token comes from standard input, never from an argument, where other programs and the
//! shell's history would see it; it is not shown while it is typed, and never written by us.

use clap::{Args, Subcommand};
use serde::Serialize;
use transom_hub::{Hub, Token, TokenSource};

use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::Link;
use crate::models::elsewhere;
use crate::output::json::write_line;
use crate::silent;

/// Keep or forget the hub's token, for models that need one
///
/// Some models are given only to people who have an account on the hub and agreed to a licence.
/// Make a token with the right to read at huggingface.co/settings/tokens. It is kept in the Keychain
/// of a Mac and in the Secret Service elsewhere (KWallet, GNOME Keyring), in no file.
#[derive(Debug, Clone, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_long_help = "\
Examples:
  transom models token set               asks for it, and does not show it
  pass show hub | transom models token set
  transom models token clear

HF_TOKEN in the environment goes before the one that is kept.

Exit codes: 0 done, 1 the Keychain or Secret Service cannot be used, 2 no token was given."
)]
pub(super) struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum TokenCommand {
    /// Keep a token: type it when asked, or pipe it in
    Set,
    /// Forget the token
    Clear,
    /// Say whether there is one, and where it comes from
    Status {
        /// Write the result as JSON
        #[arg(long)]
        json: bool,
    },
}

/// What is known of the token.
#[derive(Debug, Serialize)]
struct Status<'a> {
    hub: &'a str,
    /// `environment`, `keychain`; `null` if there is none.
    token_from: Option<&'static str>,
}

/// Runs the command.
pub(super) fn run(
    args: &TokenArgs,
    link: &Link,
    console: &mut Console,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let options = elsewhere::options(link)?;
    let hub = Hub::new(options.clone())?;
    let name = elsewhere::name_of(&hub);
    let of_environment = matches!(options.token, TokenSource::Given(_));
    match args.command {
        TokenCommand::Set => {
            let prompt = format!("Token for {name} (it is not shown): ");
            let line = silent::read_line(&prompt, console, interrupt)?;
            let token = Token::new(line)?;
            elsewhere::wait(hub.set_token(token), link, interrupt)?;
            console.note(&format!("The token for {name} is kept."));
            if of_environment {
                console.note(GOES_BEFORE);
            }
            Ok(())
        }
        TokenCommand::Clear => {
            elsewhere::wait(hub.clear_token(), link, interrupt)?;
            console.note(&format!("No token for {name} is kept."));
            if of_environment {
                console.note(GOES_BEFORE);
            }
            Ok(())
        }
        TokenCommand::Status { json } => {
            let token_from = match of_environment {
                true => Some("environment"),
                false => {
                    let has = elsewhere::wait(hub.has_token(), link, interrupt)?;
                    has.then_some("keychain")
                }
            };
            if json {
                let hub = name;
                return write_line(console.out, &Status { hub, token_from })
                    .map_err(Failure::Output);
            }
            console.print(&match token_from {
                Some("environment") => format!("{name}: a token from HF_TOKEN\n"),
                Some(_) => format!("{name}: a token is kept\n"),
                None => format!("{name}: no token\n"),
            })
        }
    }
}

const GOES_BEFORE: &str = "HF_TOKEN is set in the environment, and goes before it.";
