//! Plans an install and shows the plan before the download begins.

use transom_hub::Hub;
use transom_library::download::{Plan, PlanEstimate, Reference};
use transom_library::{EstimatedFit, Library, variant_text};

use crate::models::hub;
use crate::output::{Rows, disk_text, memory_text, tilde};
use crate::{Client, Layout, Result};

/// Returns the plan for people: the model, its origin, its size, whether it fits, and the free space.
pub(super) fn text(plan: &Plan, hub: &str, free_bytes: Option<u64>, layout: Layout) -> String {
    let mut rows = Rows::new(11, layout);
    let license = match plan.license.as_str() {
        "" => String::new(),
        license => format!(" ({license})"),
    };
    let form = variant_text(plan.format, &plan.quantization);
    rows.heading(&format!("{}, {form}{license}", plan.title));
    rows.row("  from", &format!("{hub}/{}", plan.request.repository));
    let n_files = match plan.request.files.len() {
        0 => String::new(),
        1 => " in one file".to_owned(),
        n => format!(" in {n} files"),
    };
    let size = plan.size_bytes.map(disk_text);
    let size = size.unwrap_or("a size that the hub does not report".to_owned());
    rows.row("  size", &format!("{size}{n_files}"));
    if let Some(estimate) = &plan.estimate {
        rows.row("  memory", &fit_text(estimate));
    }
    if let Some(free) = free_bytes {
        rows.row("  disk", &format!("{} free", disk_text(free)));
    }
    rows.row("  folder", &tilde(&plan.request.folder));
    if !plan.unverified.is_empty() {
        let names = plan.unverified.join(", ");
        rows.row("  note", &format!("not verified in the catalog: {names}"));
    }
    if plan.is_gated {
        rows.row(
            "  note",
            "accept its conditions on its page of the hub first",
        );
    }
    rows.finish()
}

/// Returns whether a model fits, with the numbers.
fn fit_text(estimate: &PlanEstimate) -> String {
    let (need, room) = (
        memory_text(estimate.need_bytes),
        memory_text(estimate.room_bytes),
    );
    let fit = match estimate.fit {
        EstimatedFit::Fits => "fits".to_owned(),
        EstimatedFit::FitsWithContext { context_length } => {
            format!("fits with a context of {context_length} tokens")
        }
        EstimatedFit::FitsIfOthersClose { needs_bytes_free } => {
            format!("fits if other apps free {}", memory_text(needs_bytes_free))
        }
        EstimatedFit::DoesNotFit { .. } => "does not fit".to_owned(),
    };
    let context = match estimate.context_length {
        Some(n) => format!(" with a context of {n} tokens"),
        None => " for the weights alone".to_owned(),
    };
    format!("{fit}: needs {need} of {room}{context}")
}

/// Plans the download that `text` names. Asks the hub for what the catalog does not contain.
pub(super) fn plan(text: &str, library: &Library, hub: &Hub, client: &Client) -> Result<Plan> {
    let reference = Reference::parse(text, library.catalog(), hub.endpoint())?;
    let query = library.listing_of(&reference)?;
    let files = query.map(|query| {
        let files = async { hub.files(&query.repository, &query.revision).await };
        hub::wait(files, client)
    });
    Ok(library.plan(&reference, files.transpose()?.as_ref())?)
}
