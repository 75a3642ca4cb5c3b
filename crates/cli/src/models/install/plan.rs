//! What an install will do, shown before it does it.

use std::path::Path;

use transom_hub::Hub;
use transom_library::download::{Plan, Reference};
use transom_library::{Library, variant_text};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::library::fit_text;
use crate::link::Link;
use crate::models::elsewhere;
use crate::output::rows::Rows;
use crate::output::size::disk_text;

/// Columns of labels, margin included.
const LABEL: usize = 11;

/// Returns the plan for people: what, from where, how large, whether it fits, and the room on the disk.
pub(super) fn text(plan: &Plan, hub: &str, free_bytes: Option<u64>, columns: usize) -> String {
    let mut rows = Rows::new(LABEL, false).within(Some(columns));
    let license = match plan.license.as_str() {
        "" => String::new(),
        license => format!(" ({license})"),
    };
    let form = variant_text(plan.format, &plan.quantization);
    rows.heading(&format!("{}, {form}{license}", plan.title));
    rows.row("  from", &format!("{hub}/{}", plan.wanted.repository));
    let n_files = match plan.wanted.files.len() {
        0 => String::new(),
        1 => " in one file".to_owned(),
        n => format!(" in {n} files"),
    };
    let size = plan.size_bytes.map(disk_text);
    let size = size.unwrap_or_else(|| "a size that the hub does not say".to_owned());
    rows.row("  fetches", &format!("{size}{n_files}"));
    if let Some(fit) = &plan.fit {
        rows.row("  memory", &fit_text(fit));
    }
    if let Some(free) = free_bytes {
        rows.row("  disk", &format!("{} free", disk_text(free)));
    }
    rows.row("  goes to", &tilde(&plan.wanted.folder));
    if !plan.unverified.is_empty() {
        let names = plan.unverified.join(", ");
        rows.row("  note", &format!("not verified in the list: {names}"));
    }
    if plan.is_gated {
        let text = "its authors ask you to accept their conditions on its page first";
        rows.row("  note", text);
    }
    rows.finish()
}

/// A path as people write it.
pub(crate) fn tilde(path: &Path) -> String {
    let home = std::env::home_dir();
    let below = home
        .as_deref()
        .and_then(|home| path.strip_prefix(home).ok());
    match below {
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
}

/// Plans the download that `text` names, and asks the hub where the catalog doesn't say everything.
pub(super) fn plan(
    text: &str,
    library: &Library,
    hub: &Hub,
    link: &Link,
    interrupt: &Interrupt,
) -> Result<Plan, Failure> {
    let reference = Reference::parse(text, library.catalog(), hub.endpoint())?;
    let listing = match library.listing_of(&reference)? {
        None => None,
        Some(query) => {
            let asking = hub.files(&query.repository, &query.revision);
            Some(elsewhere::wait(asking, link, interrupt)?)
        }
    };
    Ok(library.plan(&reference, listing.as_ref())?)
}
