//! The `.bin` file that holds the tensors of one batch.
//!
//! Layout, all little-endian: a `u32` with the number of tensors, then for
//! each tensor a `u32` with the number of dimensions, the dimensions as `u32`
//! (outermost first), and the values as `f32` in row-major order.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// A dense `f32` tensor in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    shape: Vec<usize>,
    values: Vec<f32>,
}

impl Tensor {
    /// A tensor of `shape`; an empty shape is a scalar with one value.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] if the shape does not hold `values.len()` values.
    pub fn new(shape: Vec<usize>, values: Vec<f32>) -> Result<Self, Error> {
        let size = shape.iter().try_fold(1_usize, |n, &d| n.checked_mul(d));
        if size == Some(values.len()) {
            Ok(Self { shape, values })
        } else {
            let values = values.len();
            Err(Error::ShapeMismatch { shape, values })
        }
    }

    /// A tensor of one dimension, as long as `values`.
    #[must_use]
    pub fn vector(values: Vec<f32>) -> Self {
        let shape = vec![values.len()];
        Self { shape, values }
    }
}

/// The bytes of a batch file with `tensors` in their order.
///
/// # Errors
/// [`Error::Unrepresentable`] if a count or a dimension does not fit in 32 bits.
pub fn encode(tensors: &[Tensor]) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    push_count(&mut bytes, tensors.len())?;
    for tensor in tensors {
        push_count(&mut bytes, tensor.shape.len())?;
        for &dimension in &tensor.shape {
            push_count(&mut bytes, dimension)?;
        }
        bytes.extend(tensor.values.iter().flat_map(|v| v.to_le_bytes()));
    }
    Ok(bytes)
}

fn push_count(bytes: &mut Vec<u8>, count: usize) -> Result<(), Error> {
    let Ok(count) = u32::try_from(count) else {
        let text = format!("{count} does not fit in the file's 32 bits");
        return Err(Error::Unrepresentable(text));
    };
    bytes.extend(count.to_le_bytes());
    Ok(())
}

/// The path of the batch with this number: `batch_0000.bin` and so on.
#[must_use]
pub fn batch_path(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("batch_{number:04}.bin"))
}

/// Writes the tensors of batch `number` into `folder`, which must exist.
///
/// # Errors
/// As [`encode`], and [`Error::Io`] if the file cannot be written.
pub fn write_batch(folder: &Path, number: usize, tensors: &[Tensor]) -> Result<(), Error> {
    let path = batch_path(folder, number);
    fs::write(&path, encode(tensors)?).map_err(|source| Error::io(&path, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_counts_shapes_and_little_endian_values() {
        let matrix = Tensor::new(vec![2, 1], vec![1.0, -2.0]).unwrap();
        let expected: [&[u8]; 7] = [
            &[2, 0, 0, 0],
            &[2, 0, 0, 0],
            &[2, 0, 0, 0, 1, 0, 0, 0],
            &[0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0],
            &[1, 0, 0, 0],
            &[1, 0, 0, 0],
            &[0, 0, 0, 0x3f],
        ];
        let bytes = encode(&[matrix, Tensor::vector(vec![0.5])]).unwrap();
        assert_eq!(bytes, expected.concat());
    }

    #[test]
    fn a_scalar_has_no_dimension_and_one_value() {
        let scalar = Tensor::new(vec![], vec![1.0]).unwrap();
        let bytes = encode(&[scalar]).unwrap();
        assert_eq!(bytes, [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x3f]);
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let cases: [(Vec<usize>, usize); 4] = [
            (vec![2, 3], 5),
            (vec![0], 1),
            (vec![], 0),
            (vec![usize::MAX, 2], 4),
        ];
        for (shape, values) in cases {
            let tensor = Tensor::new(shape.clone(), vec![0.0; values]);
            assert!(tensor.is_err(), "{shape:?}");
        }
    }

    #[test]
    fn file_numbers_have_at_least_four_digits() {
        for (number, name) in [(0, "batch_0000.bin"), (12_345, "batch_12345.bin")] {
            assert_eq!(batch_path(Path::new(""), number), Path::new(name));
        }
    }

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn a_dimension_beyond_32_bits_is_refused() {
        let wide = Tensor::new(vec![1 << 32, 0], vec![]).unwrap();
        assert!(matches!(encode(&[wide]), Err(Error::Unrepresentable(_))));
    }
}
