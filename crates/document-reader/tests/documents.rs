//! Public documents of several programs: each has its text or is refused for the right reason.

#![expect(clippy::unwrap_used, reason = "a test fails at the first error")]

#[path = "fixtures/archives.rs"]
mod archives;

use std::fs;
use std::path::{Path, PathBuf};

use transom_documents::{Document, DocumentProblem, Format, read};

const PROGRAM: &str = env!("CARGO_BIN_EXE_document-reader-test");

fn fixture(name: &str) -> PathBuf {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/files");
    Path::new(fixtures).join(name)
}

/// Reads a public document, which must contain these phrases.
fn check(name: &str, format: Format, pages: Option<u32>, phrases: &[&str]) {
    let document = read(Path::new(PROGRAM), &fixture(name)).unwrap();
    assert_eq!(document.name, name);
    assert_eq!((document.format, document.pages), (format, pages), "{name}");
    for phrase in phrases {
        assert!(
            document.text.contains(phrase),
            "{name} lacks {phrase:?}: {:?}",
            document.text
        );
    }
}

fn check_pdf(name: &str, pages: u32, phrases: &[&str]) {
    check(name, Format::Pdf, Some(pages), phrases);
}

fn check_word(name: &str, phrases: &[&str]) {
    check(name, Format::Word, None, phrases);
}

/// Writes a file and reads it.
fn read_bytes(name: &str, bytes: &[u8]) -> Document {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    read(Path::new(PROGRAM), &path).unwrap()
}

#[test]
fn pdfs_of_several_programs_are_read() {
    check_pdf("crazyones.pdf", 1, &["The round pegs in the square holes"]);
    check_pdf(
        "example.pdf",
        1,
        &["Beautiful is better", "Jakarta\tBerlin"],
    );
    check_pdf("issue-914-xmp-data.pdf", 1, &["蒙牛桶装原味酸牛奶1100g"]);
    check_pdf("libreoffice-form.pdf", 1, &["Example for a Form"]);
    check_pdf(
        "multilang.pdf",
        1,
        &["مرحبا بالعالم", "Привет, мир", "你好世界", "こんにちは世界"],
    );
    check_pdf(
        "pdflatex-outline.pdf",
        4,
        &["If you read this text, you will get no information."],
    );
}

#[test]
fn damaged_pdfs_are_read_if_their_text_can_be_found() {
    check_pdf("issue-297.pdf", 1, &["test example"]);
    check_pdf("selenium-pypdf-issue-177.pdf", 1, &["Hello World"]);
    check_pdf("toy.pdf", 1, &["Single quote operator"]);
}

#[test]
fn encrypted_pdfs_are_read_if_the_password_is_empty() {
    for name in ["r2-empty-password.pdf", "r6-empty-password.pdf"] {
        check_pdf(name, 1, &["pdf encryption test"]);
    }
}

#[test]
fn pdfs_without_text_and_with_a_password_are_refused() {
    let check = |name: &str, expect: DocumentProblem| {
        let error = read(Path::new(PROGRAM), &fixture(name)).unwrap_err();
        assert_eq!(error.problem, expect, "{name}");
        assert!(error.file.ends_with(name), "{}", error.file);
    };
    for name in ["r3-user-password.pdf", "libreoffice-writer-password.pdf"] {
        check(name, DocumentProblem::Encrypted);
    }
    check(
        "imagemagick-lzw.pdf",
        DocumentProblem::NoText { pages: Some(1) },
    );
}

#[test]
fn word_documents_are_read() {
    check_word("blk-inner-content.docx", &["P1", "T2"]);
    check_word(
        "blk-paras-and-tables.docx",
        &["Text before", "Text after", "Donec semper facilisis"],
    );
    check_word("comments-rich-para.docx", &["Some text worthy of note."]);
    check_word("par-hyperlinks.docx", &["awesome hyperlink"]);
    check_word("par-known-paragraphs.docx", &["Normal paragraph"]);
    check_word("test.docx", &["python-docx was here too!"]);
}

#[test]
fn a_workbook_is_read() {
    let workbook = r#"<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="Prices" sheetId="1" r:id="rId1"/></sheets></workbook>"#;
    let sheet = r#"<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>tea_price</t></is></c><c r="B1"><v>2.5</v></c></row></sheetData></worksheet>"#;
    let relationships = archives::relationships("worksheet", "worksheets/sheet1.xml");
    let bytes = archives::office(
        "spreadsheetml.sheet",
        "xl/workbook.xml",
        workbook.as_bytes(),
        &[
            ("xl/_rels/workbook.xml.rels", relationships.as_bytes()),
            ("xl/worksheets/sheet1.xml", sheet.as_bytes()),
        ],
    );
    let document = read_bytes("prices", &bytes);
    assert_eq!((document.format, document.pages), (Format::Excel, None));
    let text = document.text;
    assert!(text.contains("tea_price") && text.contains("2.5"), "{text}");
}

