//! Blocks made by hand. The expected numbers are gguf-py's (0.19).

use super::*;

#[test]
fn codes_are_distinct_and_sizes_whole() {
    for (index, kind) in KINDS.iter().enumerate() {
        assert!(KINDS[..index].iter().all(|other| other.code != kind.code));
        assert!(kind.bytes > 0 && kind.elements > 0);
    }
}

#[test]
fn lengths_that_overflow_are_refused() {
    let q4_0 = find(2).unwrap();
    assert_eq!(q4_0.byte_length(&[64, 3]), Ok(108));
    assert_eq!(q4_0.byte_length(&[0, 3]), Ok(0));
    assert!(q4_0.byte_length(&[33]).is_err());
    assert!(q4_0.byte_length(&[32, usize::MAX]).is_err());
    assert!(find(0).unwrap().byte_length(&[usize::MAX]).is_err());
    assert!(find(4).is_err());
}

/// f16 0.125, 0.25, 0.5 and -3.
const EIGHTH: [u8; 2] = [0x00, 0x30];
const QUARTER: [u8; 2] = [0x00, 0x34];
const HALF: [u8; 2] = [0x00, 0x38];
const MINUS_3: [u8; 2] = [0x00, 0xc2];

/// Bytes that differ from place to place: `factor · i + start` modulo 256.
fn ramp(count: usize, factor: usize, start: usize) -> Vec<u8> {
    let byte = |i: usize| (factor * i + start).to_le_bytes()[0];
    (0..count).map(byte).collect()
}

/// Sixteen codes: the low halves count up, the high halves count down.
fn crossed() -> Vec<u8> {
    (0..16).map(|i| i | (15 - i) << 4).collect()
}

/// First value, last value, and the sum in which element `i` counts `i + 1` times.
fn summary(code: u32, parts: &[&[u8]]) -> (f32, f32, f64) {
    let kind = find(code).unwrap();
    let values = kind.dequantize(&parts.concat()).unwrap();
    let weighted = (1..).map(f64::from).zip(&values);
    let sum = weighted
        .map(|(weight, &value)| weight * f64::from(value))
        .sum();
    (values[0], values[values.len() - 1], sum)
}

#[test]
fn blocks_of_32_elements() {
    let (codes, high) = (crossed(), [0x5a, 0x0f, 0xc3, 0x81]);
    assert_eq!(summary(2, &[&HALF, &codes]), (-4.0, -4.0, -132.0));
    assert_eq!(summary(3, &[&HALF, &MINUS_3, &codes]), (-3.0, -3.0, 396.0));
    assert_eq!(summary(6, &[&HALF, &high, &codes]), (-8.0, 0.0, -652.0));
    assert_eq!(
        summary(7, &[&HALF, &MINUS_3, &high, &codes]),
        (-3.0, 5.0, 1988.0)
    );
    assert_eq!(
        summary(8, &[&QUARTER, &ramp(32, 37, 11)]),
        (2.75, -30.5, -972.0)
    );
}

#[test]
fn k_quants_with_scales_and_codes_varied_everywhere() {
    let q2_scales: Vec<u8> = (0..16).map(|i| i << 4 | (15 - i)).collect();
    let q2 = [&q2_scales, &ramp(64, 1, 0), &HALF[..], &EIGHTH];
    assert_eq!(summary(10, &q2), (0.0, -1.875, 48668.0));
    let q3_scales = [
        0x1b, 0xe4, 0x27, 0xd8, 0x72, 0x8d, 0x39, 0xc6, 0xe4, 0x1b, 0x93, 0x6c,
    ];
    let q3 = [
        &ramp(32, 29, 7),
        &ramp(64, 37, 11),
        &q3_scales[..],
        &QUARTER,
    ];
    assert_eq!(summary(11, &q3), (-15.75, 0.0, 448.75));
    let (scales, codes, high) = (ramp(12, 29, 7), ramp(128, 37, 11), ramp(32, 53, 3));
    let q4 = [&HALF[..], &EIGHTH, &scales, &codes];
    assert_eq!(summary(12, &q4), (31.125, 59.5, 2_268_248.0));
    let q5 = [&HALF[..], &EIGHTH, &scales, &high, &codes];
    assert_eq!(summary(13, &q5), (87.125, 59.5, 4_782_512.0));
    let q6 = [&codes[..], &ramp(64, 53, 3), &ramp(16, 29, 7), &QUARTER];
    assert_eq!(summary(14, &q6), (47.25, 455.0, -365_675.0));
}

#[test]
fn a_type_without_a_decoder_is_named() {
    let refusal = find(16).unwrap().dequantize(&[0; 66]).unwrap_err();
    assert!(refusal.to_string().contains("IQ2_XXS"));
}
