//! An input pipeline: records in an epoch's order, in batches, resumable.
//!
//! What reaches the model is a function of the records, the seed, the epoch
//! and the settings. A [`Cursor`] names a place in an epoch and is all that
//! is needed to go on from there.

mod batch;
mod config;
mod cursor;
mod records;
mod state;

use std::sync::mpsc;
use std::thread;

use crate::dataset::Dataset;
use crate::error::Error;
use crate::numpy_order;

pub use batch::{masked_mean, Batch, PADDING_ID};
pub use config::Config;
pub use cursor::Cursor;
pub use records::{Record, Records};

/// What becomes of the last records when they do not fill a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// They come as a batch that is shorter than the others.
    Keep,
    /// They are left out; [`Pipeline::omitted`] names them.
    Drop,
    /// They come as a full batch, filled up with slots that the mask disowns.
    Pad,
}

impl Policy {
    /// The policy's word, as configurations and reports spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Drop => "drop",
            Self::Pad => "pad",
        }
    }
}

/// How an epoch is divided among ranks that does not divide evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// The order is filled up by its own beginning.
    Fill,
    /// The end of the order is left out.
    Trim,
    /// The first ranks get one record more.
    Uneven,
}

impl Shortfall {
    /// The shortfall of a configuration's word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        match word {
            "fill" => Some(Self::Fill),
            "trim" => Some(Self::Trim),
            "uneven" => Some(Self::Uneven),
            _ => None,
        }
    }
}

/// The most slots that a batch is padded to: a mistyped batch size must end in
/// an error, not in the memory's end.
pub const MAX_PADDED: usize = 1 << 20;

/// Records and the settings with which they are batched.
#[derive(Clone, Debug)]
pub struct Pipeline {
    records: Records,
    config: Config,
    rank: usize,
    world: usize,
    workers: usize,
}

impl Pipeline {
    /// A pipeline over `records`.
    ///
    /// # Errors
    /// [`Error::ZeroBatchSize`] for a batch size of 0, and
    /// [`Error::Unrepresentable`] for padding to more than [`MAX_PADDED`].
    pub fn new(records: Records, config: Config) -> Result<Self, Error> {
        let size = config.batch_size;
        if size == 0 {
            return Err(Error::ZeroBatchSize);
        }
        if config.policy == Policy::Pad && size > MAX_PADDED {
            let text = format!("padding to {size} slots: {MAX_PADDED} is the most");
            return Err(Error::Unrepresentable(text));
        }
        Ok(Self {
            records,
            config,
            rank: 0,
            world: 1,
            workers: 0,
        })
    }

    /// The part of this pipeline that one of `world` processes runs.
    ///
    /// # Errors
    /// [`Error::Usage`] for a rank that is not below `world`.
    pub fn shard(self, rank: usize, world: usize) -> Result<Self, Error> {
        if rank >= world {
            return Err(Error::Usage(format!("rank {rank} of {world} ranks")));
        }
        Ok(Self {
            rank,
            world,
            ..self
        })
    }

    /// This pipeline with threads that build its batches; 0 for none.
    #[must_use]
    pub fn with_workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    /// The cursor before batch `batch` of an epoch, where the number of
    /// batches (with the last, partial one) stands for the epoch's end.
    ///
    /// # Errors
    /// [`Error::BadPosition`] if the epoch has fewer batches than that.
    pub fn cursor(&self, seed: u128, epoch: u128, batch: usize) -> Result<Cursor, Error> {
        let (len, size) = (self.len(), self.config.batch_size);
        if batch > len.div_ceil(size) {
            let text = format!("there is no batch {batch} in {len} records by {size}");
            return Err(Error::BadPosition(text));
        }
        Ok(Cursor {
            seed,
            epoch,
            position: batch.saturating_mul(size).min(len),
            batch_size: size,
            fingerprint: self.records.fingerprint(),
        })
    }

