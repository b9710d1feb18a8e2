//! Pickles and containers made by hand, one feature each.

use super::*;
use crate::Checkpoint;

/// Members with their names, as a zip without compression.
pub(super) fn zip_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in members {
        let size = u32::try_from(data.len()).unwrap().to_le_bytes();
        let length = u16::try_from(name.len()).unwrap().to_le_bytes();
        // Version, flags, method, time and checksum are all zero.
        let common = [&[0; 14][..], &size, &size, &length, &[0; 2]].concat();
        let offset = u32::try_from(out.len()).unwrap().to_le_bytes();
        directory.extend([b"PK\x01\x02\0\0", &common[..], &[0; 10], &offset].concat());
        directory.extend(name.as_bytes());
        out.extend([b"PK\x03\x04", &common[..], name.as_bytes(), data].concat());
    }
    let count = u16::try_from(members.len()).unwrap().to_le_bytes();
    let (size, offset) = (directory.len(), out.len());
    let numbers = [size, offset].map(|number| u32::try_from(number).unwrap().to_le_bytes());
    out.extend(directory);
    out.extend(
        [
            b"PK\x05\x06\0\0\0\0",
            &count[..],
            &count,
            &numbers.concat(),
            &[0; 2],
        ]
        .concat(),
    );
    out
}

pub(super) fn short(number: usize) -> Vec<u8> {
    vec![op::BININT1, u8::try_from(number).unwrap()]
}

pub(super) fn tuple(items: &[Vec<u8>]) -> Vec<u8> {
    [b"(", &items.concat()[..], b"t"].concat()
}

pub(super) fn text(text: &str) -> Vec<u8> {
    [
        &[op::SHORT_BINUNICODE, u8::try_from(text.len()).unwrap()],
        text.as_bytes(),
    ]
    .concat()
}

fn global(module: &str, name: &str) -> Vec<u8> {
    format!("c{module}\n{name}\n").into_bytes()
}

/// A tensor on storage "0" of `stored` elements.
pub(super) fn tensor(
    class: &str,
    stored: usize,
    offset: usize,
    shape: &[usize],
    strides: &[usize],
) -> Vec<u8> {
    let counts =
        |counts: &[usize]| tuple(&counts.iter().map(|&count| short(count)).collect::<Vec<_>>());
    let id = [
        text("storage"),
        global("torch", class),
        text("0"),
        text("cpu"),
        short(stored),
    ];
    let storage = [&tuple(&id)[..], b"Q"].concat();
    let hooks = [&global("collections", "OrderedDict")[..], b")R"].concat();
    let flag = vec![op::NEWFALSE];
    let args = [
        storage,
        short(offset),
        counts(shape),
        counts(strides),
        flag,
        hooks,
    ];
    [
        &global("torch._utils", "_rebuild_tensor_v2")[..],
        &tuple(&args),
        b"R",
    ]
    .concat()
}

pub(super) fn dict(pairs: &[(&str, &[u8])]) -> Vec<u8> {
    let items = pairs
        .iter()
        .map(|(key, value)| [&text(key)[..], *value].concat());
    [b"}(", &items.collect::<Vec<_>>().concat()[..], b"u"].concat()
}

pub(super) fn pickle(value: &[u8]) -> Vec<u8> {
    [&[op::PROTO, 2], value, b"."].concat()
}

fn checkpoint_of(pickle: &[u8], storage: &[u8], order: &[u8]) -> Result<Checkpoint> {
    read(&zip_of(&[
        ("a/data.pkl", pickle),
        ("a/byteorder", order),
        ("a/data/0", storage),
        ("a/version", b"3\n"),
    ]))
}

/// One tensor "w" on the storage 0, 1, 2, 3, 4, 5 of f32.
fn view(offset: usize, shape: &[usize], strides: &[usize]) -> Result<Vec<f32>> {
    let value = tensor("FloatStorage", 6, offset, shape, strides);
    let storage: Vec<u8> = (0..6_u8).flat_map(|i| f32::from(i).to_le_bytes()).collect();
    let read = checkpoint_of(&pickle(&dict(&[("w", &value)])), &storage, b"little")?;
    assert_eq!(read[0].shape, shape);
    Ok(read[0].data.clone())
}

