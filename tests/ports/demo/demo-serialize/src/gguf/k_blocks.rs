//! The K-quants: 256 elements with an f16 scale (and minimum), and sub-scales of 4, 6 or 8
//! bits for groups of 16 or 32 elements.
//!
//! A sub-scale is multiplied with the block's scale first, that product with the code, and the
//! minimum is subtracted last; each step rounds in f32, as gguf-py does it.

use super::blocks::half;

/// Two-bit code `index`: each run of 32 bytes holds four runs of 32 elements, lowest bits first.
fn two_bits(codes: &[u8], index: usize) -> u8 {
    let (run, shift) = (index / 128, 2 * (index / 32 % 4));
    codes[run * 32 + index % 32] >> shift & 3
}

/// Four-bit code `index`: each run of 32 bytes holds two runs of 32 elements, lowest bits first.
fn four_bits(codes: &[u8], index: usize) -> u8 {
    let (run, shift) = (index / 64, 4 * (index / 32 % 2));
    codes[run * 32 + index % 32] >> shift & 0x0f
}

/// One bit for element `index`: bit `index / 32` of byte `index % 32`.
fn one_bit(mask: &[u8], index: usize) -> u8 {
    mask[index % 32] >> (index / 32) & 1
}

/// `scales[16], codes[64], d, dmin`: a scale's low half scales, its high half is the minimum's.
pub(super) fn q2_k(block: &[u8], out: &mut [f32]) {
    let (d, dmin) = (half(block, 80), half(block, 82));
    for (index, value) in out.iter_mut().enumerate() {
        let scale = block[index / 16];
        let (scale, min) = (d * f32::from(scale & 0x0f), dmin * f32::from(scale >> 4));
        *value = scale * f32::from(two_bits(&block[16..80], index)) - min;
    }
}

/// Sub-scale `group` of `Q3_K`: four low bits in the first eight bytes (low halves are groups
/// 0 to 7, high halves 8 to 15), two high bits in the last four; 32 stands for zero.
fn q3_scale(scales: &[u8], group: usize) -> f32 {
    let low = scales[group % 8] >> (4 * (group / 8)) & 0x0f;
    let high = scales[8 + group % 4] >> (2 * (group / 4)) & 3;
    f32::from(low | high << 4) - 32.0
}

/// `mask[32], codes[64], scales[12], d`: four is taken off where the mask's bit is *not* set.
pub(super) fn q3_k(block: &[u8], out: &mut [f32]) {
    let d = half(block, 108);
    for (index, value) in out.iter_mut().enumerate() {
        let offset = 4.0 * f32::from(1 - one_bit(&block[..32], index));
        let code = f32::from(two_bits(&block[32..96], index)) - offset;
        *value = d * q3_scale(&block[96..108], index / 16) * code;
    }
}

/// Sub-scale and minimum `group` of `Q4_K` and `Q5_K`, six bits each in twelve bytes: groups 0 to 3
/// whole in bytes 0 to 3 and 4 to 7, whose top bits are those of groups 4 to 7; the low halves
/// of these are the halves of bytes 8 to 11.
fn scale_and_min(scales: &[u8], group: usize) -> (f32, f32) {
    let (scale, min) = (scales[group % 4], scales[4 + group % 4]);
    if group < 4 {
        return (f32::from(scale & 0x3f), f32::from(min & 0x3f));
    }
    let low = scales[4 + group];
    let scale = low & 0x0f | scale >> 2 & 0x30;
    let min = low >> 4 | min >> 2 & 0x30;
    (f32::from(scale), f32::from(min))
}

/// `d, dmin, scales[12], codes[128]`.
pub(super) fn q4_k(block: &[u8], out: &mut [f32]) {
    let (d, dmin) = (half(block, 0), half(block, 2));
    for (index, value) in out.iter_mut().enumerate() {
        let (scale, min) = scale_and_min(&block[4..16], index / 32);
        *value = d * scale * f32::from(four_bits(&block[16..], index)) - dmin * min;
    }
}

/// `d, dmin, scales[12], high[32], codes[128]`.
pub(super) fn q5_k(block: &[u8], out: &mut [f32]) {
    let (d, dmin) = (half(block, 0), half(block, 2));
    for (index, value) in out.iter_mut().enumerate() {
        let (scale, min) = scale_and_min(&block[4..16], index / 32);
        let code = four_bits(&block[48..], index) | one_bit(&block[16..48], index) << 4;
        *value = d * scale * f32::from(code) - dmin * min;
    }
}

/// `low[128], high[64], scales[16], d`: the scales are signed; each run of 64 low bytes holds
/// two runs of 64 elements.
pub(super) fn q6_k(block: &[u8], out: &mut [f32]) {
    let d = half(block, 208);
    for (index, value) in out.iter_mut().enumerate() {
        let low = block[index / 128 * 64 + index % 64] >> (4 * (index / 64 % 2)) & 0x0f;
        let code = low | two_bits(&block[128..192], index) << 4;
        let scale = i8::from_le_bytes([block[192 + index / 16]]);
        *value = d * f32::from(scale) * (f32::from(code) - 32.0);
    }
}