    /// The batches from `cursor` to the end of its epoch.
    ///
    /// # Errors
    /// [`Error::CursorMismatch`] if the cursor belongs to other records or
    /// another batch size, [`Error::BadPosition`] if it is at no batch border.
    pub fn batches_from(&self, cursor: &Cursor) -> Result<Vec<Batch>, Error> {
        cursor.check(&self.records, self.config.batch_size, self.len())?;
        let order = self.share(cursor.seed, cursor.epoch);
        let first = cursor.position.div_ceil(cursor.batch_size);
        let chunks = order.chunks(self.config.batch_size).enumerate().skip(first);
        let delivered = chunks.filter(|(_, chunk)| self.delivers(chunk));
        let key = (cursor.seed, cursor.epoch);
        if self.workers == 0 {
            return delivered
                .map(|(k, chunk)| self.batch(k, chunk, key))
                .collect();
        }
        self.build_in_threads(&delivered.collect::<Vec<_>>(), key)
    }

    /// The batches of numbered chunks: each of N workers builds every N-th.
    fn build_in_threads(
        &self,
        chunks: &[(usize, &[usize])],
        key: (u128, u128),
    ) -> Result<Vec<Batch>, Error> {
        let workers = self.workers.min(chunks.len());
        let (sender, receiver) = mpsc::channel();
        let built: Result<Vec<Batch>, Error> = thread::scope(|scope| {
            for worker in 0..workers {
                let sender = sender.clone();
                scope.spawn(move || {
                    for &(number, chunk) in chunks.iter().skip(worker).step_by(workers) {
                        // Nobody listens any more after a worker's error.
                        drop(sender.send(self.batch(number, chunk, key)));
                    }
                });
            }
            drop(sender); // the workers' own end the loop
            receiver.into_iter().collect()
        });
        let mut batches = built?;
        batches.sort_by_key(|batch| batch.number); // they come as the threads are done
        Ok(batches)
    }

    /// The identifiers of this rank's records in the epoch's order.
    ///
    /// # Errors
    /// None in practice: the order holds the records' own indices.
    pub fn ordered_ids(&self, seed: u128, epoch: u128) -> Result<Vec<i64>, Error> {
        self.ids(&self.share(seed, epoch))
    }

    /// The identifiers that the policy leaves out of the epoch, ascending.
    ///
    /// # Errors
    /// None in practice: the order holds the records' own indices.
    pub fn omitted(&self, seed: u128, epoch: u128) -> Result<Vec<i64>, Error> {
        let order = self.share(seed, epoch);
        let chunks = order.chunks(self.config.batch_size);
        let lost = chunks.filter(|chunk| !self.delivers(chunk));
        let mut ids = self.ids(&lost.collect::<Vec<_>>().concat())?;
        ids.sort_unstable();
        Ok(ids)
    }

    /// The number of records that an epoch has for this rank.
    fn len(&self) -> usize {
        self.share(0, 0).len()
    }

    /// Every `world`-th index of the epoch's order, from `rank` on.
    fn share(&self, seed: u128, epoch: u128) -> Vec<usize> {
        let order = self.order(seed, epoch);
        let rest = order.len() % self.world;
        let count = match self.config.shortfall {
            Shortfall::Fill if rest > 0 => order.len() + self.world - rest,
            Shortfall::Trim => order.len() - rest,
            Shortfall::Fill | Shortfall::Uneven => order.len(),
        };
        let repeated = order.iter().copied().cycle().take(count);
        repeated.skip(self.rank).step_by(self.world).collect()
    }

    fn order(&self, seed: u128, epoch: u128) -> Vec<usize> {
        if self.config.shuffle {
            numpy_order::permutation(seed, epoch, self.records.len())
        } else {
            (0..self.records.len()).collect()
        }
    }

    fn delivers(&self, chunk: &[usize]) -> bool {
        self.config.policy != Policy::Drop || chunk.len() == self.config.batch_size
    }

    fn batch(&self, number: usize, chunk: &[usize], key: (u128, u128)) -> Result<Batch, Error> {
        let rows: Result<Vec<Record>, Error> = chunk.iter().map(|&i| self.records.get(i)).collect();
        let length = match self.config.policy {
            Policy::Pad => self.config.batch_size,
            Policy::Keep | Policy::Drop => chunk.len(),
        };
        Ok(Batch::new(number, &rows?, length, key))
    }

    fn ids(&self, indices: &[usize]) -> Result<Vec<i64>, Error> {
        let records = indices.iter().map(|&i| self.records.get(i));
        records.map(|record| Ok(record?.id)).collect()
    }
}

#[cfg(test)]
mod tests;
