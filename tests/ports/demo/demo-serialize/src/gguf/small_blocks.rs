//! The block types that came after the K-quants and need no large table.

use super::blocks::{half, nibble};
use crate::scalar::small_float;

/// What the sixteen codes of the IQ4 types stand for.
const IQ4: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

/// Twice what the sixteen codes of E2M1 stand for (OCP MX).
const E2M1: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// `d, codes[16]`: d times a value of the table.
pub(super) fn iq4_nl(block: &[u8], out: &mut [f32]) {
    let d = half(block, 0);
    for (index, value) in out.iter_mut().enumerate() {
        *value = d * f32::from(IQ4[usize::from(nibble(&block[2..], index))]);
    }
}

/// `d, high[2], low[4], codes[128]`: a six-bit scale for each 32 elements, 32 stands for zero.
pub(super) fn iq4_xs(block: &[u8], out: &mut [f32]) {
    let d = half(block, 0);
    let high = u16::from_le_bytes([block[2], block[3]]);
    for (group, values) in out.chunks_exact_mut(32).enumerate() {
        let low = block[4 + group / 2] >> (4 * (group % 2)) & 0x0f;
        let high = f32::from(high >> (2 * group) & 3);
        let scale = d * (16.0 * high + f32::from(low) - 32.0);
        for (index, value) in values.iter_mut().enumerate() {
            let code = nibble(&block[8 + 16 * group..], index);
            *value = scale * f32::from(IQ4[usize::from(code)]);
        }
    }
}

/// `codes[48], high[4], d`: five digits of base 3 in a byte, read from its top by
/// multiplying with a power of 3 modulo 256; a digit less one is the element.
pub(super) fn tq1_0(block: &[u8], out: &mut [f32]) {
    let d = half(block, 52);
    let runs = [(0, 32, 0), (32, 16, 160), (48, 4, 240)];
    for (index, value) in out.iter_mut().enumerate() {
        let run = runs.iter().rev().find(|run| index >= run.2);
        let &(start, width, first) = run.unwrap_or(&runs[0]);
        let (digit, column) = ((index - first) / width, (index - first) % width);
        let shifted = block[start + column].wrapping_mul([1, 3, 9, 27, 81][digit]);
        *value = d * (f32::from((u16::from(shifted) * 3) >> 8) - 1.0);
    }
}

/// `codes[64], d`: two bits an element, less one.
pub(super) fn tq2_0(block: &[u8], out: &mut [f32]) {
    let d = half(block, 64);
    for (index, value) in out.iter_mut().enumerate() {
        let code = block[index / 128 * 32 + index % 32] >> (2 * (index / 32 % 4)) & 3;
        *value = d * (f32::from(code) - 1.0);
    }
}

/// `exponent, codes[16]`: 2^(exponent - 128) times a value of the table, which is doubled.
pub(super) fn mxfp4(block: &[u8], out: &mut [f32]) {
    let exponent = u32::from(block[0]);
    let bits = match exponent {
        0 | 1 => 0x0020_0000 << exponent,
        _ => (exponent - 1) << 23,
    };
    for (index, value) in out.iter_mut().enumerate() {
        *value = f32::from_bits(bits) * f32::from(E2M1[usize::from(nibble(&block[1..], index))]);
    }
}

/// `scales[4], codes[32]`: an E4M3 scale without a sign for each 16 elements, whose codes lie
/// in eight bytes; the scale with all its bits set stands for zero.
pub(super) fn nvfp4(block: &[u8], out: &mut [f32]) {
    for (group, values) in out.chunks_exact_mut(16).enumerate() {
        let scale = match block[group] {
            0x7f => 0.0,
            byte => 0.5 * small_float(byte & 0x7f, 3, 7),
        };
        let codes = &block[4 + 8 * group..];
        for (index, value) in values.iter_mut().enumerate() {
            let code = codes[index % 8] >> (4 * (index / 8)) & 0x0f;
            *value = scale * f32::from(E2M1[usize::from(code)]);
        }
    }
}
