//! Named configurations of the pipeline.

use crate::cli::decimal;
use crate::error::Error;

use super::{Policy, Shortfall};

/// Suffixes without a value.
const FLAGS: [&str; 5] = ["again", "stream", "fill", "trim", "uneven"];
const DEFAULT_BATCH_SIZE: usize = 4;

/// The settings of a [`super::Pipeline`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Records in a full batch, at least 1.
    pub batch_size: usize,
    /// What becomes of a last batch that is not full.
    pub policy: Policy,
    /// Whether the epoch's order is numpy's, or else the records' own.
    pub shuffle: bool,
    /// How an epoch is divided that has no equal shares for all ranks.
    pub shortfall: Shortfall,
}

impl Config {
    /// Reads a configuration's name: `sequential`, `keep`, `drop` or `pad`,
    /// then suffixes in any order, each at most once, joined by hyphens.
    ///
    /// `batch-B` sets the batch size, otherwise 4, and `fill`, `trim` or
    /// `uneven` the shares of ranks. All others tell runs apart whose flags
    /// differ; they set nothing here. `sequential` is `keep` without the
    /// shuffle.
    ///
    /// # Errors
    /// [`Error::Usage`] for any other name.
    pub fn named(name: &str) -> Result<Self, Error> {
        let mut words = name.split('-');
        let mut config = start(words.next().unwrap_or_default())
            .ok_or_else(|| Error::Usage(format!("unknown configuration {name}")))?;
        let mut seen = Vec::new();
        while let Some(word) = words.next() {
            let value = if FLAGS.contains(&word) {
                None
            } else {
                words.next()
            };
            if seen.contains(&word) || !config.apply(word, value) {
                let text = format!("configuration {name}: bad suffix at {word}");
                return Err(Error::Usage(text));
            }
            seen.push(word);
        }
        Ok(config)
    }

    /// Takes in one suffix; false if it means nothing.
    fn apply(&mut self, word: &str, value: Option<&str>) -> bool {
        match (word, value) {
            ("again" | "stream", None) | ("save" | "load", Some(_)) => true,
            (flag, None) => match Shortfall::named(flag) {
                Some(shortfall) => {
                    self.shortfall = shortfall;
                    true
                }
                None => false,
            },
            ("batch", Some(size)) => match decimal(size) {
                Some(size) if size > 0 => {
                    self.batch_size = size;
                    true
                }
                _ => false,
            },
            ("epoch" | "seed" | "resume" | "rank" | "world" | "workers", Some(number)) => {
                decimal::<u128>(number).is_some()
            }
            _ => false,
        }
    }
}

fn start(word: &str) -> Option<Config> {
    let (policy, shuffle) = match word {
        "sequential" => (Policy::Keep, false),
        "keep" => (Policy::Keep, true),
        "drop" => (Policy::Drop, true),
        "pad" => (Policy::Pad, true),
        _ => return None,
    };
    Some(Config {
        batch_size: DEFAULT_BATCH_SIZE,
        policy,
        shuffle,
        shortfall: Shortfall::Fill,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_set_policy_batch_size_and_shuffle() {
        use Policy::{Drop, Keep, Pad};
        for (name, policy, batch_size, shuffle) in [
            ("sequential", Keep, 4, false),
            ("keep", Keep, 4, true),
            ("drop", Drop, 4, true),
            ("pad", Pad, 4, true),
            ("keep-again", Keep, 4, true),
            ("keep-epoch-1", Keep, 4, true),
            ("keep-seed-18", Keep, 4, true),
            ("keep-batch-1", Keep, 1, true),
            ("drop-batch-16", Drop, 16, true),
            ("pad-resume-3", Pad, 4, true),
            ("pad-batch-3-resume-1", Pad, 3, true),
            ("keep-batch-2-fill-world-4-rank-1-save-h", Keep, 2, true),
            ("sequential-batch-1-stream-workers-2", Keep, 1, false),
            ("keep-seed-18-load-k", Keep, 4, true),
        ] {
            let expected = Config {
                batch_size,
                policy,
                shuffle,
                shortfall: Shortfall::Fill,
            };
            assert_eq!(Config::named(name).unwrap(), expected, "{name}");
        }
    }

    #[test]
    fn a_suffix_sets_the_shares_of_ranks() {
        for (name, shortfall) in [
            ("keep-trim-world-4-rank-0", Shortfall::Trim),
            ("keep-uneven-world-2-rank-1", Shortfall::Uneven),
        ] {
            assert_eq!(Config::named(name).unwrap().shortfall, shortfall);
        }
    }

    #[test]
    fn other_names_are_usage_errors() {
        for name in [
            "",
            "kept",
            "keep-",
            "keep-batch",
            "keep-batch-",
            "keep-batch-0",
            "keep-batch-x",
            "keep-batch-3-batch-4",
            "keep-again-again",
            "keep-again-1",
            "keep-resume",
            "keep-resume-x",
            "keep-size-3",
            "keep-rank-x",
            "keep-save",
            "keep-fill-fill",
            "-batch-3",
        ] {
            let error = Config::named(name).unwrap_err();
            assert!(matches!(error, Error::Usage(_)), "{name}: {error}");
        }
    }
}
