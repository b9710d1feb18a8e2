//! Headers made by hand: what has to be read, and what has to be refused.

use super::*;

fn file(header: &str, payload: &[u8]) -> Vec<u8> {
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.extend(payload);
    out
}

fn floats(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

const PAIR: &str = r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}"#;

#[test]
fn the_payload_may_start_anywhere() {
    for blanks in 0..8 {
        let header = format!("{PAIR}}}{}", " ".repeat(blanks));
        let read = read(&file(&header, &floats(&[1.0, 2.0]))).unwrap();
        assert_eq!(read[0].data, [1.0, 2.0]);
    }
}

#[test]
fn keys_may_be_in_another_order_than_the_data() {
    let header = r#"{"z":{"dtype":"F32","shape":[],"data_offsets":[4,8]},
        "a\u00e9":{"data_offsets":[8,8],"shape":[0,3],"dtype":"BF16"},
        "k":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},"__metadata__":{"format":"pt"}}"#;
    // The header begins with '{', so the line breaks inside are fine.
    let read = read(&file(header, &floats(&[0.0, 5.0]))).unwrap();
    let names: Vec<_> = read.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["k", "z", "aé"]);
    assert_eq!(
        (&read[0].data[..], &read[1].data[..]),
        (&[0.0][..], &[5.0][..])
    );
    assert_eq!(read[2].shape, [0, 3]);
}

#[test]
fn bf16_and_f16_are_told_apart() {
    for (dtype, second) in [("BF16", -2.5), ("F16", -2.0625)] {
        let header = format!(r#"{{"w":{{"dtype":"{dtype}","shape":[2],"data_offsets":[0,4]}}}}"#);
        let read = read(&file(&header, &[0x80, 0x3f, 0x20, 0xc0])).unwrap();
        assert_eq!(read[0].data[1..], [second]);
    }
}

#[test]
fn headers_that_break_a_rule_are_refused() {
    let entry = |dtype: &str, shape: &str, offsets: &str| {
        format!(r#"{{"k":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#)
    };
    let refused = [
        "[]".to_owned(),
        " {}".to_owned(),
        "{}".to_owned(), // the payload's eight bytes belong to nothing
        format!(r#"{PAIR},"__metadata__":{{"step":3}}}}"#),
        format!(r#"{PAIR},"w":{{"dtype":"F32","shape":[0],"data_offsets":[8,8]}}}}"#),
        format!(r#"{PAIR},"v":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}}}"#),
        format!(r#"{PAIR},"v":{{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}}}"#),
        entry("F32", "[1]", "[4,8]"),
        entry("F32", "[1]", "[0,4]"),
        entry("F32", "[3]", "[0,12]"),
        entry("F32", "[1000,1000]", "[0,8]"),
        entry("F32", "[2]", "[8,0]"),
        entry("F32", "[2]", "[0,8.0]"),
        entry("F32", "[2]", "[-8,0]"),
        entry("F32", "[-2]", "[0,8]"),
        entry("F32", "[2]", "[0]"),
        entry("F32", "[9223372036854775808,2]", "[0,8]"),
        entry("F32", "[4611686018427387906]", "[0,8]"),
        entry("F4", "[3]", "[0,8]"),
        entry("F12", "[2]", "[0,8]"),
        entry("C64", "[1]", "[0,8]"),
    ];
    for header in refused {
        assert!(read(&file(&header, &[0; 8])).is_err(), "{header}");
    }
}

#[test]
fn a_header_longer_than_the_file_is_refused_before_it_is_read() {
    for length in [100_000_001, 3, u64::MAX, 1 << 60] {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend(b"{}");
        assert!(read(&bytes).is_err(), "{length}");
    }
    assert!(read(b"version https://git-lfs.github.com/spec/v1\n").is_err());
    assert!(read(b"").is_err());
    assert!(read(&file("{}", b"")).is_ok());
}

#[test]
fn a_dtype_that_is_not_decoded_is_named() {
    let header = r#"{"k":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}}"#;
    let refusal = read(&file(header, &[0; 8])).unwrap_err().to_string();
    assert!(refusal.contains("C64"), "{refusal}");
}
