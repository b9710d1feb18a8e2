//! A small seeded generator, and the shuffle it drives.

/// The `SplitMix64` generator: a counter that is scrambled on the way out.
///
/// It is not torch's generator, so a shuffled order is this port's own. That
/// is why shuffled cases are compared as sets.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// A generator whose output is a function of `seed` alone.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 uniformly distributed bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A uniformly distributed number from 0 to `max`, both included.
    ///
    /// Draws are masked to the bits of `max` and repeated until one fits, so
    /// that no number is more likely than another.
    fn up_to(&mut self, max: usize) -> usize {
        let mask = usize::MAX.checked_shr(max.leading_zeros()).unwrap_or(0) as u64;
        loop {
            match usize::try_from(self.next_u64() & mask) {
                Ok(value) if value <= max => return value,
                _ => {}
            }
        }
    }
}

/// The indices `0..len` in an order that is a function of `seed` and `len`.
#[must_use]
pub fn shuffled_indices(len: usize, seed: u64) -> Vec<usize> {
    let mut rng = SplitMix64::new(seed);
    let mut indices: Vec<usize> = (0..len).collect();
    for last in (1..len).rev() {
        indices.swap(last, rng.up_to(last));
    }
    indices
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published first outputs for seed 1234567.
    #[test]
    fn generator_gives_the_known_sequence() {
        let mut rng = SplitMix64::new(1_234_567);
        let drawn = [rng.next_u64(), rng.next_u64(), rng.next_u64()];
        assert_eq!(
            drawn,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn every_shuffle_is_a_permutation() {
        for len in [0, 1, 2, 10, 257] {
            let mut order = shuffled_indices(len, 42);
            order.sort_unstable();
            assert_eq!(order, (0..len).collect::<Vec<_>>());
        }
    }

    #[test]
    fn order_depends_on_the_seed_only() {
        assert_eq!(shuffled_indices(10, 42), shuffled_indices(10, 42));
        assert_ne!(shuffled_indices(10, 42), shuffled_indices(10, 43));
        assert_ne!(shuffled_indices(10, 42), (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn every_number_up_to_the_bound_is_drawn() {
        let mut rng = SplitMix64::new(7);
        let mut seen = [0_u32; 5];
        for _ in 0..1000 {
            seen[rng.up_to(4)] += 1;
        }
        assert!(seen.iter().all(|&count| count > 150), "{seen:?}");
        assert_eq!(rng.up_to(0), 0);
    }
}
