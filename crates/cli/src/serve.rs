//! `transom serve`: the local HTTP API for other programs, until Ctrl-C.
//!
//! Rule: standard output gets the address and a new key. Errors of single requests go to the clients
//! of the server.

mod keys;

use std::sync::Arc;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use tokio::sync::watch;
use transom_library::Library;
use transom_server::{
    Access, ClientProgram, DEFAULT_PORT, KeyError, KeyFile, Server, ServerOptions, ServerState,
};
use transom_signals::Hardware;

use crate::{Client, Console, Failure, Result, library};

/// Serve models to other programs on this computer
///
/// Editors, agents and scripts that speak the protocol of OpenAI, Anthropic or Ollama can use your
/// models at http://localhost:11535. Only programs of this computer can connect, and they need a key,
/// which is created and shown the first time. Ctrl-C ends the server.
#[derive(Debug, Clone, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    after_long_help = include_str!("help/serve.txt")
)]
pub(crate) struct ServeArgs {
    #[command(subcommand)]
    command: Option<ServeCommand>,

    /// The port
    #[arg(long, value_name = "N", default_value_t = DEFAULT_PORT)]
    port: u16,

    /// Serve at Ollama's port as well, for programs that know no other; N if it is not 11434
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "11434")]
    ollama_port: Option<u16>,

    /// Need no key: every program and every user of this computer can use your models
    #[arg(long, conflicts_with = "key")]
    no_key: bool,

    /// Accept only this key and none of the stored ones; other programs can see it in the list of
    /// processes
    #[arg(long, value_name = "KEY")]
    key: Option<String>,

    /// Let web pages of this origin use the server, such as https://chat.example.org; repeatable.
    /// Pages of this computer always may
    #[arg(long, value_name = "ORIGIN", value_parser = transom_server::origin)]
    allow_origin: Vec<String>,

    /// Show how to set up a program for this server, and exit
    #[arg(long, value_name = "PROGRAM", value_parser = program())]
    show_config: Option<ClientProgram>,
}

#[derive(Debug, Clone, Subcommand)]
enum ServeCommand {
    /// List, create and revoke the keys of programs
    #[command(
        subcommand,
        arg_required_else_help = true,
        disable_help_subcommand = true
    )]
    Keys(keys::KeysCommand),
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::BadName(_) | KeyError::Exists(_) | KeyError::Unknown(_) => Self::usage(error),
            KeyError::Damaged { .. } | KeyError::Io { .. } | KeyError::NoRandomness(_) => {
                Self::failed(error)
            }
        }
    }
}

pub(crate) fn run(args: &ServeArgs, client: &Client, console: &mut Console) -> Result {
    if let Some(ServeCommand::Keys(command)) = &args.command {
        return keys::run(command, client, console);
    }
    if let Some(program) = args.show_config {
        let library = library::open(client, console)?;
        let first = library.installed().first();
        let model = first.map_or_else(|| "MODEL".to_owned(), |model| library.short_name(model));
        return console.print(&program.setup(args.port, &model).to_string());
    }
    serve(args, client, console)
}

fn serve(args: &ServeArgs, client: &Client, console: &mut Console) -> Result {
    // Notes mistakes in the user's files once, and not at each request.
    library::open(client, console)?;
    let (runtime, folder) = (client.runtime()?, client.data_folder()?.to_owned());
    let server = runtime.block_on(Server::bind(args.port));
    let mut server = server.map_err(Failure::usage)?;
    if let Some(port) = args.ollama_port {
        let bound = runtime.block_on(server.with_ollama_port(port));
        server = bound.map_err(Failure::usage)?;
    }
    let (port, ollama_port) = (server.port(), server.ollama_port());
    let supervisor = client.handle()?;
    let access = access(args, client, console)?;
    let hardware = Hardware::detect();
    let state = ServerState::new(ServerOptions {
        port,
        ollama_port,
        access,
        allowed_origins: args.allow_origin.clone(),
        supervisor: supervisor.clone(),
        library: Arc::new(move || Library::open(&folder, &hardware).0),
    });
    console.print(&format!(
        "Serving at http://localhost:{port} (OpenAI: http://localhost:{port}/v1). Ctrl-C ends it.\n"
    ))?;
    if let Some(port) = ollama_port {
        console.print(&format!(
            "Programs for Ollama reach it at http://localhost:{port}.\n"
        ))?;
    }
    let (press, pressed) = watch::channel(false);
    let _watch = client.interrupt.watch(move || _ = press.send(true));
    let is_stopped = |mut pressed: watch::Receiver<bool>| async move {
        let _ = pressed.wait_for(|is_pressed| *is_pressed).await;
    };
    let running = runtime.spawn(server.run(state.clone(), is_stopped(pressed.clone())));
    let mut supervisor = supervisor;
    loop {
        let mut status = supervisor.status();
        let gone = async { while status.changed().await.is_ok() {} };
        let stopped = is_stopped(pressed.clone());
        let must_end = runtime.block_on(async {
            tokio::select! {
                () = stopped => true,
                () = gone => false,
            }
        });
        if must_end {
            break;
        }
        // The app that ran the models has quit, so they run here from now on.
        client.reconnect();
        supervisor = client.handle()?;
        state.set_supervisor(supervisor.clone());
    }
    console.note("Ending the server.");
    let ended = runtime.block_on(running);
    ended.map_err(|_| Failure::internal("the server panicked"))
}

/// Returns who may use the server. Creates the first key.
fn access(args: &ServeArgs, client: &Client, console: &mut Console) -> Result<Access> {
    if args.no_key {
        console.note("No key is needed: every program and user of this computer can connect.");
        return Ok(Access::Everybody);
    }
    if let Some(key) = &args.key {
        return match key.trim().is_empty() {
            true => Err(Failure::usage("--key is empty; --no-key needs no key")),
            false => Ok(Access::key(key.trim())),
        };
    }
    let file = KeyFile::of(client.data_folder()?);
    if let Some(key) = file.add_first()? {
        console.print(&format!("Your key, which is shown only now: {key}\n"))?;
    }
    Ok(Access::File(file))
}

/// Returns the parser of a program's name.
fn program() -> impl TypedValueParser<Value = ClientProgram> {
    let value = |program: &ClientProgram| PossibleValue::new(program.id()).help(program.title());
    let parser = PossibleValuesParser::new(ClientProgram::ALL.iter().map(value));
    parser.try_map(|id| ClientProgram::of_id(&id).ok_or("not a program in this list"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        serve: ServeArgs,
    }

    fn parse(flags: &[&str]) -> Result<ServeArgs, clap::Error> {
        let arguments = ["transom"].iter().chain(flags);
        Only::try_parse_from(arguments).map(|only| only.serve)
    }

    #[test]
    fn the_port_has_a_default_and_keys_exclude_each_other() {
        let args = parse(&[]).unwrap();
        assert_eq!((args.port, args.no_key), (11535, false));
        assert!(parse(&["--no-key", "--key", "x"]).is_err());
        assert!(parse(&["--port", "70000"]).is_err());
        assert_eq!(args.ollama_port, None);
        assert_eq!(parse(&["--ollama-port"]).unwrap().ollama_port, Some(11434));
        let args = parse(&["--ollama-port", "4000"]).unwrap();
        assert_eq!(args.ollama_port, Some(4000));
        let args = parse(&["keys", "revoke", "editor"]).unwrap();
        assert!(matches!(args.command, Some(ServeCommand::Keys(_))));
    }
}
