//! What the model gets at a time.

use crate::batch_file::Tensor;
use crate::error::Error;
use crate::number::exact_f32;
use crate::numpy_order::{Pcg64, SeedSequence};

use super::records::Record;

/// The identifier in a slot that holds no record.
pub const PADDING_ID: i64 = -1;

/// Records side by side, one slot each; all columns have the same length.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The batch's number in its epoch, from 0, whatever the run started at.
    pub number: usize,
    /// The identifiers; [`PADDING_ID`] where the slot is empty.
    pub ids: Vec<i64>,
    /// The features; 0 where the slot is empty.
    pub x: Vec<f32>,
    /// The labels; 0 where the slot is empty.
    pub y: Vec<f32>,
    /// 1 for a record, 0 for an empty slot.
    pub mask: Vec<f32>,
    /// What an augmentation draws for each slot: a number from 0 to 1 that is
    /// a function of seed, epoch and record; 0 for an empty slot.
    pub draws: Vec<f64>,
}

impl Batch {
    /// A batch of `records`, with empty slots up to `length` slots in all;
    /// seed and epoch decide what is drawn.
    #[must_use]
    pub fn new(number: usize, records: &[Record], length: usize, key: (u128, u128)) -> Self {
        let mut batch = Self {
            number,
            ids: records.iter().map(|r| r.id).collect(),
            x: records.iter().map(|r| r.x).collect(),
            y: records.iter().map(|r| r.y).collect(),
            mask: vec![1.0; records.len()],
            draws: records.iter().map(|r| draw(r.id, key)).collect(),
        };
        batch.pad(length.max(records.len()));
        batch
    }

    fn pad(&mut self, length: usize) {
        self.ids.resize(length, PADDING_ID);
        for column in [&mut self.x, &mut self.y, &mut self.mask] {
            column.resize(length, 0.0);
        }
        self.draws.resize(length, 0.0);
    }

    /// The number of slots, the empty ones too.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is no slot.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The tensors of the batch file: id, x, y and mask, each of shape `[B]`.
    ///
    /// # Errors
    /// [`Error::Unrepresentable`] for an identifier beyond 2^24.
    pub fn tensors(&self) -> Result<[Tensor; 4], Error> {
        let ids: Result<Vec<f32>, Error> = self.ids.iter().map(|&id| exact_f32(id)).collect();
        let columns = [ids?, self.x.clone(), self.y.clone(), self.mask.clone()];
        Ok(columns.map(Tensor::vector))
    }
}

/// A random number from 0 to 1 for a record, whichever thread asks.
fn draw(id: i64, (seed, epoch): (u128, u128)) -> f64 {
    let id = u128::from(id.unsigned_abs()); // never negative
    let mut generator = Pcg64::new(&SeedSequence::new(&[seed, epoch, id]));
    f64::from(generator.next_u32()) / (f64::from(u32::MAX) + 1.0)
}

/// The mean label over the records in `batches`, `None` if there is none.
///
/// Empty slots count neither in the sum nor in the divisor: padding must not
/// move a statistic. Sums are kept in `f64`, where those of a small data set
/// lose nothing that an `f32` shows.
#[must_use]
pub fn masked_mean(batches: &[Batch]) -> Option<f64> {
    let (mut sum, mut count) = (0.0_f64, 0.0_f64);
    for batch in batches {
        for (&y, &mask) in batch.y.iter().zip(&batch.mask) {
            sum += f64::from(y) * f64::from(mask);
            count += f64::from(mask);
        }
    }
    (count > 0.0).then(|| sum / count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch_file::encode;

    const KEY: (u128, u128) = (17, 0);

    fn records() -> Vec<Record> {
        let record = |id, x, y| Record { id, x, y };
        vec![record(2, 0.25, -0.5), record(5, 0.5, 1.5)]
    }

    #[test]
    fn empty_slots_have_no_identity_no_value_and_no_weight() {
        let batch = Batch::new(2, &records(), 4, KEY);
        assert_eq!(batch.ids, [2, 5, -1, -1]);
        assert_eq!(batch.x, [0.25, 0.5, 0.0, 0.0]);
        assert_eq!(batch.y, [-0.5, 1.5, 0.0, 0.0]);
        assert_eq!(batch.mask, [1.0, 1.0, 0.0, 0.0]);
        assert_eq!(batch.len(), 4);
    }

    #[test]
    fn no_record_is_cut_off() {
        assert_eq!(Batch::new(0, &records(), 1, KEY).ids, [2, 5]);
    }

    #[test]
    fn mean_is_over_records_only() {
        for length in [2, 3, 16] {
            let batch = Batch::new(0, &records(), length, KEY);
            assert_eq!(masked_mean(&[batch]), Some(0.5), "{length}");
        }
        assert_eq!(masked_mean(&[]), None);
        assert_eq!(masked_mean(&[Batch::new(0, &[], 4, KEY)]), None);
    }

    #[test]
    fn tensors_are_id_x_y_mask() {
        let tensors = Batch::new(0, &records()[..1], 2, KEY).tensors().unwrap();
        let columns = [[2.0, -1.0], [0.25, 0.0], [-0.5, 0.0], [1.0, 0.0]];
        let expected = columns.map(|column| Tensor::vector(column.to_vec()));
        assert_eq!(encode(&tensors).unwrap(), encode(&expected).unwrap());
    }

    #[test]
    fn an_identifier_that_f32_would_round_is_refused() {
        let id = (1 << 24) + 1;
        let batch = Batch::new(0, &[Record { id, x: 0.0, y: 0.0 }], 1, KEY);
        assert!(matches!(batch.tensors(), Err(Error::Unrepresentable(_))));
    }
}
