//! Files made by hand: what has to be read, and what has to be refused.

use super::*;

/// A file in the making: each part is what the format's document calls it.
#[derive(Clone)]
struct File {
    version: u32,
    keys: Vec<Vec<u8>>,
    infos: Vec<Vec<u8>>,
    alignment: usize,
    data: Vec<u8>,
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

fn key(name: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [&text(name)[..], &kind.to_le_bytes(), value].concat()
}

fn array(kind: u32, count: u64, items: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &count.to_le_bytes(), items].concat()
}

fn info(name: &str, dims: &[u64], code: u32, offset: u64) -> Vec<u8> {
    let mut out = text(name);
    out.extend(u32::try_from(dims.len()).unwrap().to_le_bytes());
    out.extend(dims.iter().flat_map(|dim| dim.to_le_bytes()));
    out.extend(code.to_le_bytes());
    out.extend(offset.to_le_bytes());
    out
}

impl File {
    /// `w`, F32, dimensions [2, 1], elements 1 and 2.
    fn new() -> Self {
        let data = [1.0_f32, 2.0].iter().flat_map(|value| value.to_le_bytes());
        Self {
            version: 3,
            keys: vec![],
            infos: vec![info("w", &[2, 1], 0, 0)],
            alignment: 32,
            data: data.collect(),
        }
    }

    fn with_key(mut self, key: Vec<u8>) -> Self {
        self.keys.push(key);
        self
    }

    fn with_infos(mut self, infos: &[Vec<u8>]) -> Self {
        self.infos = infos.to_vec();
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.infos.len() as u64).to_le_bytes());
        out.extend((self.keys.len() as u64).to_le_bytes());
        out.extend(self.keys.concat());
        out.extend(self.infos.concat());
        out.resize(out.len().next_multiple_of(self.alignment), 0);
        out.extend(&self.data);
        out
    }

    fn refusal(&self) -> String {
        let bytes = self.bytes();
        let outcome = Container::parse(&bytes);
        outcome
            .err()
            .map(|refusal| refusal.to_string())
            .unwrap_or_default()
    }

    fn read(&self, name: &str) -> Tensor {
        Container::parse(&self.bytes())
            .unwrap()
            .tensor(name)
            .unwrap()
    }
}

#[test]
fn dimensions_stay_in_the_order_in_which_they_are_stored() {
    for version in [2, 3] {
        let file = File {
            version,
            ..File::new()
        };
        assert_eq!(file.read("w").shape, [2, 1]);
        assert_eq!(file.read("w").data, [1.0, 2.0]);
    }
}

#[test]
fn metadata_of_every_type_is_passed_over() {
    let sizes = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
    let scalars = (0..13).filter(|kind| ![8, 9].contains(kind));
    let mut file = scalars.fold(File::new(), |file, kind| {
        file.with_key(key(
            &format!("k{kind}"),
            kind,
            &vec![1; sizes[kind as usize]],
        ))
    });
    let nested = array(
        9,
        2,
        &[array(0, 3, &[1; 3]), array(8, 1, &text("é"))].concat(),
    );
    file = file
        .with_key(key("text", 8, &text("x")))
        .with_key(key("nested", 9, &nested));
    file = file.with_key(key("bools", 9, &array(7, 3, &[0, 1, 0])));
    assert_eq!(file.read("w").data, [1.0, 2.0]);
}

#[test]
fn the_alignment_is_the_files_own() {
    for alignment in [8_u32, 16, 64] {
        let mut file = File::new().with_key(key("general.alignment", 4, &alignment.to_le_bytes()));
        file.alignment = alignment as usize;
        assert_eq!(file.read("w").data, [1.0, 2.0]);
    }
    for alignment in [0_u32, 3, 48, u32::MAX] {
        let file = File::new().with_key(key("general.alignment", 4, &alignment.to_le_bytes()));
        assert!(file.refusal().contains("power of two"), "{alignment}");
    }
    let file = File::new().with_key(key("general.alignment", 5, &[8, 0, 0, 0]));
    assert!(file.refusal().contains("u32"));
}

