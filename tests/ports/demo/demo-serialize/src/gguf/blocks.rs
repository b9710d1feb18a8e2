//! Blocks of 32 elements with one f16 scale `d`, and a minimum `m` in the `_1` types.
//!
//! Byte `i` of the codes holds element `i` in its low half and element `i + 16` in its high
//! half. Products and sums are rounded one after the other in f32, as gguf-py does it.

use crate::scalar::f16_to_f32;

/// The f16 that stands at byte `at` of a block.
pub(super) fn half(block: &[u8], at: usize) -> f32 {
    f16_to_f32(u16::from_le_bytes([block[at], block[at + 1]]))
}

/// Element `index` of 32 four-bit codes.
pub(super) fn nibble(codes: &[u8], index: usize) -> u8 {
    codes[index % 16] >> (4 * (index / 16)) & 0x0f
}

/// Element `index` of 32 codes whose fifth bits stand apart, lowest first.
fn five_bits(high: &[u8], codes: &[u8], index: usize) -> u8 {
    nibble(codes, index) | (high[index / 8] >> (index % 8) & 1) << 4
}

/// `d, codes[16]`: d · (q - 8).
pub(super) fn q4_0(block: &[u8], out: &mut [f32]) {
    let d = half(block, 0);
    for (index, value) in out.iter_mut().enumerate() {
        *value = d * (f32::from(nibble(&block[2..], index)) - 8.0);
    }
}

/// `d, m, codes[16]`: d · q + m.
pub(super) fn q4_1(block: &[u8], out: &mut [f32]) {
    let (d, m) = (half(block, 0), half(block, 2));
    for (index, value) in out.iter_mut().enumerate() {
        *value = d * f32::from(nibble(&block[4..], index)) + m;
    }
}

/// `d, high[4], codes[16]`: d · (q - 16).
pub(super) fn q5_0(block: &[u8], out: &mut [f32]) {
    let d = half(block, 0);
    for (index, value) in out.iter_mut().enumerate() {
        *value = d * (f32::from(five_bits(&block[2..6], &block[6..], index)) - 16.0);
    }
}

/// `d, m, high[4], codes[16]`: d · q + m.
pub(super) fn q5_1(block: &[u8], out: &mut [f32]) {
    let (d, m) = (half(block, 0), half(block, 2));
    for (index, value) in out.iter_mut().enumerate() {
        *value = d * f32::from(five_bits(&block[4..8], &block[8..], index)) + m;
    }
}

/// `d, codes[32]`, the codes signed: d · q.
pub(super) fn q8_0(block: &[u8], out: &mut [f32]) {
    let d = half(block, 0);
    for (value, &code) in out.iter_mut().zip(&block[2..]) {
        *value = d * f32::from(i8::from_le_bytes([code]));
    }
}
