//! Commands for benchmarks: the last results, and one that the app runs.

use std::time::Duration;

use tauri::{AppHandle, Manager, State, WebviewWindow};
use transom_library::benchmarks::{exported, read};

use super::{models, save};
use crate::backend::Backend;
use crate::benchmarks::{self, MINUTES};
use crate::shell::Shell;
use crate::wire::{
    AppEvent, BenchmarkFormat, BenchmarkView, BenchmarksView, CommandError, CommandResult,
};

#[tauri::command]
pub(crate) async fn benchmarks(shell: State<'_, Shell>) -> CommandResult<BenchmarksView> {
    let read = shell.blocking(|backend| Ok(read(backend.data_folder())));
    Ok(BenchmarksView {
        results: read.await?.into_iter().map(BenchmarkView::from).collect(),
        running: shell.benchmarks.progress(),
    })
}

/// Measures the speed of a model for some minutes in each engine, and saves the result. Returns at its
/// end, also after [`stop_benchmark`].
#[tauri::command]
pub(crate) async fn run_benchmark(app: AppHandle, id: String, minutes: u64) -> CommandResult<()> {
    if !MINUTES.contains(&minutes) {
        return Err(CommandError::invalid("minutes", "must be from 1 to 30"));
    }
    let shell = app.state::<Shell>();
    let model = models::find(&shell, &id).await?;
    let library = shell
        .blocking(|backend| Ok(backend.timed_library()))
        .await?;
    let backend = shell.backend().await?;
    let length = Duration::from_secs(60 * minutes);
    let stop = shell.benchmarks.begin()?;
    let on_progress = |progress| {
        if shell.benchmarks.set_progress(&progress) {
            let running = Some(progress);
            shell.send(&AppEvent::Benchmark { running });
        }
    };
    let handle = backend.handle();
    let measured = benchmarks::measure(&handle, &library, &model, length, &stop, on_progress).await;
    shell.benchmarks.end();
    let saved = match measured {
        Ok(Some(benchmark)) => {
            let save = move |backend: &Backend| {
                let saved = transom_library::benchmarks::save(backend.data_folder(), &benchmark);
                saved.map_err(CommandError::other)
            };
            shell.blocking(save).await
        }
        measured => measured.map(drop),
    };
    // After the result is saved, because pages reload it.
    shell.send(&AppEvent::Benchmark { running: None });
    saved
}

/// Stops the benchmark. What was measured until then is its result.
#[tauri::command]
pub(crate) async fn stop_benchmark(app: AppHandle) -> CommandResult<()> {
    app.state::<Shell>().benchmarks.stop();
    Ok(())
}

/// Asks for a file and writes a result. `None` if the user cancels.
#[tauri::command]
pub(crate) async fn export_benchmark(
    page: WebviewWindow,
    shell: State<'_, Shell>,
    key: String,
    format: BenchmarkFormat,
) -> CommandResult<Option<String>> {
    let read = shell.blocking(|backend| Ok(read(backend.data_folder())));
    let found = read.await?.into_iter().find(|one| one.key() == key);
    let benchmark = exported(&found.ok_or(CommandError::NotFound)?);
    let name = benchmarks::file_name(&benchmark, format);
    let text = move || match format {
        BenchmarkFormat::Svg => benchmark.svg(),
        BenchmarkFormat::Json => benchmark.json(),
    };
    save(&page, &name, text).await
}
