//! Broken and malicious files, and child processes that hang, crash or take too much memory: each is
//! an error in limited time.

#![expect(clippy::unwrap_used, reason = "a test fails at the first error")]

#[path = "fixtures/archives.rs"]
mod archives;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use transom_documents::{Content, DocumentProblem, ReadLimits, read, read_within};

const PROGRAM: &str = env!("CARGO_BIN_EXE_document-reader-test");

/// Bytes that compressed documents of these tests expand to.
const BOMB_BYTES: usize = 32 << 20;

fn problem_at(path: &Path) -> DocumentProblem {
    read(Path::new(PROGRAM), path).unwrap_err().problem
}

/// Writes a file and returns why it is refused.
fn problem_of(bytes: &[u8]) -> DocumentProblem {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, bytes).unwrap();
    problem_at(&path)
}

fn is_damaged(problem: &DocumentProblem) -> bool {
    matches!(problem, DocumentProblem::Damaged { .. })
}

fn fixture(name: &str) -> PathBuf {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/files");
    Path::new(fixtures).join(name)
}

#[test]
fn half_a_document_is_damaged() {
    for name in ["crazyones.pdf", "test.docx"] {
        let bytes = fs::read(fixture(name)).unwrap();
        let problem = problem_of(&bytes[..bytes.len() / 2]);
        assert!(is_damaged(&problem), "{name}: {problem:?}");
    }
}

#[test]
fn changed_bytes_are_an_error_or_other_text() {
    for name in ["pdflatex-outline.pdf", "par-known-paragraphs.docx"] {
        let original = fs::read(fixture(name)).unwrap();
        for round in 0..20_usize {
            let mut bytes = original.clone();
            for change in 0..50 {
                let n = (round * 50 + change + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let position = (n >> 20) % bytes.len();
                bytes[position] = n as u8;
            }
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            if let Err(error) = read(Path::new(PROGRAM), &path) {
                let took_too_much = matches!(
                    error.problem,
                    DocumentProblem::TooSlow { .. } | DocumentProblem::TooMuchMemory { .. }
                );
                assert!(!took_too_much, "{name} in round {round}: {error}");
            }
        }
    }
}

#[test]
fn only_regular_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    assert_eq!(problem_at(&at("none")), DocumentProblem::NotFound);
    let made = Command::new("mkfifo").arg(at("fifo")).status().unwrap();
    assert!(made.success());
    symlink("/dev/zero", at("endless")).unwrap();
    fs::create_dir(at("folder")).unwrap();
    for (name, reason) in [
        ("fifo", "is not a regular file"),
        ("endless", "is not a regular file"),
        ("folder", "is a folder"),
    ] {
        let reason = reason.to_owned();
        let expect = DocumentProblem::CannotOpen { reason };
        assert_eq!(problem_at(&at(name)), expect, "{name}");
    }
}

#[test]
fn a_file_over_the_limit_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.txt");
    // A sparse file takes no disk.
    File::create(&path).unwrap().set_len(60_000_000).unwrap();
    let expect = DocumentProblem::TooLarge {
        bytes: 60_000_000,
        limit_bytes: 50_000_000,
    };
    assert_eq!(problem_at(&path), expect);
}

#[test]
fn images_archives_and_binary_data_are_refused() {
    let check = |bytes: &[u8], content| {
        assert_eq!(problem_of(bytes), DocumentProblem::NotText { content });
    };
    check(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", Content::Image);
    check(&archives::archive(&[("a.txt", b"text")]), Content::Archive);
    let noise = (0..100_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8);
    check(&noise.collect::<Vec<u8>>(), Content::Binary);
}

#[test]
fn a_word_document_that_expands_without_end_is_refused() {
    let start = br#"<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>"#;
    let mut main = start.to_vec();
    main.resize(BOMB_BYTES, b'a');
    main.extend(b"</w:t></w:r></w:p></w:body></w:document>");
    let bomb = archives::office("wordprocessingml.document", "word/document.xml", &main, &[]);
    assert!(bomb.len() < BOMB_BYTES / 100, "{}", bomb.len());
    let problem = problem_of(&bomb);
    assert!(is_damaged(&problem), "{problem:?}");
}

#[test]
fn an_open_document_that_expands_without_end_is_refused() {
    let mut content = b"<office:document-content><text:p>".to_vec();
    content.resize(2 * BOMB_BYTES, b'a');
    let bomb = archives::open_document(&content, "");
    assert!(bomb.len() < BOMB_BYTES / 100, "{}", bomb.len());
    let problem = problem_of(&bomb);
    let DocumentProblem::Damaged { reason } = &problem else {
        panic!("{problem:?}");
    };
    assert!(reason.contains("more than 64 MB"), "{reason}");
}

/// A small page counts each time the list of the book names it.
#[test]
fn a_book_that_repeats_a_page_without_end_is_refused() {
    let mut page = b"<html><head>".to_vec();
    page.resize(1 << 20, b' ');
    page.extend(b"</head><body></body></html>");
    let item = r#"<item id="a" href="a.xhtml"/>"#;
    let order = r#"<itemref idref="a"/>"#.repeat(100);
    let package = format!("<package>{item}<spine>{order}</spine></package>");
    let bomb = archives::archive(&[
        ("mimetype", b"application/epub+zip"),
        (
            "META-INF/container.xml",
            br#"<container><rootfile full-path="a.opf"/></container>"#,
        ),
        ("a.opf", package.as_bytes()),
        ("a.xhtml", &page),
    ]);
    let problem = problem_of(&bomb);
    assert!(is_damaged(&problem), "{problem:?}");
}

#[test]
fn books_and_open_documents_with_a_password_are_refused() {
    let protected = archives::open_document(b"\x8f\x02", "<manifest:encryption-data/>");
    assert_eq!(problem_of(&protected), DocumentProblem::Encrypted);
    let book = archives::archive(&[
        ("mimetype", b"application/epub+zip"),
        (
            "META-INF/container.xml",
            br#"<container><rootfile full-path="a.opf"/></container>"#,
        ),
        (
            "META-INF/encryption.xml",
            br#"<encryption><CipherReference URI="a%20b.xhtml"/></encryption>"#,
        ),
        (
            "a.opf",
            br#"<package><item id="a" href="a%20b.xhtml"/><itemref idref="a"/></package>"#,
        ),
        ("a b.xhtml", b"\x8f\x02"),
    ]);
    assert_eq!(problem_of(&book), DocumentProblem::Encrypted);
}

#[test]
fn a_pdf_that_expands_to_nothing_is_refused() {
    let problem = problem_of(&pdf(&vec![b' '; BOMB_BYTES]));
    let has_no_text = problem == DocumentProblem::NoText { pages: Some(1) };
    assert!(has_no_text || is_damaged(&problem), "{problem:?}");
}

/// The parser keeps some kilobytes for each piece of text, of which the page has millions.
#[test]
fn a_pdf_that_expands_to_much_text_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pdf");
    let line = b"(aaaa) Tj 0 -1 Td\n";
    let mut content = b"BT /F1 12 Tf 72 720 Td ".to_vec();
    content.extend(line.repeat(BOMB_BYTES / line.len()));
    content.extend(b"ET");
    fs::write(&path, pdf(&content)).unwrap();
    let limits = ReadLimits {
        timeout: Duration::from_secs(60),
        memory_bytes: 256 << 20,
    };
    let error = read_within(Path::new(PROGRAM), &path, &limits).unwrap_err();
    let limit_bytes = limits.memory_bytes;
    let expect = DocumentProblem::TooMuchMemory { limit_bytes };
    assert_eq!(error.problem, expect);
}

