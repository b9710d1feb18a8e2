//! The safetensors format: `[u64 length][JSON header][payload]`, little-endian.
//!
//! Source of the rules: the format section of safetensors' own README. The header begins
//! with `{`, holds no duplicate keys, may be padded with blanks, and its tensors tile the
//! payload without holes or overlap. Where readers take more than that, this one does not.

use crate::bin::element_count;
use crate::cursor::Cursor;
use crate::error::{refuse, Refusal, Result};
use crate::json::{self, Json};
use crate::scalar::Dtype;
use crate::{Checkpoint, Tensor};
use std::collections::BTreeMap;

/// Longest header that the reference reader takes.
const MAX_HEADER: u64 = 100_000_000;

/// Every dtype of the format: its name, the bits of an element, and how it is read, if it is.
const DTYPES: [(&str, usize, Option<Dtype>); 22] = [
    ("BOOL", 8, Some(Dtype::Bool)),
    ("F4", 4, None),
    ("F6_E2M3", 6, None),
    ("F6_E3M2", 6, None),
    ("U8", 8, Some(Dtype::U8)),
    ("I8", 8, Some(Dtype::I8)),
    ("F8_E5M2", 8, Some(Dtype::F8E5m2)),
    ("F8_E4M3", 8, Some(Dtype::F8E4m3)),
    ("F8_E8M0", 8, Some(Dtype::F8E8m0)),
    ("F8_E4M3FNUZ", 8, Some(Dtype::F8E4m3Fnuz)),
    ("F8_E5M2FNUZ", 8, Some(Dtype::F8E5m2Fnuz)),
    ("I16", 16, Some(Dtype::I16)),
    ("U16", 16, Some(Dtype::U16)),
    ("F16", 16, Some(Dtype::F16)),
    ("BF16", 16, Some(Dtype::Bf16)),
    ("I32", 32, Some(Dtype::I32)),
    ("U32", 32, Some(Dtype::U32)),
    ("F32", 32, Some(Dtype::F32)),
    ("C64", 64, None),
    ("F64", 64, Some(Dtype::F64)),
    ("I64", 64, Some(Dtype::I64)),
    ("U64", 64, Some(Dtype::U64)),
];

/// One entry of the header; `begin..end` is its range in the payload.
struct Entry {
    name: String,
    label: &'static str,
    dtype: Option<Dtype>,
    shape: Vec<usize>,
    begin: usize,
    end: usize,
}

/// Reads all tensors.
///
/// # Errors
/// For a header that breaks a rule of the format, ranges that do not tile the payload, and
/// dtypes that are known but not decoded (complex, and floats narrower than a byte).
pub fn read(bytes: &[u8]) -> Result<Checkpoint> {
    let (header, payload) = split(bytes)?;
    let entries = entries(header)?;
    check_tiling(&entries, payload.len())?;
    let tensors = entries.into_iter().map(|entry| decode(entry, payload));
    tensors.collect()
}

/// The header without its length, and the payload.
fn split(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let mut cursor = Cursor::new(bytes);
    let length = cursor.u64("the header's length")?;
    if length > MAX_HEADER {
        return refuse(format!(
            "header claims {length} bytes, more than {MAX_HEADER}"
        ));
    }
    let length = cursor.bounded(length, 1, "the header")?;
    let header = cursor.take(length, "the header")?;
    if header.first() != Some(&b'{') {
        return refuse("the header does not begin with '{'");
    }
    Ok((header, cursor.take(cursor.remaining(), "the payload")?))
}

/// The header's entries in the order in which they lie in the payload.
fn entries(header: &[u8]) -> Result<Vec<Entry>> {
    let Json::Object(mut members) = json::parse(header)? else {
        return refuse("the header is no JSON object");
    };
    if let Some(metadata) = members.remove("__metadata__") {
        check_metadata(&metadata)?;
    }
    let entries = members.into_iter().map(|(name, info)| {
        entry(&name, info).map_err(|refusal| refusal.within(&format!("tensor {name:?}")))
    });
    let mut entries = entries.collect::<Result<Vec<_>>>()?;
    entries.sort_by_key(|entry| (entry.begin, entry.end));
    Ok(entries)
}