/// The book has its pages in another order than the archive, in a folder, and with a name that is
/// escaped in links.
#[test]
fn a_book_is_read_in_reading_order() {
    let container = r#"<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="OEBPS/content.opf" media-type="application/oebps-package+xml"/></rootfiles></container>"#;
    let package = r#"<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="b" href="Text/part%20two.xhtml" media-type="application/xhtml+xml"/><item id="a" href="one.xhtml" media-type="application/xhtml+xml"/></manifest><spine><itemref idref="a"/><itemref idref="b"/></spine></package>"#;
    let one = r#"<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/></head><body class="a"><h1>The Start</h1><p>Once &amp; only.</p></body></html>"#;
    let two = r#"<html xmlns="http://www.w3.org/1999/xhtml"><body><p>The end.</p></body></html>"#;
    let bytes = archives::archive(&[
        ("mimetype", b"application/epub+zip"),
        ("META-INF/container.xml", container.as_bytes()),
        ("OEBPS/Text/part two.xhtml", two.as_bytes()),
        ("OEBPS/one.xhtml", one.as_bytes()),
        ("OEBPS/content.opf", package.as_bytes()),
    ]);
    let document = read_bytes("book.zip", &bytes);
    assert_eq!((document.format, document.pages), (Format::Epub, None));
    let lines: Vec<&str> = document
        .text
        .lines()
        .filter(|line| !line.is_empty())
        .collect();
    assert_eq!(lines, ["# The Start", "Once & only.", "The end."]);
}

#[test]
fn an_open_document_is_read_without_comments_and_deleted_text() {
    let content = r#"<?xml version="1.0" encoding="UTF-8"?><office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"><office:body><office:text><text:tracked-changes><text:deletion><text:p>deleted</text:p></text:deletion></text:tracked-changes><text:h text:outline-level="2">Prices &amp; fees</text:h><text:p>In<office:annotation><text:p>remark</text:p></office:annotation><text:s/>euros:<text:line-break/>gr&#252;n</text:p><text:list><text:list-item><text:p>cash</text:p></text:list-item></text:list><table:table><table:table-row><table:table-cell><text:p>Tea</text:p></table:table-cell><table:table-cell><text:p>2 €</text:p></table:table-cell></table:table-row></table:table></office:text></office:body></office:document-content>"#;
    let bytes = archives::open_document(content.as_bytes(), "");
    let document = read_bytes("prices", &bytes);
    assert_eq!(
        (document.format, document.pages),
        (Format::OpenDocument, None)
    );
    let text = document.text;
    let has_line = |line: &str| text.lines().any(|found| found.trim() == line);
    assert!(has_line("## Prices & fees"), "{text}");
    assert!(has_line("In euros:") && has_line("grün"), "{text}");
    assert!(has_line("* cash"), "{text}");
    let row = text.lines().find(|line| line.contains("Tea"));
    assert!(row.is_some_and(|row| row.contains("2 €")), "{text}");
    assert!(
        !text.contains("deleted") && !text.contains("remark"),
        "{text}"
    );
}

/// The name of a file means nothing.
#[test]
fn the_content_decides_the_format() {
    let page = "<!doctype html><p>Caf\u{e9} &amp; bar</p>";
    let document = read_bytes("notes.pdf", page.as_bytes());
    assert_eq!(document.format, Format::Html);
    assert_eq!(document.text.trim(), "Caf\u{e9} & bar");
    let latin_1 = b"name;city\nJos\xe9;M\xe1laga\nRen\xe9e;Orl\xe9ans\n";
    let document = read_bytes("table.docx", latin_1);
    assert_eq!(document.format, Format::Text);
    assert_eq!(document.text, "name;city\nJosé;Málaga\nRenée;Orléans\n");
    let utf_16: Vec<u8> = "\u{feff}Grüße\r\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    assert_eq!(read_bytes("a\u{1b}b.txt", &utf_16).text, "Grüße\n");
    assert_eq!(read_bytes("a\u{1b}b.txt", b"x").name, "a\u{fffd}b.txt");
}
