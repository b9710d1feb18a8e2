//! Numpy's `SeedSequence`: integers stirred into a pool of 128 bits.

const POOL: usize = 4;
const ENTROPY_START: u32 = 0x43b0_d7e5;
const ENTROPY_FACTOR: u32 = 0x931e_8875;
const STATE_START: u32 = 0x8b51_f9dd;
const STATE_FACTOR: u32 = 0x58f3_8ded;

/// Scrambles words with a running multiplier, so that the same word comes out
/// differently each time.
struct Hasher {
    running: u32,
    factor: u32,
}

impl Hasher {
    fn hash(&mut self, value: u32) -> u32 {
        let mixed = value ^ self.running;
        self.running = self.running.wrapping_mul(self.factor);
        let mixed = mixed.wrapping_mul(self.running);
        mixed ^ (mixed >> 16)
    }
}

fn mix(x: u32, y: u32) -> u32 {
    let x = x.wrapping_mul(0xca01_f9dd);
    let mixed = x.wrapping_sub(y.wrapping_mul(0x4973_f715));
    mixed ^ (mixed >> 16)
}

/// The pool from which a generator's first state is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedSequence {
    pool: [u32; POOL],
}

impl SeedSequence {
    /// Stirs in `entropy`, integer after integer.
    #[must_use]
    pub fn new(entropy: &[u128]) -> Self {
        let words: Vec<u32> = entropy.iter().flat_map(|&n| words_of(n)).collect();
        let mut hasher = Hasher {
            running: ENTROPY_START,
            factor: ENTROPY_FACTOR,
        };
        let first = |i: usize| words.get(i).copied().unwrap_or(0);
        let mut pool = [0, 1, 2, 3].map(|i| hasher.hash(first(i)));
        cross_mix(&mut pool, &mut hasher);
        for &word in words.iter().skip(POOL) {
            pool = pool.map(|slot| mix(slot, hasher.hash(word)));
        }
        Self { pool }
    }

    /// Eight words of state, paired low half first into 64-bit numbers.
    #[must_use]
    pub fn state(&self) -> [u64; 4] {
        let mut hasher = Hasher {
            running: STATE_START,
            factor: STATE_FACTOR,
        };
        let mut next = |i: usize| u64::from(hasher.hash(self.pool[i % POOL]));
        [0, 2, 4, 6].map(|i| next(i) | next(i + 1) << 32)
    }
}

/// Lets every word of the pool act on every other.
fn cross_mix(pool: &mut [u32; POOL], hasher: &mut Hasher) {
    for source in 0..POOL {
        for target in (0..POOL).filter(|&target| target != source) {
            pool[target] = mix(pool[target], hasher.hash(pool[source]));
        }
    }
}

/// The little-endian 32-bit words of a number, as few as it needs, at least one.
fn words_of(number: u128) -> Vec<u32> {
    let mut words = Vec::new();
    let mut rest = number;
    loop {
        #[allow(clippy::cast_possible_truncation)] // the low word is what is wanted
        words.push(rest as u32);
        rest >>= 32;
        if rest == 0 {
            return words;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_and_state_are_the_recorded_ones() {
        let sequence = SeedSequence::new(&[17, 0]);
        let pool = [0xef3f_a155, 0xb380_a4f8, 0x0f06_1797, 0x9e34_f4c0];
        assert_eq!(sequence.pool, pool);
        assert_eq!(sequence.state()[0], 0x13be_eb3b_1cb8_25f0);
    }

    #[test]
    fn missing_words_count_as_zero() {
        assert_eq!(SeedSequence::new(&[17]), SeedSequence::new(&[17, 0]));
        assert_ne!(SeedSequence::new(&[17]), SeedSequence::new(&[17, 1]));
    }

    #[test]
    fn numbers_become_as_few_words_as_they_need() {
        let cases: [(u128, &[u32]); 4] = [
            (0, &[0]),
            (5 + (1 << 32), &[5, 1]),
            ((1 << 64) + 3, &[3, 0, 1]),
            (u128::MAX, &[u32::MAX; 4]),
        ];
        for (number, words) in cases {
            assert_eq!(words_of(number), words, "{number}");
        }
    }
}
