//! Strict JSON, and what is close to it.

use super::*;

#[test]
fn values_of_every_kind() {
    let text = br#" {"a": [1, -2, 1.5e3, true, null], "\u00e9\ud83d\ude00\n": "x"} "#;
    let Ok(Json::Object(members)) = parse(text) else {
        panic!("an object was expected")
    };
    assert_eq!(members["é😀\n"], Json::Text("x".into()));
    let Json::Array(items) = &members["a"] else {
        panic!("an array was expected")
    };
    assert_eq!(items[0], Json::Integer(1));
    assert_eq!(items[1..3], [Json::Number(-2.0), Json::Number(1500.0)]);
}

#[test]
fn what_is_not_strict_json_is_refused() {
    let refused: [&[u8]; 21] = [
        b"",
        b"{",
        b"[1,]",
        b"{\"a\":1,}",
        b"{\"a\":1,\"a\":2}",
        b"01",
        b"1.",
        b"-",
        b"1e",
        b"+1",
        b"nul",
        b"\"a",
        b"\"\\x\"",
        b"\"\\u12\"",
        b"\"\\ud800\"",
        b"\"\\ud800\\u0041\"",
        b"\"\x01\"",
        b"{} {}",
        b"\"\xff\"",
        b"\"\\",
        "\"\\u12é\"".as_bytes(),
    ];
    for text in refused {
        assert!(parse(text).is_err(), "{:?}", String::from_utf8_lossy(text));
    }
}

#[test]
fn deep_nesting_is_refused_not_followed() {
    for open in ["[", "{\"a\":"] {
        assert!(parse(open.repeat(100_000).as_bytes()).is_err());
    }
    assert!(parse(format!("{}{}", "[".repeat(17), "]".repeat(17)).as_bytes()).is_ok());
}

#[test]
fn integers_beyond_64_bits_are_no_offsets() {
    assert_eq!(parse(b"18446744073709551615"), Ok(Json::Integer(u64::MAX)));
    assert_eq!(
        parse(b"18446744073709551616"),
        Ok(Json::Number(18_446_744_073_709_551_616.0))
    );
}
