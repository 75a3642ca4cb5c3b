//! `transom unload`: gives a model's memory back now, and shows that it came back.

use clap::Args;
use transom_files::visible;
use transom_library::Library;
use transom_supervisor::ModelSelector;
use transom_supervisor::status::ModelStatus;

use crate::console::Console;
use crate::failure::Failure;
use crate::library;
use crate::link::Link;
use crate::output::json::write_line;
use crate::output::rows::unload_text;

/// Give the memory of loaded models back
///
/// A running answer is ended first. Nothing else is lost: the next question loads the model again.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = "\
Examples:
  transom unload                     every model
  transom unload qwen3-4b            one, by a name that `--model` takes

Exit codes: 0 the memory is free, also when nothing was loaded; 1 it could not be done.")]
pub(crate) struct UnloadArgs {
    /// Name of the model in `transom status` or `transom models list`, or its folder or file
    /// [default: every model]
    #[arg(value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Write the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &UnloadArgs, link: &Link, console: &mut Console) -> Result<(), Failure> {
    let Some(handle) = link.running()? else {
        return say(args, console, "Nothing is running, so no model is loaded.");
    };
    let loaded = handle.status().borrow().clone();
    let unload = match &args.model {
        Some(text) => {
            ModelSelector::Model(id_of(text, &loaded.models, || library::open(link, console)))
        }
        None => ModelSelector::All,
    };
    let records = link.unload(unload)?;
    if args.json {
        return write_line(console.out, &records).map_err(Failure::Output);
    }
    if !records.is_empty() {
        let lines = records
            .iter()
            .map(|record| format!("{}: {}\n", visible(&record.name), unload_text(record)));
        return console.print(&lines.collect::<String>());
    }
    let names: Vec<&str> = loaded.models.iter().map(|model| &*model.name).collect();
    match &args.model {
        Some(text) if !names.is_empty() => console.print(&format!(
            "No model called {} is loaded; there is {}.\n",
            visible(text),
            visible(&names.join(", "))
        )),
        _ => console.print("No model is loaded.\n"),
    }
}

fn say(args: &UnloadArgs, console: &mut Console, text: &str) -> Result<(), Failure> {
    if args.json {
        write_line(console.out, &[(); 0]).map_err(Failure::Output)
    } else {
        console.print(&format!("{text}\n"))
    }
}

/// Returns the id of the model that `text` names: a loaded one, else one of the library.
fn id_of(
    text: &str,
    loaded: &[ModelStatus],
    library: impl FnOnce() -> Result<Library, Failure>,
) -> String {
    let is_named = |model: &&ModelStatus| {
        [&model.id, &model.name]
            .iter()
            .any(|name| name.eq_ignore_ascii_case(text))
    };
    if let Some(model) = loaded.iter().find(is_named) {
        return model.id.clone();
    }
    // A model that was deleted from the disk may still be loaded, under its path.
    let found = library().ok().and_then(|library| {
        let model = library.resolve(text).ok()?;
        Some(library.id_of(&model))
    });
    found.unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::Interrupt;
    use crate::load::load;
    use crate::test_console::TestConsole;
    use crate::test_engine::TestEngine;
    use transom_library::test_support::{computer, install, library};

    fn unload(link: &Link, model: Option<&str>) -> String {
        let mut streams = TestConsole::default();
        let args = UnloadArgs {
            model: model.map(str::to_owned),
            json: false,
        };
        run(&args, link, &mut streams.console()).unwrap();
        streams.out_text()
    }

    #[test]
    fn an_unload_says_what_came_back_and_the_second_that_nothing_is_left() {
        let engine = TestEngine::answering(&[]);
        let link = engine.link();
        let args = crate::arguments::ModelArgs {
            model: Some("./scripted".into()),
            ..Default::default()
        };
        let mut streams = TestConsole::default();
        let interrupt = Interrupt::detached();
        load(&args, false, &link, &mut streams.console(), &interrupt).unwrap();
        let text = unload(&link, Some("other"));
        assert_eq!(
            text,
            "No model called other is loaded; there is scripted.\n"
        );
        let text = unload(&link, Some("scripted"));
        assert!(
            text.starts_with("scripted: ") && text.contains(" in "),
            "{text}"
        );
        assert_eq!(unload(&link, None), "No model is loaded.\n");
    }

    #[test]
    fn a_model_is_named_by_its_id_its_name_its_folder_or_its_file() {
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
