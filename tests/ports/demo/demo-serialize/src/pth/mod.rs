//! Checkpoints that `torch.save` wrote: the container, the pickle, the storages.
//!
//! | container | how it is told | read |
//! |---|---|---|
//! | zip | `PK` | yes, stored members only |
//! | legacy stream | a pickle of torch's magic number | yes |
//! | tar | `ustar` at byte 257 | no |
//!
//! Nothing of a pickle is executed: it may name the few things of `globals`, which only
//! describe tensors, and every other name is a refusal.

mod flatten;
mod globals;
mod legacy;
mod literal;
mod machine;
mod op;
mod rebuild;
mod storage;
mod value;
mod zip;

use crate::error::{refuse, Refusal, Result};
use crate::Checkpoint;
use std::collections::HashMap;

/// Largest pickle: its objects take several times its size in memory.
const MAX_PICKLE: usize = 8 << 20;

/// Newest version of the zip layout that torch knows (`kMaxSupportedFileFormatVersion`).
const MAX_VERSION: u64 = 10;

/// The raw storages of a checkpoint, by key.
pub(crate) struct Records<'a> {
    /// Elements are stored most significant byte first.
    big: bool,
    bytes: HashMap<String, &'a [u8]>,
}

/// Reads all tensors.
///
/// A tensor under keys `a` and then `b` is named `a.b`.
///
/// # Errors
/// For containers that are not read, pickles that hold or do anything but data, storages that
/// are missing or of another length than declared, tensors that reach beyond their storage,
/// and complex, quantized, sparse and nested tensors.
pub fn read(bytes: &[u8]) -> Result<Checkpoint> {
    if bytes.starts_with(b"PK") {
        read_zip(bytes)
    } else if bytes.get(257..262) == Some(b"ustar") {
        refuse("a tar container, as torch wrote before 0.1.10, is not read")
    } else if bytes.first() == Some(&op::PROTO) {
        legacy::read(bytes)
    } else {
        refuse("this is no .pth container: neither zip nor legacy stream nor tar")
    }
}

fn read_zip(bytes: &[u8]) -> Result<Checkpoint> {
    let members = zip::members(bytes)?;
    let prefix = prefix(&members)?;
    let member = |name: &str| members.get(&format!("{prefix}/{name}")).copied();
    if member("constants.pkl").is_some() {
        return refuse("a TorchScript archive is not read");
    }
    check_version(member("version"))?;
    check_text(member(".data/serialization_id"))?;
    let alignment = check_text(member(".storage_alignment"))?;
    if alignment.is_some_and(|text| text.trim().parse::<i64>().is_err()) {
        return refuse("the zip's .storage_alignment is no number");
    }
    let pickle = member("data.pkl").unwrap_or_default();
    let (top, heap, rest) = machine::run(bounded(pickle)?)?;
    if rest > 0 {
        return refuse(format!("{rest} bytes follow the pickle's end"));
    }
    let records = Records {
        big: is_big(member("byteorder"))?,
        bytes: storages(&members, &format!("{prefix}/data/")),
    };
    let named = flatten::tensors(&top, &heap)?;
    storage::check_ids(&named, false)?;
    storage::collect(&named, &records, bytes.len())
}

fn bounded(pickle: &[u8]) -> Result<&[u8]> {
    if pickle.len() > MAX_PICKLE {
        return refuse(format!("the pickle is larger than {MAX_PICKLE} bytes"));
    }
    Ok(pickle)
}

/// The one folder that holds `data.pkl`; torch names it after the file.
fn prefix<'a>(members: &'a HashMap<String, &[u8]>) -> Result<&'a str> {
    let mut prefixes = members.keys().filter_map(|name| {
        let prefix = name.strip_suffix("/data.pkl")?;
        (!prefix.contains('/')).then_some(prefix)
    });
    match (prefixes.next(), prefixes.next()) {
        (Some(prefix), None) => Ok(prefix),
        (None, _) => refuse("the zip holds no data.pkl"),
        _ => refuse("the zip holds more than one data.pkl"),
    }
}

fn check_version(record: Option<&[u8]>) -> Result<()> {
    let Some(record) = record else {
        return refuse("the zip holds no version");
    };
    let text = std::str::from_utf8(record).unwrap_or_default();
    match text.trim().parse::<u64>() {
        Ok(version) if (1..=MAX_VERSION).contains(&version) => Ok(()),
        _ => refuse(format!("version {text:?} of the zip layout is unknown")),
    }
}

/// The text of a record that torch reads as one, if it is there.
fn check_text(record: Option<&[u8]>) -> Result<Option<&str>> {
    let text = record.map(std::str::from_utf8).transpose();
    text.map_err(|_| Refusal::new("a record of the zip is not UTF-8"))
}

/// Older writers left the record out, and were little-endian.
fn is_big(record: Option<&[u8]>) -> Result<bool> {
    match record {
        None | Some(b"little") => Ok(false),
        Some(b"big") => Ok(true),
        Some(other) => {
            let shown = String::from_utf8_lossy(other);
            let shown: String = shown.chars().take(20).collect();
            Err(Refusal::new(format!("byteorder {shown:?} is unknown")))
        }
    }
}

fn storages<'a>(members: &HashMap<String, &'a [u8]>, folder: &str) -> HashMap<String, &'a [u8]> {
    let keyed = members.iter().filter_map(|(name, &bytes)| {
        let key = name.strip_prefix(folder)?;
        Some((key.to_owned(), bytes))
    });
    keyed.collect()
}

#[cfg(test)]
mod tests;
