//! EPUB books: web pages in the order of a list.

use std::collections::{HashMap, HashSet};

use percent_encoding::percent_decode_str;

use super::archive::Archive;
use super::{html, xml};
use transom_documents::protocol::{Extracted, Reply};
use transom_documents::{DocumentProblem, Format};

/// What the file `mimetype` of a book contains.
pub(super) const MIME_TYPE: &str = "application/epub+zip";

/// Extracts the text of a book.
pub(super) fn extract(mut archive: Archive<'_>) -> Reply {
    let container = part(&mut archive, "META-INF/container.xml")?;
    let packages = xml::elements(&container, "rootfile", ["full-path"])?;
    let [package_path] = packages
        .into_iter()
        .next()
        .ok_or_else(|| DocumentProblem::damaged("META-INF/container.xml names no book"))?;
    let package = part(&mut archive, &package_path)?;
    let encrypted = encrypted(&mut archive)?;
    let mut text = String::new();
    for href in pages(&package)? {
        let path = resolve(&package_path, &href);
        if encrypted.contains(&path) {
            return Err(DocumentProblem::Encrypted);
        }
        let page = part(&mut archive, &path)?;
        // In XHTML an empty title or script needs no end, so HTML would take the page for its text.
        let body = page.find("<body").map_or(&page[..], |at| &page[at..]);
        text += &html::text_of(body)?;
        text += "\n\n";
    }
    Ok(Extracted::new(Format::Epub, text))
}

fn part(archive: &mut Archive<'_>, path: &str) -> Result<String, DocumentProblem> {
    let text = archive.text(path)?;
    text.ok_or_else(|| DocumentProblem::damaged(format!("it has no text in {path}")))
}

/// Returns the paths of the encrypted files. In many books they are only fonts.
fn encrypted(archive: &mut Archive<'_>) -> Result<HashSet<String>, DocumentProblem> {
    let list = archive.text("META-INF/encryption.xml")?.unwrap_or_default();
    let files = xml::elements(&list, "CipherReference", ["URI"])?;
    Ok(files.iter().map(|[uri]| resolve("", uri)).collect())
}

/// Returns the links to the pages in reading order.
fn pages(package: &str) -> Result<Vec<String>, DocumentProblem> {
    let items = xml::elements(package, "item", ["id", "href"])?;
    let links: HashMap<String, String> = items.into_iter().map(|[id, href]| (id, href)).collect();
    let order = xml::elements(package, "itemref", ["idref"])?;
    let pages = order.iter().filter_map(|[id]| links.get(id).cloned());
    Ok(pages.collect())
}

/// Returns the path in the archive to which `href` in the file at `from` links.
fn resolve(from: &str, href: &str) -> String {
    let href = href.split('#').next().unwrap_or_default();
    let href = percent_decode_str(href).decode_utf8_lossy();
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut path: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(href.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                path.pop();
            }
            _ => path.push(part),
        }
    }
    path.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_relative_to_their_file() {
        let check = |from, href, expect| assert_eq!(resolve(from, href), expect);
        check("content.opf", "one.xhtml", "one.xhtml");
        check(
            "OEBPS/content.opf",
            "Text/a%20b.xhtml#c",
            "OEBPS/Text/a b.xhtml",
        );
        check("OEBPS/content.opf", "../one.xhtml", "one.xhtml");
        check("content.opf", "../../one.xhtml", "one.xhtml");
    }
}
