//! A stream made by hand.

use crate::pth::read;
use crate::pth::tests::{dict, pickle, tensor, text};

#[test]
fn a_legacy_stream_states_the_count_of_each_storage() {
    let magic = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    let one = pickle(&dict(&[("w", &tensor("FloatStorage", 3, 0, &[3], &[1]))]));
    let keys = pickle(&[b"](", &text("0")[..], b"e"].concat());
    let head = [
        magic,
        &b"\x80\x02M\xe9\x03."[..],
        b"\x80\x02}.",
        &one,
        &keys,
    ]
    .concat();
    let data = [0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x40, 0x40];
    let file = |count: u64, data: &[u8]| [&head[..], &count.to_le_bytes(), data].concat();
    assert_eq!(read(&file(3, &data)).unwrap()[0].data, [1.0, 2.0, 3.0]);
    assert!(read(&file(2, &data)).is_err());
    assert!(read(&file(u64::MAX / 2, &data)).is_err());
    assert!(read(&file(3, &data[..8])).is_err());
    assert!(read(&[file(3, &data), vec![0]].concat()).is_err());
}
