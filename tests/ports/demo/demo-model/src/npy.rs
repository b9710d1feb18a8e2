//! The `.npy` files of a trace's inputs: version 1, row-major, `<f4` or `<i8`.

use crate::array::Array;
use demo_serialize::error::{Refusal, Result};
use demo_serialize::scalar::Dtype;

/// Reads an array; integers become f32.
///
/// # Errors
/// For another version, order or dtype, and where the data do not fill the shape.
pub fn read(bytes: &[u8]) -> Result<Array> {
    let (header, data) = split(bytes).ok_or_else(|| Refusal::new("no .npy of version 1"))?;
    let has = |text: &str| header.contains(text);
    let dtype = if has("'<f4'") {
        Dtype::F32
    } else if has("'<i8'") {
        Dtype::I64
    } else {
        return Err(Refusal::new(format!(
            "the dtype is not supported: {header}"
        )));
    };
    let shape = shape(header).filter(|_| has("'fortran_order': False"));
    let shape = shape.ok_or_else(|| Refusal::new(format!("not row-major: {header}")))?;
    let needed = shape
        .iter()
        .try_fold(dtype.size(), |size, &length| size.checked_mul(length));
    if needed != Some(data.len()) {
        let length = data.len();
        return Err(Refusal::new(format!(
            "{length} bytes do not fill {shape:?}"
        )));
    }
    Ok(Array::new(&shape, dtype.decode(data, false)))
}

/// The header, a dict of Python's, and what follows it.
fn split(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let rest = bytes.strip_prefix(b"\x93NUMPY\x01\x00")?;
    let length = usize::from(u16::from_le_bytes([*rest.first()?, *rest.get(1)?]));
    let header = std::str::from_utf8(rest.get(2..2 + length)?).ok()?;
    Some((header, &rest[2 + length..]))
}

/// The numbers of `'shape': (2, 3)`.
fn shape(header: &str) -> Option<Vec<usize>> {
    let (_, after) = header.split_once("'shape': (")?;
    let (numbers, _) = after.split_once(')')?;
    let numbers = numbers.split(',').map(str::trim);
    let numbers = numbers.filter(|number| !number.is_empty());
    numbers.map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(dtype: &str, order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let header =
            format!("{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': ({shape}), }}\n");
        let length = u16::try_from(header.len()).unwrap().to_le_bytes();
        [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat()
    }

    #[test]
    fn floats_and_integers_are_read() {
        let floats = [1.5_f32.to_le_bytes(), (-2.0_f32).to_le_bytes()].concat();
        let expected = Array::new(&[2, 1], vec![1.5, -2.0]);
        assert_eq!(read(&file("<f4", "False", "2, 1", &floats)), Ok(expected));
        let integer = (-100_i64).to_le_bytes();
        let expected = Array::new(&[1], vec![-100.0]);
        assert_eq!(read(&file("<i8", "False", "1,", &integer)), Ok(expected));
    }

    #[test]
    fn other_dtypes_orders_and_sizes_are_refused() {
        for bytes in [
            file("<f8", "False", "1,", &[0; 8]),
            file("<f4", "True", "1,", &[0; 4]),
            file("<f4", "False", "2,", &[0; 4]),
            file("<f4", "False", "4611686018427387905,", &[0; 4]),
            file("<f4", "False", "1,", &[0; 4])[..20].to_vec(),
            b"\x93NUMPY\x02\x00".to_vec(),
        ] {
            assert!(read(&bytes).is_err());
        }
    }
}