fn check_metadata(metadata: &Json) -> Result<()> {
    let Json::Object(members) = metadata else {
        return refuse("__metadata__ is no object");
    };
    let odd = members
        .iter()
        .find(|(_, value)| !matches!(value, Json::Text(_)));
    match odd {
        None => Ok(()),
        Some((key, _)) => refuse(format!("__metadata__ {key:?} is no string")),
    }
}

fn entry(name: &str, info: Json) -> Result<Entry> {
    let Json::Object(mut info) = info else {
        return refuse("its entry is no object");
    };
    let (label, bits, dtype) = dtype(info.remove("dtype"))?;
    let shape = integers(info.remove("shape"), "shape")?;
    let offsets = integers(info.remove("data_offsets"), "data_offsets")?;
    no_more_keys(&info)?;
    let [begin, end] = offsets[..] else {
        return refuse("data_offsets are not two numbers");
    };
    check_length(&shape, bits, begin, end)?;
    Ok(Entry {
        name: name.to_owned(),
        label,
        dtype,
        shape,
        begin,
        end,
    })
}

fn no_more_keys(info: &BTreeMap<String, Json>) -> Result<()> {
    match info.keys().next() {
        None => Ok(()),
        Some(key) => refuse(format!("its entry has an unknown key {key:?}")),
    }
}

fn dtype(value: Option<Json>) -> Result<(&'static str, usize, Option<Dtype>)> {
    let Some(Json::Text(name)) = value else {
        return refuse("its dtype is missing or no string");
    };
    let known = DTYPES.into_iter().find(|(label, _, _)| *label == name);
    known.ok_or_else(|| Refusal::new(format!("dtype {name:?} is not one of the format")))
}

fn integers(value: Option<Json>, what: &str) -> Result<Vec<usize>> {
    let Some(Json::Array(items)) = value else {
        return refuse(format!("its {what} is missing or no array"));
    };
    let integer = |item: &Json| match item {
        Json::Integer(number) => usize::try_from(*number).ok(),
        _ => None,
    };
    let numbers = items.iter().map(integer).collect::<Option<Vec<_>>>();
    numbers.ok_or_else(|| Refusal::new(format!("its {what} holds something other than a count")))
}

/// Shape times dtype has to be the length of the range, in whole bytes.
fn check_length(shape: &[usize], bits: usize, begin: usize, end: usize) -> Result<()> {
    let stated = end
        .checked_sub(begin)
        .and_then(|length| length.checked_mul(8));
    let needed = element_count(shape)?.checked_mul(bits);
    if stated.is_some() && stated == needed {
        return Ok(());
    }
    refuse(format!(
        "shape {shape:?} of {bits}-bit elements does not fill [{begin}, {end}]"
    ))
}

/// Sorted ranges have to follow one another from the payload's first byte to its last.
fn check_tiling(entries: &[Entry], length: usize) -> Result<()> {
    let mut end = 0;
    for entry in entries {
        if entry.begin != end {
            let (name, begin) = (&entry.name, entry.begin);
            return refuse(format!(
                "tensor {name:?} begins at {begin}, the one before ends at {end}"
            ));
        }
        end = entry.end;
    }
    if end == length {
        return Ok(());
    }
    refuse(format!("the tensors end at {end}, the payload at {length}"))
}

fn decode(entry: Entry, payload: &[u8]) -> Result<Tensor> {
    let Some(dtype) = entry.dtype else {
        return refuse(format!(
            "tensor {:?}: dtype {} is not decoded",
            entry.name, entry.label
        ));
    };
    let data = dtype.decode(&payload[entry.begin..entry.end], false);
    let Entry { name, shape, .. } = entry;
    Ok(Tensor { name, shape, data })
}

#[cfg(test)]
mod tests;
