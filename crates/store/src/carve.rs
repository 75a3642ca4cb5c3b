//! Rows of a damaged file whose tables cannot be walked any more, found page by page.
//!
//! A row lies on a leaf page, whatever became of the pages that lead to it: when the first page or
//! the root of a table is gone, SQLite finds nothing, and here everything else is. The layout is
//! that of <https://www.sqlite.org/fileformat2.html>. What was deleted is not found again, because
//! it was overwritten.
//!
//! Rule: every number of the file is checked before it is used, and no row is read twice.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use rusqlite::types::Value;

/// SQLite's page size when none is asked for; the store never asks for another.
const PAGE_BYTES: usize = 4096;
/// Before the first page's own header.
const FILE_HEADER_BYTES: usize = 100;
const LEAF_TABLE: u8 = 0x0d;
const LEAF_HEADER_BYTES: usize = 8;

/// Calls `found` with the id and the values of every row on every leaf page.
pub(crate) fn rows<E: From<io::Error>>(
    path: &Path,
    mut found: impl FnMut(i64, Vec<Value>) -> Result<(), E>,
) -> Result<(), E> {
    let mut pages = Pages::open(path)?;
    for number in 1..=pages.n_pages {
        let Some(page) = pages.read(number)? else {
            continue;
        };
        for cell in cells(&page, number) {
            if let Some((id, payload)) = payload(&mut pages, &page, cell)?
                && let Some(values) = record(&payload)
            {
                found(id, values)?;
            }
        }
    }
    Ok(())
}

struct Pages {
    file: File,
    n_pages: u32,
}

impl Pages {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let n_pages = file.metadata()?.len() / PAGE_BYTES as u64;
        Ok(Self {
            file,
            n_pages: u32::try_from(n_pages).unwrap_or(u32::MAX),
        })
    }

    /// `None` for a page that the file does not have.
    fn read(&mut self, number: u32) -> io::Result<Option<Vec<u8>>> {
        if number == 0 || number > self.n_pages {
            return Ok(None);
        }
        let start = u64::from(number - 1) * PAGE_BYTES as u64;
        let mut page = vec![0; PAGE_BYTES];
        self.file.seek(SeekFrom::Start(start))?;
        self.file.read_exact(&mut page)?;
        Ok(Some(page))
    }
}

/// Where the cells of a leaf page begin; none of another page.
fn cells(page: &[u8], number: u32) -> Vec<usize> {
    let start = if number == 1 { FILE_HEADER_BYTES } else { 0 };
    if page[start] != LEAF_TABLE {
        return Vec::new();
    }
    let n_cells = usize::from(u16::from_be_bytes([page[start + 3], page[start + 4]]));
    let pointers = page[start + LEAF_HEADER_BYTES..].chunks_exact(2);
    pointers
        .take(n_cells)
        .map(|pointer| usize::from(u16::from_be_bytes([pointer[0], pointer[1]])))
        .collect()
}

/// The id and the record of a cell, with what flowed over into other pages.
fn payload(pages: &mut Pages, page: &[u8], cell: usize) -> io::Result<Option<(i64, Vec<u8>)>> {
    let Some((total, rest)) = page.get(cell..).and_then(varint) else {
        return Ok(None);
    };
    let Some((id, rest)) = varint(rest) else {
        return Ok(None);
    };
    let max_bytes = u64::from(pages.n_pages) * PAGE_BYTES as u64;
    let Some(total) = usize::try_from(total)
        .ok()
        .filter(|n| *n as u64 <= max_bytes)
    else {
        return Ok(None);
    };
    let n_local = local_bytes(total);
    let Some(local) = rest.get(..n_local) else {
        return Ok(None);
    };
    let mut payload = local.to_vec();
    let mut next = match rest.get(n_local..n_local + 4) {
        Some(next) if n_local < total => page_number(next),
        _ => 0,
    };
    while payload.len() < total {
        let Some(page) = pages.read(next)? else {
            // The end of the text is lost; its beginning is worth having.
            break;
        };
        next = page_number(&page);
        let n = (total - payload.len()).min(PAGE_BYTES - 4);
        payload.extend_from_slice(&page[4..4 + n]);
    }
    Ok(Some((id, payload)))
}