#[test]
fn tensors_may_lie_in_any_order_with_gaps() {
    let mut file = File::new().with_infos(&[info("b", &[1], 0, 64), info("a", &[1], 0, 0)]);
    file.data = [&[0, 0, 0, 0x40], &[0xff; 60][..], &[0, 0, 0x40, 0x40]].concat();
    assert_eq!(
        (file.read("a").data, file.read("b").data),
        (vec![2.0], vec![3.0])
    );
}

#[test]
fn versions_and_byte_orders_that_are_not_read_are_named() {
    let cases = [
        (1, "version 1"),
        (3 << 24, "big-endian"),
        (4, "unknown"),
        (0, "unknown"),
    ];
    for (version, words) in cases {
        let file = File {
            version,
            ..File::new()
        };
        assert!(file.refusal().contains(words), "{version}");
    }
}

#[test]
fn metadata_that_breaks_the_format_is_refused() {
    let deep = (0..50_000).fold(array(0, 0, &[]), |inner, _| inner);
    let deep = [array(9, 1, &[]).repeat(50_000), deep].concat();
    let cases = [
        key("k", 13, &[0; 8]),
        key("k", 7, &[2]),
        key("k", 8, &[0xff; 8]),
        key("k", 9, &array(99, 2, &[0; 8])),
        key("k", 9, &array(0, u64::MAX, &[])),
        key("k", 9, &array(12, 1 << 61, &[])),
        key("k", 9, &array(8, 1 << 60, &[])),
        key("k", 9, &deep),
        key("ké", 0, &[1]),
        [&[0xff; 8][..], &[0; 8]].concat(),
    ];
    for (index, case) in cases.into_iter().enumerate() {
        assert!(
            !File::new().with_key(case).refusal().is_empty(),
            "case {index}"
        );
    }
    let twice = File::new()
        .with_key(key("k", 0, &[1]))
        .with_key(key("k", 0, &[1]));
    assert!(twice.refusal().contains("twice"));
}

#[test]
fn infos_that_break_the_format_are_refused() {
    let cases = [
        vec![info("w", &[], 0, 0)],
        vec![info("w", &[1, 1, 1, 1, 1], 0, 0)],
        vec![info("w", &[3], 0, 0)],
        vec![info("w", &[1 << 62, 4], 0, 0)],
        vec![info("w", &[u64::MAX], 0, 0)],
        vec![info("w", &[2], 99, 0)],
        vec![info("w", &[2], 2, 0)],
        vec![info("w", &[1], 0, 4)],
        vec![info("w", &[1], 0, 32)],
        vec![info("w", &[1], 0, u64::MAX - 31)],
        vec![info("w", &[1], 0, 0), info("w", &[0], 0, 0)],
        vec![info("v", &[2], 0, 0), info("w", &[1], 0, 0)],
        vec![info(&"w".repeat(65), &[1], 0, 0)],
    ];
    for (index, infos) in cases.iter().enumerate() {
        assert!(
            !File::new().with_infos(infos).refusal().is_empty(),
            "case {index}"
        );
    }
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused() {
    let bytes = File::new().with_key(key("text", 8, &text("x"))).bytes();
    for length in 0..bytes.len() {
        assert!(Container::parse(&bytes[..length]).is_err(), "{length}");
    }
}

#[test]
fn counts_beyond_the_file_are_refused_before_they_are_used() {
    for (at, count) in [(8, 1 << 31), (8, u64::MAX), (16, 1 << 60), (16, u64::MAX)] {
        let mut bytes = File::new().bytes();
        bytes[at..at + 8].copy_from_slice(&u64::to_le_bytes(count));
        assert!(Container::parse(&bytes).is_err());
    }
}

#[test]
fn empty_tensors_and_empty_files_are_read() {
    let file = File::new().with_infos(&[info("e", &[0, 3], 0, 0)]);
    assert_eq!(file.read("e").shape, [0, 3]);
    let file = File::new().with_infos(&[]);
    assert_eq!(Container::parse(&file.bytes()).unwrap().names().count(), 0);
    assert!(Container::parse(&file.bytes())
        .unwrap()
        .tensor("w")
        .is_err());
}
