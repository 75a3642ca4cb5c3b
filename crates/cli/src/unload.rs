//! `transom unload`: unloads models and shows how much memory they returned.

use clap::Args;
use transom_files::visible;
use transom_library::Library;
use transom_supervisor::ModelSelector;
use transom_supervisor::status::{ModelStatus, UnloadRecord};

use crate::library;
use crate::output::unload_text;
use crate::{Client, Console, Result};

/// Unload models and return their memory
///
/// A running response is stopped first. Nothing else is lost: the next request loads the model again.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = include_str!("help/unload.txt"))]
pub(crate) struct UnloadArgs {
    /// Name of the model in `transom status` or `transom models list`, or its folder or file
    /// [default: every model]
    #[arg(value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Write the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &UnloadArgs, client: &Client, console: &mut Console) -> Result {
    let Some(handle) = client.running()? else {
        let text = "Nothing is running, so no model is loaded.\n";
        return console.print_result(args.json, &[(); 0], |_, _| text.to_owned());
    };
    let loaded = handle.status().borrow().clone();
    let unload = match &args.model {
        Some(text) => {
            let library = || library::open(client, console);
            ModelSelector::Model(id_of(text, &loaded.models, library))
        }
        None => ModelSelector::All,
    };
    let records = client.runtime()?.block_on(handle.unload(unload))?;
    console.print_result(args.json, &records, |records, _| {
        result_text(records, &loaded.models, args.model.as_deref())
    })
}

/// Returns the result for people: the unloaded models, or why there are none.
fn result_text(records: &[UnloadRecord], loaded: &[ModelStatus], named: Option<&str>) -> String {
    let line =
        |record: &UnloadRecord| format!("{}: {}\n", visible(&record.name), unload_text(record));
    let names: Vec<&str> = loaded.iter().map(|model| &*model.name).collect();
    let names = names.join(", ");
    match named {
        _ if !records.is_empty() => records.iter().map(line).collect(),
        Some(named) if !loaded.is_empty() => {
            let (named, names) = (visible(named), visible(&names));
            format!("No model called {named} is loaded; there is {names}.\n")
        }
        _ => "No model is loaded.\n".to_owned(),
    }
}

/// Returns the id of the model that `text` names: a loaded one, else one of the library.
fn id_of(text: &str, loaded: &[ModelStatus], library: impl FnOnce() -> Result<Library>) -> String {
    let is_it = |name: &String| name.eq_ignore_ascii_case(text);
    let mut loaded = loaded.iter();
    if let Some(model) = loaded.find(|model| is_it(&model.id) || is_it(&model.name)) {
        return model.id.clone();
    }
    // A model that was deleted from the disk may still be loaded, under its path.
    let id = library().ok().and_then(|library| {
        let model = library.resolve(text).ok()?;
        Some(library.id_of(&model))
    });
    id.unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::load;
    use crate::test_console::TestConsole;
    use crate::test_engine::TestEngine;
    use transom_library::test_support::{computer, install, library};

    fn unload(client: &Client, model: Option<&str>) -> String {
        let mut streams = TestConsole::default();
        let args = UnloadArgs {
            model: model.map(str::to_owned),
            json: false,
        };
        run(&args, client, &mut streams.console()).unwrap();
        streams.out_text()
    }

    #[test]
    fn an_unload_shows_the_returned_memory() {
        let engine = TestEngine::answering(&[]);
        let client = engine.client();
        let args = crate::load::ModelArgs {
            model: Some("./scripted".into()),
            ..Default::default()
        };
        let mut streams = TestConsole::default();
        load(&args, false, &client, &mut streams.console()).unwrap();
        let text = unload(&client, Some("other"));
        assert_eq!(
            text,
            "No model called other is loaded; there is scripted.\n"
        );
        let text = unload(&client, Some("scripted"));
        assert!(
            text.starts_with("scripted: ") && text.contains(" in "),
            "{text}"
        );
        assert_eq!(unload(&client, None), "No model is loaded.\n");
    }

    #[test]
    fn a_model_is_found_by_its_id_its_name_its_folder_or_its_file() {
        let data = tempfile::tempdir().unwrap();
        let path = install(data.path(), "owner/tiny-GGUF", "tiny-Q8_0.gguf");
        let check = |text: &str, id: &str| {
            let library = || Ok(library(data.path(), computer()));
            assert_eq!(id_of(text, &[], library), id, "{text}");
        };
        let path = path.to_str().unwrap();
        for text in ["tiny", "tiny@q8_0", "tiny-Q8_0", "Tiny 1B · Q8_0", path] {
            check(text, "tiny@Q8_0");
        }
        check("/nowhere/Qwen3-4B-4bit", "/nowhere/Qwen3-4B-4bit");
        check("nothing", "nothing");
    }
}