/// How much of a record lies on the leaf page itself.
fn local_bytes(total: usize) -> usize {
    let max = PAGE_BYTES - 35;
    if total <= max {
        return total;
    }
    let min = (PAGE_BYTES - 12) * 32 / 255 - 23;
    let n = min + (total - min) % (PAGE_BYTES - 4);
    if n <= max { n } else { min }
}

fn page_number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// The values of a record. A text whose end is lost is cut; `None` if this is no record.
fn record(payload: &[u8]) -> Option<Vec<Value>> {
    const MAX_COLUMNS: usize = 100;
    let (header_bytes, after) = varint(payload)?;
    let header_bytes = usize::try_from(header_bytes).ok()?;
    let n_size_bytes = payload.len() - after.len();
    let mut header = payload.get(n_size_bytes..header_bytes)?;
    let mut body = payload.get(header_bytes..)?;
    let mut values = Vec::new();
    while !header.is_empty() {
        let (kind, rest) = varint(header)?;
        header = rest;
        let (value, rest) = value(u64::try_from(kind).ok()?, body)?;
        body = rest;
        values.push(value);
        if values.len() > MAX_COLUMNS {
            return None;
        }
    }
    Some(values)
}

fn value(kind: u64, body: &[u8]) -> Option<(Value, &[u8])> {
    let n_bytes = match kind {
        0 | 8 | 9 => 0,
        1..=4 => kind,
        5 => 6,
        6 | 7 => 8,
        10 | 11 => return None,
        _ => (kind - 12) / 2,
    };
    let n_bytes = usize::try_from(n_bytes).ok()?;
    let is_text = kind >= 13 && kind % 2 == 1;
    if body.len() < n_bytes && !is_text {
        return None;
    }
    let (bytes, rest) = body.split_at(n_bytes.min(body.len()));
    let value = match kind {
        0 => Value::Null,
        1..=6 => Value::Integer(integer(bytes)),
        7 => Value::Real(f64::from_be_bytes(bytes.try_into().ok()?)),
        8 => Value::Integer(0),
        9 => Value::Integer(1),
        _ if is_text => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
        _ => Value::Blob(bytes.to_vec()),
    };
    Some((value, rest))
}

/// Big-endian, with a sign.
fn integer(bytes: &[u8]) -> i64 {
    let is_negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let start = if is_negative { -1 } else { 0 };
    bytes
        .iter()
        .fold(start, |number, byte| (number << 8) | i64::from(*byte))
}

/// A number of one to nine bytes, and what follows it.
fn varint(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let mut number: u64 = 0;
    for (index, byte) in bytes.iter().enumerate().take(9) {
        if index == 8 {
            number = (number << 8) | u64::from(*byte);
            return Some((number.cast_signed(), &bytes[9..]));
        }
        number = (number << 7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((number.cast_signed(), &bytes[index + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_every_size_are_read_as_sqlite_wrote_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.db");
        let file = rusqlite::Connection::open(&path).unwrap();
        file.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, a, b, c TEXT)")
            .unwrap();
        let mut written = Vec::new();
        for (n, size) in [0, 1, 100, 3900, 4050, 4061, 4062, 5000, 8150, 100_000]
            .iter()
            .enumerate()
        {
            let id = (n as i64 - 3) * 70_000_000_000;
            let number = -(1_i64 << (n * 6));
            let text = "ä".repeat(*size);
            let row = (id, number, n as f64 + 0.5, &text);
            file.execute("INSERT INTO t VALUES (?1, ?2, ?3, ?4)", row)
                .unwrap();
            let values = [
                Value::Null,
                number.into(),
                (n as f64 + 0.5).into(),
                text.into(),
            ];
            written.push((id, values.to_vec()));
        }
        drop(file);
        let mut read = Vec::new();
        rows(&path, |id, values| {
            if values.len() == 4 {
                read.push((id, values));
            }
            Ok::<_, io::Error>(())
        })
        .unwrap();
        read.sort_by_key(|(id, _)| *id);
        assert!(read == written, "{} of {} rows", read.len(), written.len());
    }
}
