use super::*;

fn text_of(bytes: &[u8]) -> String {
    let extracted = extract(bytes).unwrap();
    assert_eq!(extracted.format, Format::Text);
    extracted.text
}

fn problem_of(bytes: &[u8]) -> DocumentProblem {
    extract(bytes).unwrap_err()
}

#[test]
fn text_is_read_in_any_encoding() {
    let text = "Grüße aus Köln: 5 €\n";
    assert_eq!(text_of(text.as_bytes()), text);
    assert_eq!(text_of(format!("\u{feff}{text}").as_bytes()), text);
    for with_bom in [true, false] {
        let bom = if with_bom { "\u{feff}" } else { "" };
        let units: Vec<u16> = format!("{bom}{text}").encode_utf16().collect();
        let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        assert_eq!(text_of(&little), text, "byte order mark: {with_bom}");
        assert_eq!(text_of(&big), text, "byte order mark: {with_bom}");
    }
}

#[test]
fn legacy_encodings_are_guessed() {
    let check = |encoding: &'static encoding_rs::Encoding, text: &str| {
        let (bytes, _, had_errors) = encoding.encode(text);
        assert!(!had_errors, "{}", encoding.name());
        assert_eq!(text_of(&bytes), text, "{}", encoding.name());
    };
    check(
        encoding_rs::WINDOWS_1252,
        "Die Größe des Gebäudes überrascht mich: Es ist älter und schöner als die übrigen Häuser.",
    );
    check(
        encoding_rs::SHIFT_JIS,
        "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。",
    );
    check(
        encoding_rs::WINDOWS_1251,
        "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему.",
    );
}

#[test]
fn lines_end_with_a_line_feed() {
    assert_eq!(text_of(b"a;b\r\n1;2\r\n"), "a;b\n1;2\n");
    assert_eq!(text_of(b"one\rtwo"), "one\ntwo");
}

#[test]
fn code_and_data_are_text_whatever_they_mention() {
    for text in [
        "id,name\n1,Ada\n",
        "{\"html\": \"<html>\"}",
        "<p>A fragment is text.</p>",
        "let magic = b\"%PDF-1.7\";",
        "\x1b[31merror\x1b[0m: no such file\n",
    ] {
        assert_eq!(text_of(text.as_bytes()), text);
    }
}

#[test]
fn a_web_page_is_read_without_markup() {
    let page = "\u{feff}<?xml version=\"1.0\"?>\n<!-- a comment -->\n<!DOCTYPE HTML>\n\
        <html><head><title>T</title><style>p { color: red }</style></head><body>\
        <h1>Prices</h1><script>alert(1)</script><p>All prices &amp; fees:</p>\
        <table><tr><td>Tea</td><td>2 €</td></tr><tr><td>Cake</td><td>3 €</td></tr></table>\
        <ul><li>cash</li></ul></body></html>";
    let extracted = extract(page.as_bytes()).unwrap();
    assert_eq!(extracted.format, Format::Html);
    let text = extracted.text;
    let has_line = |line: &str| text.lines().any(|found| found == line);
    assert!(has_line("# Prices"), "{text}");
    assert!(has_line("All prices & fees:"), "{text}");
    let has_row = |cells: [&str; 2]| {
        text.lines()
            .any(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") == cells.join(" "))
    };
    assert!(
        has_row(["Tea", "2 €"]) && has_row(["Cake", "3 €"]),
        "{text}"
    );
    assert!(text.contains("cash"), "{text}");
    for left_out in ["color", "alert", "comment"] {
        assert!(!text.contains(left_out), "{text}");
    }
}

#[test]
fn files_without_text_are_refused() {
    let check = |bytes: &[u8], content| assert_eq!(problem_of(bytes), not_text(content));
    check(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", Content::Image);
    check(b"\xff\xd8\xff\xe0\0\x10JFIF", Content::Image);
    check(b"RIFF\x24\0\0\0WEBPVP8 ", Content::Image);
    check(b"\0\0\0\x18ftypheic", Content::Image);
    check(br"{\rtf1\ansi Text}", Content::RichText);
    check(b"\x7fELF\x02\x01\x01\0\0", Content::Binary);
    check(b"\xff\xfe\x00\xd8\x41\x00", Content::Binary);
    let noise: Vec<u8> = (0..4096_u32).map(|i| (i.pow(2) >> 3) as u8).collect();
    check(&noise, Content::Binary);
    let nothing = DocumentProblem::NoText { pages: None };
    assert_eq!(problem_of(b""), nothing);
    assert_eq!(problem_of(b" \r\n\t"), nothing);
    assert_eq!(problem_of(b"<html><body></body></html>"), nothing);
}

#[test]
fn a_text_longer_than_the_limit_is_refused() {
    let text = vec![b'a'; 8_000_001];
    assert_eq!(
        problem_of(&text),
        DocumentProblem::TooMuchText {
            bytes: 8_000_001,
            limit_bytes: 8_000_000
        }
    );
    assert_eq!(text_of(&text[1..]).len(), 8_000_000);
}

#[test]
fn damaged_documents_are_refused() {
    for start in [&b"%PDF-1.7\n"[..], ZIP] {
        let noise = (0..4096_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8);
        let bytes: Vec<u8> = start.iter().copied().chain(noise).collect();
        let problem = problem_of(&bytes);
        assert!(
            matches!(problem, DocumentProblem::Damaged { .. }),
            "{problem:?}"
        );
    }
}
