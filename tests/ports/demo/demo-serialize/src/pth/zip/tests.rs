//! Archives made by hand: what torch writes, and what it never would.

use crate::pth::read;
use crate::pth::tests::{pickle, zip_of};

#[test]
fn zips_of_another_kind_are_refused() {
    let good = pickle(b"}");
    let version: (&str, &[u8]) = ("a/version", b"3");
    let cases: [&[(&str, &[u8])]; 10] = [
        &[version],
        &[("a/data.pkl", &good)],
        &[("a/data.pkl", &good), ("a/version", b"11")],
        &[("a/data.pkl", &good), ("a/version", b"")],
        &[("a/data.pkl", &good), version, ("b/data.pkl", &good)],
        &[("a/data.pkl", &good), version, ("a/data.pkl", &good)],
        &[("a/data.pkl", &good), version, ("a/constants.pkl", &good)],
        &[("a/data.pkl", &good), version, ("/etc/x", b"")],
        &[("a/data.pkl", &good), version, ("../x", b"")],
        &[("a/data.pkl", &good), version, ("c:x", b"")],
    ];
    for (index, case) in cases.iter().enumerate() {
        assert!(read(&zip_of(case)).is_err(), "case {index}");
    }
}

#[test]
fn a_zip_that_is_cut_or_changed_is_refused_by_name() {
    let bytes = zip_of(&[("a/data.pkl", &pickle(b"}")), ("a/version", b"3")]);
    assert!(read(&bytes).is_ok());
    for length in 0..bytes.len() {
        assert!(read(&bytes[..length]).is_err(), "{length}");
    }
    let central = bytes
        .windows(4)
        .position(|window| window == b"PK\x01\x02")
        .unwrap();
    for (at, value, word) in [(10, 8, "deflated"), (10, 12, "method"), (8, 1, "encrypted")] {
        let mut changed = bytes.clone();
        changed[central + at] = value;
        assert!(
            read(&changed).unwrap_err().to_string().contains(word),
            "{word}"
        );
    }
}
