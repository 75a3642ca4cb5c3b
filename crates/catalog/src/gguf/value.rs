//! Metadata values, decoded on demand from the file's bytes.

use super::cursor::Cursor;
use crate::file_error::{Fault, FaultCode, quoted};

/// Maximum depth of nested arrays; llama.cpp reads no nested arrays at all.
pub(super) const MAX_NESTING: usize = 4;

/// The type of a value, with the number in the file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ValueKind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

impl ValueKind {
    pub(super) fn from_number(number: u32) -> Option<Self> {
        use ValueKind::*;
        const ALL: [ValueKind; 13] = [
            U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64,
        ];
        ALL.get(number as usize).copied()
    }

    fn fixed_bytes(self) -> Option<u64> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 | Self::F32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::String | Self::Array => None,
        }
    }
}

/// A value. Strings are bytes: the format requires UTF-8, but vocabularies contain fragments of it.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "the names say all")]
pub enum Value<'a> {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(&'a [u8]),
    Array(Array<'a>),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl<'a> Value<'a> {
    /// Returns a whole number of any width that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::U8(n) => Some(n.into()),
            Self::U16(n) => Some(n.into()),
            Self::U32(n) => Some(n.into()),
            Self::U64(n) => Some(n),
            Self::I8(n) => n.try_into().ok(),
            Self::I16(n) => n.try_into().ok(),
            Self::I32(n) => n.try_into().ok(),
            Self::I64(n) => n.try_into().ok(),
            _ => None,
        }
    }

    /// Returns a number with a fraction.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Self::F32(x) => Some(x.into()),
            Self::F64(x) => Some(x),
            _ => None,
        }
    }

    /// Returns a text.
    pub fn as_str(&self) -> Option<&'a str> {
        match *self {
            Self::String(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Returns a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Self::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// Returns an array.
    pub fn as_array(&self) -> Option<Array<'a>> {
        match *self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }

    /// Reads and checks a value of type `kind`. `key` is for error messages.
    pub(super) fn read(
        cursor: &mut Cursor<'a>,
        kind: ValueKind,
        key: &str,
        depth: usize,
    ) -> Result<Self, Fault> {
        const WHAT: &str = "a metadata value";
        Ok(match kind {
            ValueKind::U8 => Self::U8(u8::from_le_bytes(cursor.array(WHAT)?)),
            ValueKind::I8 => Self::I8(i8::from_le_bytes(cursor.array(WHAT)?)),
            ValueKind::U16 => Self::U16(u16::from_le_bytes(cursor.array(WHAT)?)),
            ValueKind::I16 => Self::I16(i16::from_le_bytes(cursor.array(WHAT)?)),
            ValueKind::U32 => Self::U32(u32::from_le_bytes(cursor.array(WHAT)?)),
            ValueKind::I32 => Self::I32(i32::from_le_bytes(cursor.array(WHAT)?)),
            ValueKind::F32 => Self::F32(f32::from_le_bytes(cursor.array(WHAT)?)),
            ValueKind::Bool => Self::Bool(cursor.array::<1>(WHAT)? != [0]),
            ValueKind::String => Self::String(cursor.string(WHAT)?),
            ValueKind::Array => Self::Array(Array::read(cursor, key, depth + 1)?),
            ValueKind::U64 => Self::U64(u64::from_le_bytes(cursor.array(WHAT)?)),
            ValueKind::I64 => Self::I64(i64::from_le_bytes(cursor.array(WHAT)?)),
            ValueKind::F64 => Self::F64(f64::from_le_bytes(cursor.array(WHAT)?)),
        })
    }
}

/// An array of values of one type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Array<'a> {
    kind: ValueKind,
    length: u64,
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    /// Returns the number of elements.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Returns true if the array has no elements.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let mut cursor = Cursor::new(self.bytes);
        let kind = self.kind;
        // All elements were read once when the file was checked, so reading can't fail.
        (0..self.length).map_while(move |_| Value::read(&mut cursor, kind, "", 0).ok())
    }

    fn read(cursor: &mut Cursor<'a>, key: &str, depth: usize) -> Result<Self, Fault> {
        if depth > MAX_NESTING {
            let key = quoted(key);
            let reason = format!("metadata entry {key} nests arrays more than {MAX_NESTING} deep");
            return Err(Fault::damaged(reason));
        }
        let kind = read_kind(cursor, key)?;
        let length = cursor.u64("an array's length")?;
        let mut walked = *cursor;
        match kind.fixed_bytes() {
            Some(n_bytes) => {
                let n_bytes = length.saturating_mul(n_bytes);
                walked.take(n_bytes, "an array")?;
            }
            None => {
                // Each element takes bytes of the file, so a wrong length ends soon.
                for _ in 0..length {
                    Value::read(&mut walked, kind, key, depth)?;
                }
            }
        }
        let n_bytes = walked.position() - cursor.position();
        let bytes = cursor.take(n_bytes as u64, "an array")?;
        Ok(Self {
            kind,
            length,
            bytes,
        })
    }
}

pub(super) fn read_kind(cursor: &mut Cursor<'_>, key: &str) -> Result<ValueKind, Fault> {
    let number = cursor.u32("a value's type")?;
    ValueKind::from_number(number).ok_or_else(|| {
        let reason = format!(
            "metadata entry {} has the unknown type {number}",
            quoted(key)
        );
        Fault::with_value(FaultCode::UnsupportedType, number.to_string(), reason)
    })
}
