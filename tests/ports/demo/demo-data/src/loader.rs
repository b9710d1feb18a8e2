//! Batches of a data set, in sequence or shuffled.

use crate::dataset::Dataset;
use crate::error::Error;
use crate::rng::shuffled_indices;

/// How a [`Loader`] goes through its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Items in a full batch, at least 1.
    pub batch_size: usize,
    /// The seed of the shuffle; `None` keeps the data set's own order.
    pub shuffle: Option<u64>,
    /// Whether a last batch that is not full is left out.
    pub drop_last: bool,
}

impl Options {
    /// The settings of a named configuration of the dump, `None` if unknown.
    ///
    /// `seed` counts for the shuffled configurations only.
    #[must_use]
    pub fn named(config: &str, seed: u64) -> Option<Self> {
        let (batch_size, shuffle, drop_last) = match config {
            "sequential" => (4, None, false),
            "sequential_droplast" => (4, None, true),
            "shuffled_seeded" => (4, Some(seed), false),
            "shuffled_droplast" => (4, Some(seed), true),
            "batch_size_3" => (3, None, false),
            _ => return None,
        };
        Some(Self {
            batch_size,
            shuffle,
            drop_last,
        })
    }
}

/// Groups the items of a data set into batches.
#[derive(Debug)]
pub struct Loader<'a, D> {
    dataset: &'a D,
    options: Options,
}

impl<'a, D: Dataset> Loader<'a, D> {
    /// A loader over `dataset`.
    ///
    /// # Errors
    /// [`Error::ZeroBatchSize`] for a batch size of 0.
    pub fn new(dataset: &'a D, options: Options) -> Result<Self, Error> {
        if options.batch_size == 0 {
            return Err(Error::ZeroBatchSize);
        }
        Ok(Self { dataset, options })
    }

    /// The batches of one pass, each a list of items, in order.
    ///
    /// A shuffling loader gives the same order in every pass: the order is a
    /// function of the seed, and nothing is kept from pass to pass.
    ///
    /// # Errors
    /// Whatever the data set says of an item that it cannot give.
    pub fn batches(&self) -> Result<Vec<Vec<D::Item>>, Error> {
        self.order()
            .chunks(self.options.batch_size)
            .filter(|chunk| !self.options.drop_last || chunk.len() == self.options.batch_size)
            .map(|chunk| chunk.iter().map(|&i| self.dataset.get(i)).collect())
            .collect()
    }

    fn order(&self) -> Vec<usize> {
        match self.options.shuffle {
            Some(seed) => shuffled_indices(self.dataset.len(), seed),
            None => (0..self.dataset.len()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{check_index, Sample, ToyDataset};

    /// A data set of `0..n`, so that a batch shows which items it holds.
    struct Numbers(usize);

    impl Dataset for Numbers {
        type Item = usize;

        fn len(&self) -> usize {
            self.0
        }

        fn get(&self, index: usize) -> Result<usize, Error> {
            check_index(index, self.0)?;
            Ok(index)
        }
    }

    fn sizes<T>(batches: &[Vec<T>]) -> Vec<usize> {
        batches.iter().map(Vec::len).collect()
    }

    fn toy_batches(config: &str) -> Vec<Vec<Sample>> {
        let options = Options::named(config, 42).unwrap();
        let loader = Loader::new(&ToyDataset, options).unwrap();
        loader.batches().unwrap()
    }

    fn number_batches(len: usize, batch_size: usize, drop_last: bool) -> Vec<Vec<usize>> {
        let options = Options {
            batch_size,
            shuffle: None,
            drop_last,
        };
        let numbers = Numbers(len);
        Loader::new(&numbers, options).unwrap().batches().unwrap()
    }

    #[test]
    fn named_configurations_have_their_batch_sizes() {
        let cases: [(&str, &[usize]); 5] = [
            ("sequential", &[4, 4, 2]),
            ("sequential_droplast", &[4, 4]),
            ("shuffled_seeded", &[4, 4, 2]),
            ("shuffled_droplast", &[4, 4]),
            ("batch_size_3", &[3, 3, 3, 1]),
        ];
        for (config, expected) in cases {
            assert_eq!(sizes(&toy_batches(config)), expected, "{config}");
        }
        assert_eq!(Options::named("sequentia", 42), None);
    }

    #[test]
    fn borders_fall_where_the_batch_size_says() {
        let cases: [(usize, usize, bool, &[usize]); 6] = [
            (0, 4, false, &[]),
            (8, 4, true, &[4, 4]),
            (9, 4, false, &[4, 4, 1]),
            (3, 4, false, &[3]),
            (3, 4, true, &[]),
            (2, 1, true, &[1, 1]),
        ];
        for (len, size, drop_last, expected) in cases {
            assert_eq!(sizes(&number_batches(len, size, drop_last)), expected);
        }
    }

    #[test]
    fn sequential_items_keep_their_order() {
        let items: Vec<usize> = number_batches(10, 3, false).concat();
        assert_eq!(items, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn shuffled_items_are_all_there_in_another_order() {
        let plain = toy_batches("sequential").concat();
        let mixed = toy_batches("shuffled_seeded").concat();
        assert_ne!(plain, mixed);
        assert!(plain.iter().all(|item| mixed.contains(item)));
    }

    #[test]
    fn batch_size_zero_is_refused() {
        let options = Options {
            batch_size: 0,
            shuffle: None,
            drop_last: false,
        };
        let error = Loader::new(&ToyDataset, options).unwrap_err();
        assert!(matches!(error, Error::ZeroBatchSize));
    }
}
