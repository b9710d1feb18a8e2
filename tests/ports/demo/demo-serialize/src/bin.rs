//! The `.bin` of the dump contract: `[u32 ndim][u32 shape…][f32 data]`, little-endian.

use crate::cursor::Cursor;
use crate::error::{refuse, Refusal, Result};
use crate::Tensor;

/// Most dimensions that a header may state; torch itself stops at 64.
const MAX_DIMS: u32 = 64;

/// The number of elements of `shape`.
///
/// # Errors
/// Where the product does not fit in a `usize`.
pub fn element_count(shape: &[usize]) -> Result<usize> {
    // A zero anywhere makes the tensor empty, however large the other dimensions are.
    if shape.contains(&0) {
        return Ok(0);
    }
    let product = shape
        .iter()
        .try_fold(1_usize, |count, &dim| count.checked_mul(dim));
    product.ok_or_else(|| Refusal::new(format!("shape {shape:?} has too many elements")))
}

/// The bytes of one tensor.
///
/// # Errors
/// Where a dimension does not fit in a `u32`.
pub fn encode(shape: &[usize], data: &[f32]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(4 * (1 + shape.len() + data.len()));
    for &number in std::iter::once(&shape.len()).chain(shape) {
        let number = u32::try_from(number);
        let number = number
            .map_err(|_| Refusal::new(format!("shape {shape:?} does not fit in a .bin header")))?;
        out.extend(number.to_le_bytes());
    }
    out.extend(data.iter().flat_map(|value| value.to_le_bytes()));
    Ok(out)
}

/// Reads the tensors that `names` lists, which lie one after another and fill `bytes`.
///
/// # Errors
/// Where a header is cut short or states more than the file holds, and for trailing bytes.
pub fn decode(bytes: &[u8], names: &[&str]) -> Result<Vec<Tensor>> {
    let mut cursor = Cursor::new(bytes);
    let tensors = names.iter().map(|name| one(&mut cursor, name));
    let tensors = tensors.collect::<Result<Vec<_>>>()?;
    match cursor.remaining() {
        0 => Ok(tensors),
        left => refuse(format!("{left} bytes follow the last tensor")),
    }
}

fn one(cursor: &mut Cursor, name: &str) -> Result<Tensor> {
    let ndim = cursor.u32(name)?;
    if ndim > MAX_DIMS {
        return refuse(format!("{name} states {ndim} dimensions"));
    }
    let shape = (0..ndim).map(|_| Ok(cursor.u32(name)? as usize));
    let shape = shape.collect::<Result<Vec<_>>>()?;
    let count = cursor.bounded(element_count(&shape)? as u64, 4, name)?;
    let data = cursor.take(4 * count, name)?;
    Ok(Tensor {
        name: name.to_owned(),
        shape,
        data: crate::scalar::Dtype::F32.decode(data, false),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scalar_has_a_header_of_one_word() {
        assert_eq!(encode(&[], &[1.0]).unwrap(), [0, 0, 0, 0, 0, 0, 0x80, 0x3f]);
    }

    #[test]
    fn what_was_written_is_read_back() {
        let mut bytes = encode(&[2, 1], &[1.0, -0.0]).unwrap();
        bytes.extend(encode(&[0, 3], &[]).unwrap());
        let read = decode(&bytes, &["a", "b"]).unwrap();
        assert_eq!(
            (read[0].shape.as_slice(), read[1].shape.as_slice()),
            (&[2, 1][..], &[0, 3][..])
        );
        assert_eq!(read[0].data[1].to_bits(), 0x8000_0000);
    }

    #[test]
    fn headers_that_promise_too_much_are_refused() {
        let huge = [
            3, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
        ];
        assert!(decode(&huge, &["a"]).is_err());
        assert!(decode(&[255, 255, 255, 255], &["a"]).is_err());
        assert!(decode(&[0, 0, 0, 0, 1, 2, 3], &["a"]).is_err());
        assert!(decode(&[0, 0, 0, 0, 1, 2, 3, 4, 5], &["a"]).is_err());
    }
}
