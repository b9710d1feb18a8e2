//! The container that torch wrote before 1.6, and still writes when asked to.
//!
//! Five pickles follow one another: a magic number, a protocol version, facts about the
//! machine, the checkpoint, and the list of storage keys. Then, for each key in that order,
//! an eight-byte count of elements and the elements themselves, always little-endian.
//! Source: files of torch 2 read with `pickletools.dis`, and PTH-04 of the fault reports.

use super::value::{Heap, StorageRef, Value};
use super::{bounded, flatten, machine, storage, Records};
use crate::cursor::Cursor;
use crate::error::{refuse, Refusal, Result};
use crate::Checkpoint;
use std::collections::HashMap;

/// 0x1950a86a20f9469cfc6c, as a pickle stores it.
const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];

/// The one version of this container.
const VERSION: i64 = 1001;

pub(super) fn read(bytes: &[u8]) -> Result<Checkpoint> {
    let mut rest = bytes;
    let (magic, _) = next(&mut rest)?;
    if !machine::is_long(&magic, &MAGIC) {
        return refuse("a pickle that does not begin with torch's magic number");
    }
    let (version, _) = next(&mut rest)?;
    if !matches!(version, Value::Int(VERSION)) {
        return refuse("the legacy stream's version is not 1001");
    }
    next(&mut rest)?;
    let (top, heap) = next(&mut rest)?;
    let (keys, key_heap) = next(&mut rest)?;
    let named = flatten::tensors(&top, &heap)?;
    storage::check_ids(&named, true)?;
    let declared = named
        .values()
        .map(|tensor| (&*tensor.storage.key, &*tensor.storage));
    let records = storages(&keys, &key_heap, &declared.collect(), rest)?;
    storage::collect(&named, &records, bytes.len())
}

/// Runs the next pickle and moves past it.
fn next(rest: &mut &[u8]) -> Result<(Value, Heap)> {
    // Storages follow the pickles, so only what the machine may walk is cut off here.
    let window = &rest[..rest.len().min(super::MAX_PICKLE)];
    let (value, heap, left) = machine::run(bounded(window)?)?;
    *rest = &rest[window.len() - left..];
    Ok((value, heap))
}

fn storages<'a>(
    keys: &Value,
    heap: &Heap,
    declared: &HashMap<&str, &StorageRef>,
    rest: &'a [u8],
) -> Result<Records<'a>> {
    let Value::List(place) = keys else {
        return refuse("the legacy stream's storage keys are no list");
    };
    let mut cursor = Cursor::new(rest);
    let mut bytes = HashMap::new();
    for key in heap.items(*place) {
        let key = key.text("a storage's key")?;
        let data = one(&mut cursor, declared.get(&*key).copied(), &key)?;
        if bytes.insert(key.to_string(), data).is_some() {
            return refuse(format!("storage {key:?} is listed twice"));
        }
    }
    match cursor.remaining() {
        0 => Ok(Records { big: false, bytes }),
        left => refuse(format!("{left} bytes follow the last storage")),
    }
}

/// A count of elements, whose size only the pickle tells, and the elements.
fn one<'a>(cursor: &mut Cursor<'a>, declared: Option<&StorageRef>, key: &str) -> Result<&'a [u8]> {
    let declared = declared
        .ok_or_else(|| Refusal::new(format!("no tensor refers to the listed storage {key:?}")))?;
    let size = declared.dtype.map_or(1, crate::scalar::Dtype::size);
    let count = cursor.count(size, "a storage")?;
    cursor.take(count * size, "a storage")
}

#[cfg(test)]
mod tests;
