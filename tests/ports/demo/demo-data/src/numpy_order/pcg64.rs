//! Numpy's default bit generator, `PCG64` (XSL-RR, 128 bits of state).

use super::seed_sequence::SeedSequence;

const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

/// The generator, with the half of a draw that [`Pcg64::next_u32`] kept back.
#[derive(Clone, Debug)]
pub struct Pcg64 {
    state: u128,
    increment: u128,
    spare: Option<u32>,
}

impl Pcg64 {
    /// A generator seeded as numpy seeds it.
    #[must_use]
    pub fn new(seeds: &SeedSequence) -> Self {
        let [state_high, state_low, stream_high, stream_low] = seeds.state().map(u128::from);
        let stream = stream_high << 64 | stream_low;
        let mut generator = Self {
            state: 0,
            increment: stream << 1 | 1,
            spare: None,
        };
        generator.step();
        let start = state_high << 64 | state_low;
        generator.state = generator.state.wrapping_add(start);
        generator.step();
        generator
    }

    fn step(&mut self) {
        let product = self.state.wrapping_mul(MULTIPLIER);
        self.state = product.wrapping_add(self.increment);
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.step();
        let folded = low_half(self.state) ^ low_half(self.state >> 64);
        let turns = u32::from(self.state.to_be_bytes()[0] >> 2); // the top six bits
        folded.rotate_right(turns)
    }

    /// The next 32 bits: the low half of a 64-bit draw, then its high half.
    pub fn next_u32(&mut self) -> u32 {
        if let Some(high) = self.spare.take() {
            return high;
        }
        let draw = self.next_u64();
        self.spare = Some(low_word(draw >> 32));
        low_word(draw)
    }

    /// A uniformly distributed number from 0 to `max`, both included.
    ///
    /// Draws are masked and repeated until one fits, as numpy's shuffle does;
    /// its `integers` uses another method and would give another order.
    pub fn up_to(&mut self, max: usize) -> usize {
        if max == 0 {
            return 0; // numpy draws nothing here
        }
        let bound = max as u64;
        let mask = u64::MAX.checked_shr(bound.leading_zeros()).unwrap_or(0);
        loop {
            let draw = mask & self.draw_for(bound);
            match usize::try_from(draw) {
                Ok(value) if value <= max => return value,
                _ => {}
            }
        }
    }

    fn draw_for(&mut self, bound: u64) -> u64 {
        if bound > u64::from(u32::MAX) {
            self.next_u64()
        } else {
            u64::from(self.next_u32())
        }
    }
}

#[allow(clippy::cast_possible_truncation)] // the low bits are what is wanted
fn low_half(number: u128) -> u64 {
    number as u64
}

#[allow(clippy::cast_possible_truncation)] // the low bits are what is wanted
fn low_word(number: u64) -> u32 {
    number as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generator() -> Pcg64 {
        Pcg64::new(&SeedSequence::new(&[17, 0]))
    }

    #[test]
    fn seeding_gives_the_recorded_state() {
        let generator = generator();
        assert_eq!(generator.state, 0x9003_2ae9_301c_65d5_8fc8_e343_4980_b0a7);
        assert_eq!(
            generator.increment,
            0x3b53_2b59_957a_d40a_3b52_67c9_0781_bf85
        );
    }

    #[test]
    fn draws_are_the_recorded_ones() {
        let mut generator = generator();
        for expected in [
            0xd856_d255_bdaf_cc73,
            0x2935_8852_1b7a_b04b,
            0x8ec8_58be_753d_914a,
        ] {
            assert_eq!(generator.next_u64(), expected);
        }
    }

    #[test]
    fn halves_come_low_first() {
        let mut generator = generator();
        let drawn = [(); 3].map(|()| generator.next_u32());
        assert_eq!(drawn, [0xbdaf_cc73, 0xd856_d255, 0x1b7a_b04b]);
    }

    #[test]
    fn a_bound_of_zero_takes_no_draw() {
        let mut generator = generator();
        assert_eq!(generator.up_to(0), 0);
        assert_eq!(generator.next_u32(), 0xbdaf_cc73);
    }

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn bounds_beyond_32_bits_take_whole_draws() {
        // With every bit in the mask, the first draw fits.
        let wide = usize::try_from(generator().next_u64()).unwrap();
        assert_eq!(generator().up_to(usize::MAX), wide);
    }
}
