//! The order that numpy draws for an epoch.
//!
//! [`permutation`] gives what Python gets from
//! `numpy.random.default_rng(SeedSequence([seed, epoch])).permutation(n)`, so
//! that a run in Rust and a run in Python go through the data alike. The
//! order is a function of seed, epoch and n: nothing is kept between epochs.

mod pcg64;
mod seed_sequence;

pub use pcg64::Pcg64;
pub use seed_sequence::SeedSequence;

/// The numbers `0..len` in numpy's order for `seed` and `epoch`.
#[must_use]
pub fn permutation(seed: u128, epoch: u128, len: usize) -> Vec<usize> {
    let mut generator = Pcg64::new(&SeedSequence::new(&[seed, epoch]));
    let mut order: Vec<usize> = (0..len).collect();
    for last in (1..len).rev() {
        order.swap(last, generator.up_to(last));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Drawn with numpy 2.4.6.
    #[test]
    fn eleven_records_are_ordered_as_numpy_orders_them() {
        let cases: [(u128, u128, [usize; 11]); 5] = [
            (17, 0, [9, 10, 4, 1, 0, 7, 6, 8, 2, 5, 3]),
            (17, 1, [4, 0, 5, 10, 6, 2, 1, 9, 7, 3, 8]),
            (18, 0, [9, 5, 0, 2, 6, 7, 4, 8, 1, 10, 3]),
            ((1 << 64) + 3, 2, [8, 7, 5, 9, 0, 10, 4, 1, 6, 3, 2]),
            (u128::MAX, (1 << 64) + 1, [4, 6, 7, 10, 1, 0, 5, 8, 3, 9, 2]),
        ];
        for (seed, epoch, expected) in cases {
            assert_eq!(permutation(seed, epoch, 11), expected, "{seed} {epoch}");
        }
    }

    #[test]
    fn short_lists_need_no_draw() {
        assert_eq!(permutation(17, 0, 0), []);
        assert_eq!(permutation(17, 0, 1), [0]);
    }

    /// Seeds whose words run together are one seed to numpy too.
    #[test]
    fn entropy_words_have_no_border_between_integers() {
        let (wide_seed, wide_epoch) = (5 + (1 << 32), 1 + (7 << 32));
        assert_eq!(
            permutation(wide_seed, 7, 11),
            permutation(5, wide_epoch, 11)
        );
    }

    #[test]
    fn long_orders_are_permutations() {
        let mut order = permutation(u128::MAX, u128::MAX, 1000);
        order.sort_unstable();
        assert_eq!(order, (0..1000).collect::<Vec<_>>());
    }
}
