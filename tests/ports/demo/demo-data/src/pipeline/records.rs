//! The records: three columns under one index.

use std::collections::BTreeSet;

use crate::dataset::{check_index, Dataset};
use crate::error::Error;
use crate::number::exact_f32;
use crate::sha256::hex_digest;

/// One observation, with the identity that stays its own in any order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// The identity, never negative.
    pub id: i64,
    /// The feature.
    pub x: f32,
    /// The label.
    pub y: f32,
}

/// A data set of [`Record`]s, kept as columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Records {
    ids: Vec<i64>,
    x: Vec<f32>,
    y: Vec<f32>,
}

impl Records {
    /// Records from their columns.
    ///
    /// # Errors
    /// [`Error::InvalidRecords`] if the columns differ in length, or an
    /// identifier is negative (that is padding's mark) or comes twice.
    pub fn new(ids: Vec<i64>, x: Vec<f32>, y: Vec<f32>) -> Result<Self, Error> {
        if x.len() != ids.len() || y.len() != ids.len() {
            let text = format!("{} ids, {} x, {} y", ids.len(), x.len(), y.len());
            return Err(Error::InvalidRecords(text));
        }
        check_ids(&ids)?;
        Ok(Self { ids, x, y })
    }

    /// The eleven records of the dump: ids 0…10, x = id/10, y = 2x − 1.
    ///
    /// Every step is rounded to `f32`, so that the bits equal those of numpy's
    /// `float32` arrays and with them the fingerprint.
    ///
    /// # Errors
    /// None in practice: the columns are consistent.
    pub fn lesson() -> Result<Self, Error> {
        let ids: Vec<i64> = (0..=10).collect();
        let tenths = ids.iter().map(|&id| Ok(exact_f32(id)? / 10.0));
        let x = tenths.collect::<Result<Vec<f32>, Error>>()?;
        let y = x.iter().map(|x| label(*x)).collect();
        Self::new(ids, x, y)
    }

    /// The SHA-256 of the columns x and y, as 64 hexadecimal digits.
    ///
    /// It covers each column's type, shape and little-endian bytes, so it
    /// changes with any edit or reordering and stays the same for a copy.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let columns = [&self.x, &self.y].map(|column| described(column));
        hex_digest(&columns.concat())
    }
}

/// Two roundings, one for the product and one for the difference: a fused
/// multiply-add would give other bits.
fn label(x: f32) -> f32 {
    let doubled = 2.0 * x;
    doubled - 1.0
}

fn check_ids(ids: &[i64]) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for &id in ids {
        if id < 0 || !seen.insert(id) {
            let why = if id < 0 { "negative" } else { "there twice" };
            return Err(Error::InvalidRecords(format!("id {id} is {why}")));
        }
    }
    Ok(())
}

/// A column's type and shape as numpy prints them, then its bytes.
fn described(column: &[f32]) -> Vec<u8> {
    let mut bytes = format!("float32({},)", column.len()).into_bytes();
    bytes.extend(column.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

impl Dataset for Records {
    type Item = Record;

    fn len(&self) -> usize {
        self.ids.len()
    }

    fn get(&self, index: usize) -> Result<Record, Error> {
        check_index(index, self.ids.len())?;
        Ok(Record {
            id: self.ids[index],
            x: self.x[index],
            y: self.y[index],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with numpy and hashlib.
    const LESSON: &str = "1a81451a8fb32a1bf0ad6307ea19198153ab1603b37174c76c4d498e343e6892";

    fn lesson() -> Records {
        Records::lesson().unwrap()
    }

    #[test]
    fn fingerprint_is_the_one_that_numpy_gives() {
        assert_eq!(lesson().fingerprint(), LESSON);
    }

    #[test]
    fn a_copy_has_the_same_fingerprint_and_an_edit_another() {
        assert_eq!(lesson().clone().fingerprint(), LESSON);
        let edits: [fn(&mut Records); 5] = [
            |r| r.x.swap(0, 1),
            |r| r.y.reverse(),
            |r| std::mem::swap(&mut r.x, &mut r.y),
            |r| r.y[10] = f32::from_bits(r.y[10].to_bits() + 1),
            |r| r.y[5] = -0.0,
        ];
        for edit in edits {
            let mut records = lesson();
            edit(&mut records);
            assert_ne!(records.fingerprint(), LESSON, "{records:?}");
        }
    }

    #[test]
    fn an_index_yields_the_parts_of_one_record() {
        for index in 0..11 {
            let record = lesson().get(index).unwrap();
            assert_eq!(usize::try_from(record.id), Ok(index));
            assert_eq!(
                record.x.to_bits(),
                (exact_f32(record.id).unwrap() / 10.0).to_bits()
            );
            assert_eq!(record.y.to_bits(), label(record.x).to_bits());
        }
        assert!(lesson().get(11).is_err());
    }

    #[test]
    fn contradictory_columns_are_refused() {
        let one = || vec![0.5_f32];
        let cases = [
            (vec![0, 1], one(), one(), "2 ids, 1 x, 1 y"),
            (vec![0], vec![], one(), "1 ids, 0 x, 1 y"),
            (vec![0], one(), vec![], "1 ids, 1 x, 0 y"),
            (vec![-1], one(), one(), "id -1 is negative"),
            (
                vec![3, 3],
                vec![0.5; 2],
                vec![0.5; 2],
                "id 3 is there twice",
            ),
        ];
        for (ids, x, y, text) in cases {
            let error = Records::new(ids, x, y).unwrap_err();
            assert_eq!(error.to_string(), text);
        }
    }
}
