//! Element types, and how each becomes an f32.
//!
//! f16, bf16 and the 8-bit floats widen exactly and a NaN stays a NaN. f64 and the wide
//! integers round once, to nearest, ties to even.

/// An element type whose bytes this crate can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dtype {
    /// One byte; any non-zero value is true.
    Bool,
    /// Unsigned, 8 bits.
    U8,
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 16 bits.
    I16,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 32 bits.
    I32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits.
    I64,
    /// IEEE binary16.
    F16,
    /// The upper half of an f32.
    Bf16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
    /// 4 exponent bits, bias 7, no infinities (OCP E4M3).
    F8E4m3,
    /// 5 exponent bits, bias 15: the upper half of an f16 (OCP E5M2).
    F8E5m2,
    /// An exponent alone, bias 127 (OCP MX scale).
    F8E8m0,
    /// 4 exponent bits, bias 8, one zero, one NaN, no infinities.
    F8E4m3Fnuz,
    /// 5 exponent bits, bias 16, one zero, one NaN, no infinities.
    F8E5m2Fnuz,
}

impl Dtype {
    /// Bytes of one element.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
            _ => 1,
        }
    }

    /// The elements that lie in `bytes`, most significant byte first if `big`.
    ///
    /// A last element that is cut short is left out: callers have checked the length.
    #[must_use]
    pub fn decode(self, bytes: &[u8], big: bool) -> Vec<f32> {
        let elements = bytes.chunks_exact(self.size());
        elements.map(|element| self.widen(element, big)).collect()
    }

    /// One element of [`Self::size`] bytes.
    #[must_use]
    pub fn widen(self, element: &[u8], big: bool) -> f32 {
        let join = |bits: u64, &byte: &u8| bits << 8 | u64::from(byte);
        if big {
            self.from_bits(element.iter().fold(0, join))
        } else {
            self.from_bits(element.iter().rev().fold(0, join))
        }
    }

    // Narrowing picks the element's own bits, and rounding to f32 is what the dump asks for.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_precision_loss,
        clippy::wrong_self_convention
    )]
    fn from_bits(self, bits: u64) -> f32 {
        match self {
            Self::Bool => f32::from(u8::from(bits != 0)),
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => bits as f32,
            Self::I8 => f32::from(bits as u8 as i8),
            Self::I16 => f32::from(bits as u16 as i16),
            Self::I32 => bits as u32 as i32 as f32,
            Self::I64 => bits as i64 as f32,
            Self::F16 => f16_to_f32(bits as u16),
            Self::Bf16 => bf16_to_f32(bits as u16),
            Self::F32 => f32::from_bits(bits as u32),
            Self::F64 => f64::from_bits(bits) as f32,
            Self::F8E4m3 => f8_e4m3_to_f32(bits as u8),
            Self::F8E5m2 => f16_to_f32((bits as u16) << 8),
            Self::F8E8m0 => f8_e8m0_to_f32(bits as u8),
            Self::F8E4m3Fnuz => f8_fnuz_to_f32(bits as u8, 3, 8),
            Self::F8E5m2Fnuz => f8_fnuz_to_f32(bits as u8, 2, 16),
        }
    }
}

