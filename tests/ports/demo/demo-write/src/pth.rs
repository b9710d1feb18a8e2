//! The zip of `torch.save`: a pickle of protocol 2, and each storage as a member.

use crate::{Content, Raw};
use demo_serialize::error::{refuse, Result};

/// torch's storage class of a dtype, and torch's own name where it has no such class.
const STORAGES: [(&str, &str, &str); 19] = [
    ("F64", "DoubleStorage", ""),
    ("F32", "FloatStorage", ""),
    ("F16", "HalfStorage", ""),
    ("BF16", "BFloat16Storage", ""),
    ("I64", "LongStorage", ""),
    ("I32", "IntStorage", ""),
    ("I16", "ShortStorage", ""),
    ("I8", "CharStorage", ""),
    ("U8", "ByteStorage", ""),
    ("BOOL", "BoolStorage", ""),
    ("C64", "ComplexFloatStorage", ""),
    ("U16", "UntypedStorage", "uint16"),
    ("U32", "UntypedStorage", "uint32"),
    ("U64", "UntypedStorage", "uint64"),
    ("F8_E4M3", "UntypedStorage", "float8_e4m3fn"),
    ("F8_E5M2", "UntypedStorage", "float8_e5m2"),
    ("F8_E4M3FNUZ", "UntypedStorage", "float8_e4m3fnuz"),
    ("F8_E5M2FNUZ", "UntypedStorage", "float8_e5m2fnuz"),
    ("F8_E8M0", "UntypedStorage", "float8_e8m0fnu"),
];

/// The bytes of a file: a dict of the tensors, and of the metadata as text.
///
/// # Errors
/// For a dtype that torch does not have.
pub fn encode(content: &Content) -> Result<Vec<u8>> {
    let mut pickle = b"\x80\x02}(".to_vec();
    for (key, value) in &content.metadata {
        push_text(&mut pickle, key);
        push_text(&mut pickle, value);
    }
    for (number, raw) in content.tensors.iter().enumerate() {
        push_text(&mut pickle, &raw.name);
        push_tensor(&mut pickle, number, raw)?;
    }
    pickle.extend(b"u.");
    let mut zip = Zip::default();
    zip.push("out/data.pkl", &pickle);
    zip.push("out/byteorder", b"little");
    for (number, raw) in content.tensors.iter().enumerate() {
        zip.push(&format!("out/data/{number}"), &raw.data);
    }
    zip.push("out/version", b"3\n");
    Ok(zip.finish())
}

fn push_tensor(pickle: &mut Vec<u8>, number: usize, raw: &Raw) -> Result<()> {
    let found = STORAGES.iter().find(|row| row.0 == raw.dtype);
    let Some(&(_, class, own)) = found else {
        return refuse(format!("torch has no dtype {}", raw.dtype));
    };
    let count: usize = raw.shape.iter().product();
    let length = if own.is_empty() {
        count
    } else {
        raw.data.len()
    };
    let version = if own.is_empty() { 2 } else { 3 };
    pickle.extend(format!("ctorch._utils\n_rebuild_tensor_v{version}\n((").as_bytes());
    push_text(pickle, "storage");
    let module = if own.is_empty() {
        "torch"
    } else {
        "torch.storage"
    };
    pickle.extend(format!("c{module}\n{class}\n").as_bytes());
    push_text(pickle, &number.to_string());
    push_text(pickle, "cpu");
    push_integer(pickle, length);
    pickle.extend(b"tQ");
    push_integer(pickle, 0);
    push_tuple(pickle, &raw.shape);
    let strides = (1..=raw.shape.len()).map(|axis| raw.shape[axis..].iter().product());
    push_tuple(pickle, &strides.collect::<Vec<usize>>());
    pickle.extend(b"\x89ccollections\nOrderedDict\n)R");
    if !own.is_empty() {
        pickle.extend(format!("ctorch\n{own}\n").as_bytes());
    }
    pickle.extend(b"tR");
    Ok(())
}

fn push_text(pickle: &mut Vec<u8>, text: &str) {
    pickle.push(b'X');
    pickle.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
    pickle.extend(text.as_bytes());
}

/// BININT, or LONG1 of nine bytes where that is too narrow.
fn push_integer(pickle: &mut Vec<u8>, value: usize) {
    if let Ok(value) = i32::try_from(value) {
        pickle.push(b'J');
        pickle.extend(value.to_le_bytes());
        return;
    }
    pickle.extend(b"\x8a\x09");
    pickle.extend((value as u128).to_le_bytes().iter().take(9));
}

fn push_tuple(pickle: &mut Vec<u8>, values: &[usize]) {
    pickle.push(b'(');
    for &value in values {
        push_integer(pickle, value);
    }
    pickle.push(b't');
}

/// A zip of stored members, each of which begins at a multiple of 64 bytes.
#[derive(Default)]
struct Zip {
    file: Vec<u8>,
    directory: Vec<u8>,
    count: u16,
}

impl Zip {
    fn push(&mut self, name: &str, content: &[u8]) {
        let start = self.file.len() + 30 + name.len() + 4;
        let padding = start.next_multiple_of(64) - start;
        let length = u32::try_from(content.len())
            .unwrap_or(u32::MAX)
            .to_le_bytes();
        let mut head = Vec::new(); // What both headers have in common.
        head.extend([0, 0, 0, 0, 0, 0, 0x21, 0]); // Flags, method, time, and 1980-01-01
        head.extend(checksum(content).to_le_bytes());
        head.extend(length);
        head.extend(length);
        head.extend(u16::try_from(name.len()).unwrap_or(0).to_le_bytes());
        self.directory.extend(b"PK\x01\x02\0\0\0\0");
        self.directory.extend(&head);
        self.directory.extend([0; 12]);
        let offset = u32::try_from(self.file.len()).unwrap_or(u32::MAX);
        self.directory.extend(offset.to_le_bytes());
        self.directory.extend(name.as_bytes());
        self.file.extend(b"PK\x03\x04\0\0");
        self.file.extend(&head);
        let extra = u16::try_from(padding + 4).unwrap_or(0);
        self.file.extend(extra.to_le_bytes());
        self.file.extend(name.as_bytes());
        self.file.extend(b"FB");
        self.file.extend((extra - 4).to_le_bytes());
        self.file.resize(self.file.len() + padding, b'Z');
        self.file.extend(content);
        self.count += 1;
    }

    fn finish(mut self) -> Vec<u8> {
        let (start, length) = (self.file.len(), self.directory.len());
        self.file.extend(&self.directory);
        self.file.extend(b"PK\x05\x06\0\0\0\0");
        self.file.extend(self.count.to_le_bytes());
        self.file.extend(self.count.to_le_bytes());
        for value in [length, start] {
            self.file
                .extend(u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes());
        }
        self.file.extend([0, 0]);
        self.file
    }
}

/// CRC-32 of zip, bit by bit.
fn checksum(content: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for &byte in content {
        sum ^= u32::from(byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_one_of_the_catalogue() {
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
    }
}
