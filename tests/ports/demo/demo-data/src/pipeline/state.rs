//! A cursor as bytes, to continue in another process.

use crate::cli::decimal;
use crate::error::Error;
use crate::sha256::hex_digest;

use super::cursor::same;
use super::{Cursor, Pipeline};

const NAME: &str = "demo-pipeline-1";

impl Pipeline {
    /// The cursor `batches` batches after `cursor`, in the same epoch.
    #[must_use]
    pub fn advance(&self, cursor: &Cursor, batches: usize) -> Cursor {
        let passed = batches.saturating_mul(cursor.batch_size);
        let position = cursor.position.saturating_add(passed).min(self.len());
        Cursor {
            position,
            ..cursor.clone()
        }
    }

    /// The state of a run that stops at `cursor`: a line, and its SHA-256.
    #[must_use]
    pub fn save(&self, cursor: &Cursor) -> Vec<u8> {
        let line = format!(
            "{NAME} {} {} {} {} {} {} {}",
            cursor.seed,
            cursor.epoch,
            cursor.position,
            cursor.batch_size,
            self.rank,
            self.world,
            cursor.fingerprint
        );
        let digest = hex_digest(line.as_bytes());
        format!("{line}\n{digest}\n").into_bytes()
    }

    /// The cursor at which a run continues; after the last batch of an epoch
    /// that is the beginning of the next one.
    ///
    /// # Errors
    /// [`Error::BadState`] for a state that is damaged or another program's,
    /// [`Error::CursorMismatch`] for one of another seed, rank, data set or
    /// batch size.
    pub fn load(&self, state: &[u8], seed: u128) -> Result<Cursor, Error> {
        let cursor = self.parse(state)?;
        same("seed", &cursor.seed.to_string(), &seed.to_string())?;
        if self.batches_from(&cursor)?.is_empty() {
            return self.cursor(seed, cursor.epoch + 1, 0);
        }
        Ok(cursor)
    }

    fn parse(&self, state: &[u8]) -> Result<Cursor, Error> {
        let bad = || Error::BadState("the state is damaged, or another program's".to_owned());
        let text = std::str::from_utf8(state).map_err(|_| bad())?;
        let (line, rest) = text.split_once('\n').ok_or_else(bad)?;
        if rest != format!("{}\n", hex_digest(line.as_bytes())) {
            return Err(bad());
        }
        let words: Vec<&str> = line.split(' ').collect();
        let [NAME, seed, epoch, position, batch_size, rank, world, fingerprint] = words[..] else {
            return Err(bad());
        };
        same("rank", rank, &self.rank.to_string())?;
        same("number of ranks", world, &self.world.to_string())?;
        Ok(Cursor {
            seed: decimal(seed).ok_or_else(bad)?,
            epoch: decimal(epoch).ok_or_else(bad)?,
            position: decimal(position).ok_or_else(bad)?,
            batch_size: decimal(batch_size).ok_or_else(bad)?,
            fingerprint: fingerprint.to_owned(),
        })
    }
}
