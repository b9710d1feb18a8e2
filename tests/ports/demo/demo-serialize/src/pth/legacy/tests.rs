//! A stream made by hand.

use crate::pth::read;
use crate::pth::tests::{dict, pickle, tensor, text};

#[test]
fn a_legacy_stream_states_the_count_of_each_storage() {
    let magic = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    let zipped = tensor("FloatStorage", 3, 0, &[3], &[1]);
    let at = zipped.windows(2).position(|pair| pair == b"tQ").unwrap();
    let viewed = [&zipped[..at], b"N", &zipped[at..]].concat();
    let keys = pickle(&[b"](", &text("0")[..], b"e"].concat());
    let head = |tensor: &[u8]| {
        let one = pickle(&dict(&[("w", tensor)]));
        let start = [&magic[..], b"\x80\x02M\xe9\x03.", b"\x80\x02}."].concat();
        [start, one, keys.clone()].concat()
    };
    let data = [0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x40, 0x40];
    let file = |count: u64, data: &[u8]| [&head(&viewed)[..], &count.to_le_bytes(), data].concat();
    assert_eq!(read(&file(3, &data)).unwrap()[0].data, [1.0, 2.0, 3.0]);
    let unviewed = [&head(&zipped)[..], &3_u64.to_le_bytes(), &data].concat();
    assert!(read(&unviewed).is_err(), "the id of a zip");
    assert!(read(&file(2, &data)).is_err());
    assert!(read(&file(u64::MAX / 2, &data)).is_err());
    assert!(read(&file(3, &data[..8])).is_err());
    assert!(read(&[file(3, &data), vec![0]].concat()).is_err());
}
