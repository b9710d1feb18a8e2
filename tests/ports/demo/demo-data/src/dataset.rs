//! Data sets that are reached by index.

use crate::error::Error;
use crate::number::{exact_f32, exact_f32_index};

/// A finite collection whose items are reached by their index.
pub trait Dataset {
    /// What one index yields: all parts of the item together, so that features
    /// and labels cannot come from different items.
    type Item;

    /// The number of items.
    fn len(&self) -> usize;

    /// Whether there are no items.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The item at `index`.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] unless `index < len()`.
    fn get(&self, index: usize) -> Result<Self::Item, Error>;
}

/// Refuses an index that `len` items do not have.
///
/// # Errors
/// [`Error::IndexOutOfRange`] unless `index < len`.
pub fn check_index(index: usize, len: usize) -> Result<(), Error> {
    if index < len {
        Ok(())
    } else {
        Err(Error::IndexOutOfRange { index, len })
    }
}

/// The number of features of a [`Sample`].
pub const FEATURES: usize = 8;

/// One item of [`ToyDataset`].
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The input row.
    pub features: [f32; FEATURES],
    /// The class, 0, 1 or 2.
    pub label: i64,
}

/// Ten items, each told from every other by its features.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToyDataset;

impl ToyDataset {
    const LEN: usize = 10;
    const CLASSES: usize = 3;
}

impl Dataset for ToyDataset {
    type Item = Sample;

    fn len(&self) -> usize {
        Self::LEN
    }

    /// Item i has the features 0…7 plus i·0.1, and the label i mod 3.
    ///
    /// The offset is a product of two `f32`. A reference that multiplies in
    /// `f64` and rounds once differs from it by one ULP here and there, which
    /// the bound of the comparison has to allow for.
    fn get(&self, index: usize) -> Result<Sample, Error> {
        check_index(index, Self::LEN)?;
        let offset = exact_f32_index(index)? * 0.1_f32;
        let mut features = [offset; FEATURES];
        for (column, value) in (0_i64..).zip(features.iter_mut()) {
            *value += exact_f32(column)?;
        }
        let label = i64::try_from(index % Self::CLASSES).unwrap_or_default();
        Ok(Sample { features, label })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_item_counts_up_and_labels_repeat() {
        let first = ToyDataset.get(0).unwrap();
        let counted = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0_f32];
        assert_eq!(first.features.map(f32::to_bits), counted.map(f32::to_bits));
        let labels: Vec<i64> = (0..10).map(|i| ToyDataset.get(i).unwrap().label).collect();
        assert_eq!(labels, [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]);
    }

    /// The bits are those of numpy's `arange(8, float32) + float32(i) * float32(0.1)`.
    #[test]
    fn offsets_are_single_precision_products() {
        let cases: [(usize, [u32; 2]); 3] = [
            (1, [0x3dcc_cccd, 0x3f8c_cccd]),
            (3, [0x3e99_999a, 0x3fa6_6666]),
            (9, [0x3f66_6667, 0x3ff3_3334]),
        ];
        for (index, bits) in cases {
            let features = ToyDataset.get(index).unwrap().features;
            assert_eq!([features[0].to_bits(), features[1].to_bits()], bits);
        }
    }

    #[test]
    fn an_index_past_the_end_is_an_error() {
        let error = ToyDataset.get(10).unwrap_err().to_string();
        assert_eq!(error, "item 10 is out of range: there are 10");
    }
}