#[test]
fn strides_and_offsets_are_followed() {
    assert_eq!(
        view(0, &[3, 2], &[1, 3]).unwrap(),
        [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    );
    assert_eq!(view(1, &[2, 2], &[3, 1]).unwrap(), [1.0, 2.0, 4.0, 5.0]);
    assert_eq!(view(5, &[2, 2], &[0, 0]).unwrap(), [5.0; 4]);
    assert_eq!(view(4, &[], &[]).unwrap(), [4.0]);
    assert_eq!(view(0, &[1, 1], &[200, 200]).unwrap(), [0.0]);
    assert!(view(200, &[0, 3], &[3, 1]).unwrap().is_empty());
}

#[test]
fn every_call_that_rebuilds_a_tensor_follows_its_strides() {
    let id = [
        text("storage"),
        global("torch", "FloatStorage"),
        text("0"),
        text("cpu"),
        short(6),
    ];
    let storage = [&tuple(&id)[..], b"Q"].concat();
    let pair = |first, second| tuple(&[short(first), short(second)]);
    let view = [storage, short(0), pair(3, 2), pair(1, 3)];
    let call = |function: &[u8], args: &[u8]| [function, args, b"R"].concat();
    let oldest = call(&global("torch._utils", "_rebuild_tensor"), &tuple(&view));
    let hooks = [&global("collections", "OrderedDict")[..], b")R"].concat();
    let more = [&view[..], &[vec![op::NEWFALSE], hooks]].concat();
    let from_type = |class: &[u8]| {
        let args = [
            global("torch._utils", "_rebuild_tensor_v2"),
            class.to_vec(),
            tuple(&more),
            b"}".to_vec(),
        ];
        let function = global("torch._tensor", "_rebuild_from_type_v2");
        call(&function, &tuple(&args))
    };
    let bytes: Vec<u8> = (0..6_u8).flat_map(|i| f32::from(i).to_le_bytes()).collect();
    for value in [oldest, from_type(&global("torch", "Tensor"))] {
        let read = checkpoint_of(&pickle(&dict(&[("w", &value)])), &bytes, b"little").unwrap();
        assert_eq!(read[0].data, [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    }
    let other = from_type(&global("torch", "Size"));
    assert!(checkpoint_of(&pickle(&dict(&[("w", &other)])), &bytes, b"little").is_err());
}

#[test]
fn views_beyond_the_storage_are_refused() {
    assert!(view(6, &[1], &[1]).is_err());
    assert!(view(6, &[], &[]).is_err());
    assert!(view(1, &[3, 2], &[1, 3]).is_err());
    assert!(view(0, &[2], &[6]).is_err());
    assert!(view(0, &[2, 2], &[1]).is_err());
    // 250 to the fourth power elements on one stored element
    assert!(view(0, &[250; 4], &[0; 4]).is_err());
}

#[test]
fn the_byte_order_record_is_followed() {
    let big: Vec<u8> = (0..4_u8).flat_map(|i| f32::from(i).to_be_bytes()).collect();
    let one = pickle(&dict(&[("w", &tensor("FloatStorage", 4, 0, &[4], &[1]))]));
    let read = checkpoint_of(&one, &big, b"big").unwrap();
    assert_eq!(read[0].data, [0.0, 1.0, 2.0, 3.0]);
    assert!(checkpoint_of(&one, &big, b"middle").is_err());
}

#[test]
fn the_dtype_is_that_of_the_storage_class() {
    for (class, expected) in [("HalfStorage", 2.0), ("BFloat16Storage", 2.0)] {
        let bytes = if class == "HalfStorage" {
            [0, 0x3c, 0, 0x40]
        } else {
            [0x80, 0x3f, 0, 0x40]
        };
        let one = pickle(&dict(&[("w", &tensor(class, 2, 0, &[2], &[1]))]));
        let read = checkpoint_of(&one, &bytes, b"little").unwrap();
        assert_eq!(read[0].data, [1.0, expected]);
    }
    let ints = pickle(&dict(&[("w", &tensor("LongStorage", 1, 0, &[], &[]))]));
    let read = checkpoint_of(&ints, &[3, 0, 0, 0, 0, 0, 0, 0], b"little").unwrap();
    assert_eq!(read[0].data, [3.0]);
    let complex = pickle(&dict(&[(
        "w",
        &tensor("ComplexFloatStorage", 1, 0, &[], &[]),
    )]));
    let refusal = checkpoint_of(&complex, &[0; 8], b"little").unwrap_err();
    assert!(refusal.to_string().contains("complex"));
}

#[test]
fn a_storage_has_to_be_as_long_as_declared() {
    let one = pickle(&dict(&[("w", &tensor("FloatStorage", 4, 0, &[4], &[1]))]));
    for length in [0, 8, 15, 17, 20] {
        assert!(
            checkpoint_of(&one, &vec![0; length], b"little").is_err(),
            "{length}"
        );
    }
}

#[test]
fn tensors_are_named_by_their_keys() {
    let w = tensor("FloatStorage", 1, 0, &[1], &[1]);
    let hidden = dict(&[("w", &w), ("b", &[op::NONE])]);
    let top = dict(&[("state_dict", &hidden), ("epoch", &short(1))]);
    let read = checkpoint_of(&pickle(&top), &[0; 4], b"little").unwrap();
    assert_eq!(read[0].name, "state_dict.w");
    let twins = dict(&[("a", &dict(&[("b", &w)])), ("a.b", &w)]);
    assert!(checkpoint_of(&pickle(&twins), &[0; 4], b"little").is_err());
    assert!(checkpoint_of(&pickle(&w), &[0; 4], b"little").is_err());
}

#[test]
fn an_ordered_dict_is_filled_after_it_is_made() {
    let w = tensor("FloatStorage", 1, 0, &[1], &[1]);
    let made = global("collections", "OrderedDict");
    let built = [
        &made[..],
        b")R(",
        &text("w"),
        &w,
        b"u}",
        &text("_metadata"),
        b"}sb",
    ]
    .concat();
    let read = checkpoint_of(&pickle(&built), &[0; 4], b"little").unwrap();
    assert_eq!(read.len(), 1);
    let pairs = [&made[..], b"](](", &text("w"), &w, b"ee\x85R"].concat();
    let read = checkpoint_of(&pickle(&pairs), &[0; 4], b"little").unwrap();
    assert_eq!(read[0].name, "w");
}

#[test]
fn pickles_that_are_no_checkpoints_are_refused() {
    let call = [&global("os", "system")[..], &text("true"), b"\x85R"].concat();
    let loops = [b"}q\0", &text("a")[..], b"h\0s"].concat();
    let shared = (0..40).fold(b"}".to_vec(), |inner, _| {
        [
            &inner[..],
            b"q\0}(",
            &text("a"),
            b"h\0",
            &text("b"),
            b"h\0u",
        ]
        .concat()
    });
    let cases: Vec<Vec<u8>> = vec![
        call,
        loops,
        shared,
        b"h\x07".to_vec(),
        b"y".to_vec(),
        b"(".to_vec(),
        b"".to_vec(),
        b"}}".to_vec(),
        b"}0".to_vec(),
        b"u".to_vec(),
        b"}(Nu".to_vec(),
        b")Q".to_vec(),
        b"N)R".to_vec(),
        b"}Nb".to_vec(),
        b"X\xff\xff\xff\xffab".to_vec(),
        b"\x95\xff\xff\xff\xff\xff\xff\xff\xff}".to_vec(),
        b"(".repeat(100_000),
        [b")".to_vec(), b"\x85".repeat(100_000)].concat(),
        [b"]".repeat(100_000), b"a".repeat(99_999)].concat(),
    ];
    for (index, case) in cases.iter().enumerate() {
        assert!(
            checkpoint_of(&pickle(case), &[], b"little").is_err(),
            "case {index}"
        );
    }
    assert!(checkpoint_of(&[op::PROTO, 6, b'}', b'.'], &[], b"little").is_err());
    assert!(checkpoint_of(&[pickle(b"}"), vec![0]].concat(), &[], b"little").is_err());
    assert!(checkpoint_of(&pickle(b"}"), &[], b"little").is_ok());
    // A memo index may be any number; nothing is reserved up to it.
    let far = pickle(b"}r\xff\xff\xff\xff");
    assert!(checkpoint_of(&far, &[], b"little").is_ok());
}

#[test]
fn other_containers_are_named() {
    let mut tar = vec![0; 512];
    tar[257..262].copy_from_slice(b"ustar");
    for (bytes, word) in [
        (&tar[..], "tar"),
        (b"", "container"),
        (b"\x80\x02}.", "magic"),
    ] {
        assert!(
            read(bytes).unwrap_err().to_string().contains(word),
            "{word}"
        );
    }
}
