//! A place in an epoch.

use crate::error::Error;

use super::records::Records;

/// Where an epoch was left, and what has to be the same to go on there.
///
/// The position counts records, so that it keeps its meaning when somebody
/// changes the batch size; the batch size is kept to refuse just that, for
/// the batches to come would not be those of the uninterrupted run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The seed of the order.
    pub seed: u128,
    /// The epoch, which draws an order of its own from the seed.
    pub epoch: u128,
    /// The number of records gone by, delivered or dropped.
    pub position: usize,
    /// The records in a full batch.
    pub batch_size: usize,
    /// The fingerprint of the records that the position counts.
    pub fingerprint: String,
}

impl Cursor {
    /// Refuses a cursor that does not belong to these records and settings;
    /// an epoch has `len` records.
    ///
    /// # Errors
    /// [`Error::CursorMismatch`], or [`Error::BadPosition`] for a position
    /// that is neither a batch border nor the end.
    pub(super) fn check(
        &self,
        records: &Records,
        batch_size: usize,
        len: usize,
    ) -> Result<(), Error> {
        let (here, ours) = (records.fingerprint(), batch_size.to_string());
        same("fingerprint", &self.fingerprint, &here)?;
        same("batch size", &self.batch_size.to_string(), &ours)?;
        let position = self.position;
        if position == len || (position < len && position % batch_size == 0) {
            return Ok(());
        }
        let text = format!("record {position} of {len} is no border between batches");
        Err(Error::BadPosition(text))
    }
}

pub(super) fn same(property: &'static str, cursor: &str, pipeline: &str) -> Result<(), Error> {
    if cursor == pipeline {
        return Ok(());
    }
    Err(Error::CursorMismatch {
        property,
        cursor: cursor.to_owned(),
        pipeline: pipeline.to_owned(),
    })
}