/// Widens binary16 exactly; subnormals become normal, the payload of a NaN moves up.
#[must_use]
pub fn f16_to_f32(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let fraction = half & 0x03ff;
    let magnitude = match u32::from(half >> 10) & 0x1f {
        0 => (f32::from(fraction) * power_of_two(103)).to_bits(),
        0x1f => 0x7f80_0000 | u32::from(fraction) << 13,
        exponent => (exponent + 112) << 23 | u32::from(fraction) << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// Widens bfloat16 exactly: it is the upper half of an f32.
#[must_use]
pub fn bf16_to_f32(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

/// E4M3: all exponent and fraction bits set is a NaN, and there is no infinity.
fn f8_e4m3_to_f32(byte: u8) -> f32 {
    if byte & 0x7f == 0x7f {
        f32::NAN
    } else {
        small_float(byte, 3, 7)
    }
}

/// E8M0: a power of two from 2^-127 to 2^127; 255 is a NaN.
fn f8_e8m0_to_f32(byte: u8) -> f32 {
    match byte {
        0 => f32::from_bits(0x0040_0000),
        0xff => f32::NAN,
        exponent => power_of_two(u32::from(exponent)),
    }
}

/// The FNUZ forms: what would be a negative zero is the one NaN.
fn f8_fnuz_to_f32(byte: u8, fraction_bits: u32, bias: u32) -> f32 {
    if byte == 0x80 {
        f32::NAN
    } else {
        small_float(byte, fraction_bits, bias)
    }
}

/// Sign, exponent and fraction of a byte as a number; exact, since f32 is wider in both.
pub(crate) fn small_float(byte: u8, fraction_bits: u32, bias: u32) -> f32 {
    let exponent = u32::from(byte & 0x7f) >> fraction_bits;
    let fraction = byte & ((1 << fraction_bits) - 1);
    let implied = u8::from(exponent > 0) << fraction_bits;
    let scale = power_of_two(127 + exponent.max(1) - bias - fraction_bits);
    let magnitude = f32::from(fraction | implied) * scale;
    if byte & 0x80 == 0 {
        magnitude
    } else {
        -magnitude
    }
}

/// 2^(biased - 127), for biased exponents of normal numbers.
fn power_of_two(biased: u32) -> f32 {
    f32::from_bits(biased << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(dtype: Dtype, bytes: &[u8]) -> Vec<u32> {
        let values = dtype.decode(bytes, false);
        values.into_iter().map(f32::to_bits).collect()
    }

    #[test]
    fn halves_widen_exactly() {
        // 1, 2, the least subnormal, the greatest subnormal, -0, infinity
        let halves = [0x3c00, 0x4000, 0x0001, 0x03ff, 0x8000, 0x7c00];
        let wide = [
            0x3f80_0000_u32,
            0x4000_0000,
            0x3380_0000,
            0x387f_c000,
            0x8000_0000,
            0x7f80_0000,
        ];
        assert_eq!(halves.map(|half| f16_to_f32(half).to_bits()), wide);
    }

    #[test]
    fn a_nan_stays_a_nan() {
        for half in [0x7c01, 0x7e00, 0xfe01, 0xffff] {
            assert!(f16_to_f32(half).is_nan());
        }
        for half in [0x7f81, 0x7fa4, 0xffc0] {
            assert!(bf16_to_f32(half).is_nan());
        }
        for (dtype, byte) in [
            (Dtype::F8E4m3, 0xff),
            (Dtype::F8E5m2, 0x7d),
            (Dtype::F8E8m0, 0xff),
            (Dtype::F8E4m3Fnuz, 0x80),
            (Dtype::F8E5m2Fnuz, 0x80),
        ] {
            assert!(dtype.widen(&[byte], false).is_nan());
        }
    }

    #[test]
    fn bf16_is_not_read_as_f16() {
        let one_and_others = [0x80, 0x3f, 0x20, 0xc0, 0x49, 0x40];
        assert_eq!(
            Dtype::Bf16.decode(&one_and_others, false),
            [1.0, -2.5, 3.140_625]
        );
    }

    #[test]
    fn small_floats_at_their_limits() {
        assert_eq!(bits(Dtype::F8E4m3, &[0x7e, 0x01, 0x80]), {
            [448.0_f32, 0.001_953_125, -0.0].map(f32::to_bits)
        });
        assert_eq!(Dtype::F8E5m2.decode(&[0x7b, 0xfc], false), {
            [57344.0, f32::NEG_INFINITY]
        });
        assert_eq!(
            Dtype::F8E4m3Fnuz.decode(&[0x7f, 0xc0], false),
            [240.0, -1.0]
        );
        assert_eq!(
            Dtype::F8E5m2Fnuz.decode(&[0x7f, 0x40], false),
            [57344.0, 1.0]
        );
        assert_eq!(bits(Dtype::F8E8m0, &[0, 127, 254]), {
            [0x0040_0000, 0x3f80_0000, 0x7f00_0000]
        });
    }

    #[test]
    fn wide_numbers_round_once_ties_to_even() {
        let odd = (1_i64 << 24) + 1;
        assert_eq!(Dtype::I64.decode(&odd.to_le_bytes(), false), [16_777_216.0]);
        assert_eq!(
            Dtype::I64.decode(&(odd + 2).to_le_bytes(), false),
            [16_777_220.0]
        );
        assert_eq!(
            bits(Dtype::F64, &0.1_f64.to_le_bytes()),
            [0.1_f32.to_bits()]
        );
        assert_eq!(
            Dtype::F64.decode(&1e300_f64.to_le_bytes(), false),
            [f32::INFINITY]
        );
    }

    #[test]
    fn the_byte_order_is_that_of_an_element() {
        assert_eq!(
            Dtype::F32.decode(&[0x3f, 0x80, 0, 0, 0x40, 0, 0, 0], true),
            [1.0, 2.0]
        );
        assert_eq!(Dtype::I16.decode(&[0xff, 0xfe], true), [-2.0]);
        assert_eq!(Dtype::I16.decode(&[0xff, 0xfe], false), [-257.0]);
        assert_eq!(Dtype::Bool.decode(&[0, 1, 7], true), [0.0, 1.0, 1.0]);
    }
}
