//! The header of a `.npy`, format version 1.0, and the array.

use crate::{find, Raw};
use demo_serialize::error::{Refusal, Result};

const DTYPES: [(&str, &str); 14] = [
    ("F64", "<f8"),
    ("F32", "<f4"),
    ("F16", "<f2"),
    ("I64", "<i8"),
    ("I32", "<i4"),
    ("I16", "<i2"),
    ("I8", "|i1"),
    ("U64", "<u8"),
    ("U32", "<u4"),
    ("U16", "<u2"),
    ("U8", "|u1"),
    ("BOOL", "|b1"),
    ("C64", "<c8"),
    ("C128", "<c16"),
];

/// The bytes of a file.
///
/// # Errors
/// For a dtype that `NumPy` does not have, and a shape with thousands of dimensions.
pub fn encode(raw: &Raw) -> Result<Vec<u8>> {
    let descr = find(&DTYPES, &raw.dtype)?;
    let lengths: Vec<String> = raw.shape.iter().map(ToString::to_string).collect();
    let comma = if lengths.len() == 1 { "," } else { "" };
    let shape = lengths.join(", ") + comma;
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let length = u16::try_from(header.len()).map_err(|_| Refusal::new("too many dimensions"))?;
    let magic = b"\x93NUMPY\x01\x00";
    Ok([
        &magic[..],
        &length.to_le_bytes(),
        header.as_bytes(),
        &raw.data,
    ]
    .concat())
}

/// The array of a file that [`encode`] wrote.
///
/// # Errors
/// For every other file.
pub fn decode(name: &str, bytes: &[u8]) -> Result<Raw> {
    parse(name, bytes).ok_or_else(|| Refusal::new("this is not a .npy of version 1.0"))
}

fn parse(name: &str, bytes: &[u8]) -> Option<Raw> {
    let rest = bytes.strip_prefix(b"\x93NUMPY\x01\x00")?;
    let length = usize::from(u16::from_le_bytes(rest.get(..2)?.try_into().ok()?));
    let header = std::str::from_utf8(rest.get(2..2 + length)?).ok()?;
    let (_, from) = header.split_once("'descr': '")?;
    let (descr, from) = from.split_once('\'')?;
    let (dtype, _) = *DTYPES.iter().find(|row| row.1 == descr)?;
    let (_, from) = from.split_once("'shape': (")?;
    let (shape, _) = from.split_once(')')?;
    let lengths = shape
        .split(',')
        .map(str::trim)
        .filter(|one| !one.is_empty());
    let shape = lengths.map(|one| one.parse().ok());
    Some(Raw {
        name: name.to_owned(),
        dtype: dtype.to_owned(),
        shape: shape.collect::<Option<_>>()?,
        data: rest.get(2 + length..)?.to_vec(),
    })
}
