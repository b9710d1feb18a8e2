//! GGUF version 3, little-endian.

use crate::{find, Content};
use demo_serialize::error::{refuse, Refusal, Result};
use demo_serialize::json::{self, Json};

/// GGUF's numbers of the types of tensors.
pub const KINDS: [(&str, u32); 12] = [
    ("F32", 0),
    ("F16", 1),
    ("Q4_0", 2),
    ("Q8_0", 8),
    ("Q4_K", 12),
    ("Q6_K", 14),
    ("I8", 24),
    ("I16", 25),
    ("I32", 26),
    ("I64", 27),
    ("F64", 28),
    ("BF16", 30),
];
const VALUES: [(&str, u32); 13] = [
    ("uint8", 0),
    ("int8", 1),
    ("uint16", 2),
    ("int16", 3),
    ("uint32", 4),
    ("int32", 5),
    ("float32", 6),
    ("bool", 7),
    ("string", 8),
    ("array", 9),
    ("uint64", 10),
    ("int64", 11),
    ("float64", 12),
];

/// The bytes of a file. A value of the metadata is a string, or `TYPE JSON` such as `uint32 7`.
///
/// # Errors
/// For a dtype that GGUF does not have, a scalar, and a value that its type cannot have.
pub fn encode(content: &Content) -> Result<Vec<u8>> {
    let alignment = content.metadata.get("general.alignment");
    let alignment = alignment.and_then(|text| text.strip_prefix("uint32 ")?.parse().ok());
    let alignment: usize = alignment.unwrap_or(32);
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend((content.tensors.len() as u64).to_le_bytes());
    file.extend((content.metadata.len() as u64).to_le_bytes());
    for (key, value) in &content.metadata {
        push_text(&mut file, key);
        push_pair(&mut file, value)?;
    }
    let mut data: Vec<u8> = Vec::new();
    for raw in &content.tensors {
        if raw.shape.is_empty() {
            return refuse(format!("{}: GGUF has no scalars", raw.name));
        }
        push_text(&mut file, &raw.name);
        file.extend(u32::try_from(raw.shape.len()).unwrap_or(0).to_le_bytes());
        for &length in raw.shape.iter().rev() {
            file.extend((length as u64).to_le_bytes());
        }
        file.extend(find(&KINDS, &raw.dtype)?.to_le_bytes());
        file.extend((data.len() as u64).to_le_bytes());
        data.extend(&raw.data);
        data.resize(data.len().next_multiple_of(alignment), 0);
    }
    file.resize(file.len().next_multiple_of(alignment), 0);
    file.extend(data);
    Ok(file)
}

fn push_text(file: &mut Vec<u8>, text: &str) {
    file.extend((text.len() as u64).to_le_bytes());
    file.extend(text.as_bytes());
}

/// Pushes type and value.
fn push_pair(file: &mut Vec<u8>, text: &str) -> Result<()> {
    let (kind, rest) = text.split_once(' ').unwrap_or_default();
    if let Some(code) = kind.strip_suffix("[]").and_then(code) {
        let Json::Array(items) = json::parse(rest.as_bytes())? else {
            return refuse(format!("{rest} is not an array"));
        };
        file.extend(9_u32.to_le_bytes());
        file.extend(code.to_le_bytes());
        file.extend((items.len() as u64).to_le_bytes());
        return items
            .iter()
            .try_for_each(|item| push_value(file, code, item));
    }
    if let Some(code) = code(kind) {
        file.extend(code.to_le_bytes());
        return push_value(file, code, &json::parse(rest.as_bytes())?);
    }
    file.extend(8_u32.to_le_bytes());
    push_text(file, text);
    Ok(())
}

fn code(kind: &str) -> Option<u32> {
    let found = VALUES.iter().find(|row| row.0 == kind && row.1 != 9);
    found.map(|row| row.1)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)] // A float is rounded once.
fn push_value(file: &mut Vec<u8>, code: u32, value: &Json) -> Result<()> {
    let number = match value {
        Json::Integer(number) => i128::from(*number),
        Json::Number(number) => *number as i128, // Of no use for floats, which have their own arm.
        _ => 0,
    };
    let wrong = || Refusal::new(format!("{value:?} is not a value of the type {code}"));
    match (code, value) {
        (6 | 12, Json::Integer(_) | Json::Number(_)) => {
            let float = if let Json::Number(float) = value {
                *float
            } else {
                number as f64
            };
            if code == 6 {
                file.extend((float as f32).to_le_bytes());
            } else {
                file.extend(float.to_le_bytes());
            }
        }
        (7, Json::Bool(flag)) => file.push(u8::from(*flag)),
        (8, Json::Text(text)) => push_text(file, text),
        (0..=5 | 10 | 11, Json::Integer(_) | Json::Number(_)) => {
            let size = [1, 1, 2, 2, 4, 4, 0, 0, 0, 0, 8, 8][code as usize];
            let is_signed = code % 2 == 1;
            let bits = 8 * size as u32;
            let least = if is_signed {
                -(1_i128 << (bits - 1))
            } else {
                0
            };
            if number < least || number >= least + (1_i128 << bits) {
                return Err(wrong());
            }
            file.extend(&number.to_le_bytes()[..size]);
        }
        _ => return Err(wrong()),
    }
    Ok(())
}
