//! GGUF metadata: every value is walked to find where the next one starts; one is used.

use crate::cursor::Cursor;
use crate::error::{refuse, Refusal, Result};
use std::collections::BTreeSet;

/// Deepest arrays of arrays; real files have one level.
const MAX_DEPTH: usize = 8;

/// Bytes of the shortest pair: an empty key, a type, a value of one byte.
const SHORTEST_PAIR: usize = 8 + 4 + 1;

/// Longest key by the format's document.
const MAX_KEY: usize = 65_535;

const U32: u32 = 4;
const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// Reads `stated` pairs and returns `general.alignment`, 32 where it is not stated.
pub(super) fn read(cursor: &mut Cursor, stated: u64) -> Result<usize> {
    let count = cursor.bounded(stated, SHORTEST_PAIR, "the metadata")?;
    let mut seen = BTreeSet::new();
    let mut alignment = 32;
    for _ in 0..count {
        let name = key(cursor)?;
        if !seen.insert(name) {
            return refuse(format!("metadata key {name:?} occurs twice"));
        }
        let kind = cursor.u32("a metadata type")?;
        if name == "general.alignment" {
            alignment = read_alignment(cursor, kind)?;
        } else {
            skip(cursor, kind, 0).map_err(|refusal| refusal.within(&format!("key {name:?}")))?;
        }
    }
    Ok(alignment)
}

fn key<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str> {
    let name = text(cursor, "a metadata key")?;
    if name.is_ascii() && name.len() <= MAX_KEY {
        return Ok(name);
    }
    refuse("a metadata key is not ASCII, or longer than 65535 bytes")
}

fn read_alignment(cursor: &mut Cursor, kind: u32) -> Result<usize> {
    if kind != U32 {
        return refuse(format!("general.alignment has type {kind}, not u32"));
    }
    let value = cursor.u32("general.alignment")?;
    // A power of two is never zero, so that nothing is divided by zero later.
    match usize::try_from(value) {
        Ok(alignment) if value.is_power_of_two() => Ok(alignment),
        _ => refuse(format!("general.alignment {value} is no power of two")),
    }
}

/// A length of 64 bits and that many bytes of UTF-8.
pub(super) fn text<'a>(cursor: &mut Cursor<'a>, what: &str) -> Result<&'a str> {
    let length = cursor.count(1, what)?;
    let bytes = cursor.take(length, what)?;
    std::str::from_utf8(bytes).map_err(|_| Refusal::new(format!("{what} is not UTF-8")))
}

fn skip(cursor: &mut Cursor, kind: u32, depth: usize) -> Result<()> {
    match kind {
        BOOL => check_bools(cursor.take(1, "a bool")?),
        STRING => text(cursor, "a metadata string").map(|_| ()),
        ARRAY => skip_array(cursor, depth),
        _ => cursor
            .take(scalar_size(kind)?, "a metadata value")
            .map(|_| ()),
    }
}

fn skip_array(cursor: &mut Cursor, depth: usize) -> Result<()> {
    if depth == MAX_DEPTH {
        return refuse(format!("arrays are nested deeper than {MAX_DEPTH}"));
    }
    let kind = cursor.u32("an array's type")?;
    let shortest = match kind {
        STRING => 8,
        ARRAY => 12,
        _ => scalar_size(kind)?,
    };
    let count = cursor.count(shortest, "an array")?;
    match kind {
        STRING | ARRAY => (0..count).try_for_each(|_| skip(cursor, kind, depth + 1)),
        BOOL => check_bools(cursor.take(count, "an array")?),
        _ => cursor.take(count * shortest, "an array").map(|_| ()),
    }
}

/// The document calls any byte but 0 and 1 invalid.
fn check_bools(bytes: &[u8]) -> Result<()> {
    match bytes.iter().find(|&&byte| byte > 1) {
        None => Ok(()),
        Some(byte) => refuse(format!("a bool is {byte}, not 0 or 1")),
    }
}

fn scalar_size(kind: u32) -> Result<usize> {
    match kind {
        0 | 1 | BOOL => Ok(1),
        2 | 3 => Ok(2),
        U32 | 5 | 6 => Ok(4),
        10..=12 => Ok(8),
        _ => refuse(format!("metadata type {kind} is unknown")),
    }
}