/// Returns a PDF of one page with this content, compressed.
fn pdf(content: &[u8]) -> Vec<u8> {
    let mut stream = ZlibEncoder::new(Vec::new(), Compression::default());
    stream.write_all(content).unwrap();
    let content = stream.finish().unwrap();
    let header = format!(
        "<< /Length {} /Filter /FlateDecode >>\nstream\n",
        content.len()
    );
    let stream = [header.as_bytes(), &content[..], &b"\nendstream"[..]].concat();
    let objects: [&[u8]; 5] = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R \
          /Resources << /Font << /F1 5 0 R >> >> >>",
        &stream,
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ];
    let mut file = b"%PDF-1.4\n".to_vec();
    let mut table = "xref\n0 6\n0000000000 65535 f \n".to_owned();
    for (index, object) in objects.iter().enumerate() {
        table += &format!("{:010} 00000 n \n", file.len());
        file.extend(format!("{} 0 obj\n", index + 1).bytes());
        file.extend(*object);
        file.extend(b"\nendobj\n");
    }
    let start = file.len();
    table += &format!("trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n");
    file.extend(table.bytes());
    file
}

/// Reads a text with the program in the mode `mode`; returns the problem. The process must be gone.
fn problem_with(mode: &str, limits: &ReadLimits) -> DocumentProblem {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join(mode);
    symlink(PROGRAM, &program).unwrap();
    let text = folder.path().join("text");
    fs::write(&text, "text").unwrap();
    let error = read_within(&program, &text, limits).unwrap_err();
    assert_is_gone(&program);
    error.problem
}

/// Waits until no process was started as `program`. Only Linux lists the processes in files.
fn assert_is_gone(program: &Path) {
    let started_as = program.to_str().unwrap();
    let is_it = |folder: PathBuf| {
        let arguments = fs::read_to_string(folder.join("cmdline"));
        arguments.is_ok_and(|arguments| arguments.starts_with(started_as))
    };
    let began = Instant::now();
    while let Ok(mut processes) = fs::read_dir("/proc") {
        if !processes.any(|process| process.is_ok_and(|process| is_it(process.path()))) {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "it still runs");
        std::thread::yield_now();
    }
}

#[test]
fn a_process_that_hangs_is_killed() {
    let limits = ReadLimits {
        timeout: Duration::from_millis(300),
        ..ReadLimits::default()
    };
    let began = Instant::now();
    let problem = problem_with("hangs", &limits);
    assert_eq!(problem, DocumentProblem::TooSlow { limit_seconds: 0 });
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_process_that_takes_too_much_memory_is_killed() {
    let limits = ReadLimits {
        timeout: Duration::from_secs(60),
        memory_bytes: 256 << 20,
    };
    let problem = problem_with("eats-memory", &limits);
    let limit_bytes = limits.memory_bytes;
    assert_eq!(problem, DocumentProblem::TooMuchMemory { limit_bytes });
}

#[test]
fn a_process_that_reaches_its_limit_of_cpu_time_took_too_long() {
    let problem = problem_with("takes-long", &ReadLimits::default());
    assert_eq!(problem, DocumentProblem::TooSlow { limit_seconds: 120 });
}

#[test]
fn a_process_that_crashes_means_a_damaged_document() {
    let problem = problem_with("crashes", &ReadLimits::default());
    assert!(is_damaged(&problem), "{problem:?}");
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    fs::write(&path, "text").unwrap();
    let program = folder.path().join("missing");
    let error = read(&program, &path).unwrap_err();
    let DocumentProblem::NotStarted { reason } = &error.problem else {
        panic!("{error}");
    };
    assert!(reason.contains("missing"), "{reason}");
}
