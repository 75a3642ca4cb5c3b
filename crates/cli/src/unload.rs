//! `transom unload`: gives a model's memory back now, and shows that it came back.

use std::path::Path;

use clap::Args;
use transom_catalog::Installed;
use transom_files::visible;
use transom_supervisor::Unload;

use crate::console::Console;
use crate::failure::Failure;
use crate::library::Library;
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
    let names: Vec<&str> = loaded.models.iter().map(|model| &*model.name).collect();
    let name = args.model.as_deref();
    let name = name.map(|text| model_name(text, &names, || Library::open(link, console)));
    let unload = name.clone().map_or(Unload::All, Unload::Named);
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
    match name {
        Some(name) if !names.is_empty() => console.print(&format!(
            "No model called {} is loaded; there is {}.\n",
            visible(&name),
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

/// Under which name of `loaded` the model is that was given by its name, by its id in the list, or by
/// its folder or file; else the name that it would have.
fn model_name(
    text: &str,
    loaded: &[&str],
    library: impl FnOnce() -> Result<Library, Failure>,
) -> String {
    if let Some(name) = loaded.iter().find(|name| name.eq_ignore_ascii_case(text)) {
        return (*name).to_owned();
    }
    let Ok(library) = library() else {
        return text.to_owned();
    };
    let path = Path::new(text);
    let is_path =
        path.components().count() > 1 || text.ends_with(std::path::is_separator) || path.is_file();
    let at_path = || Installed::of_places(path, &library.places).ok();
    let model = match is_path && path.exists() {
        true => at_path(),
        false => library.named(text).first().copied().cloned(),
    };
    // A model may have gone from the disk and still be in memory.
    let Some(model) = model.or_else(|| at_path().filter(|_| is_path)) else {
        return text.to_owned();
    };
    let mut names = loaded.iter();
    let name = names.find(|name| model.is_called(name, &library.catalogue));
    name.map_or_else(
        || model.title(&library.catalogue),
        |name| (*name).to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::Interrupt;
    use crate::library::tests::{install, library, machine};
    use crate::load::load;
    use crate::test_console::TestConsole;
    use crate::test_engine::TestEngine;

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
    fn a_model_is_named_by_its_name_its_folder_or_its_file() {
        let data = tempfile::tempdir().unwrap();
        let path = install(data.path(), "owner/tiny-GGUF", "tiny-Q8_0.gguf");
        let library = || Ok(library(data.path(), machine()));
        let check = |text: &str, loaded: &[&str], expect: &str| {
            assert_eq!(model_name(text, loaded, library), expect, "{text}");
        };
        let path = path.to_str().unwrap();
        for text in [
            "tiny",
            "tiny@q8_0",
            "tiny-Q8_0",
            "owner/tiny-GGUF",
            "Tiny 1B · Q8_0",
            path,
        ] {
            check(text, &["other", "Tiny 1B · Q8_0"], "Tiny 1B · Q8_0");
            check(text, &["tiny-Q8_0"], "tiny-Q8_0");
            check(text, &[], "Tiny 1B · Q8_0");
        }
        // What is gone from the disk, and what nobody knows.
        check(
            "/nowhere/Qwen3-4B-4bit",
            &["Qwen3-4B-4bit"],
            "Qwen3-4B-4bit",
        );
        check("models/Qwen3-4B-Q4_K_M.gguf", &[], "Qwen3-4B-Q4_K_M");
        check("qwen", &["Qwen"], "Qwen");
        check("nothing", &["Qwen"], "nothing");
    }
}
