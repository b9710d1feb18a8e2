//! `[u64 length][JSON header][data]`.

use crate::{Content, Raw};
use std::fmt::Write;

/// The bytes of a file; the header is padded with blanks to a multiple of eight bytes.
///
/// Tensors of larger elements come first, so that each begins at a multiple of its element.
#[must_use]
pub fn encode(content: &Content) -> Vec<u8> {
    let mut tensors: Vec<&Raw> = content.tensors.iter().collect();
    tensors.sort_by_key(|raw| (std::cmp::Reverse(size(raw)), raw.name.clone()));
    let mut entries = Vec::new();
    if !content.metadata.is_empty() {
        let pairs = content.metadata.iter();
        let pairs: Vec<_> = pairs
            .map(|(key, value)| format!("{}:{}", quote(key), quote(value)))
            .collect();
        entries.push(format!("\"__metadata__\":{{{}}}", pairs.join(",")));
    }
    let mut data = Vec::new();
    for raw in tensors {
        let start = data.len();
        data.extend(&raw.data);
        entries.push(format!(
            "{}:{{\"dtype\":\"{}\",\"shape\":{:?},\"data_offsets\":[{start},{}]}}",
            quote(&raw.name),
            raw.dtype,
            raw.shape,
            data.len()
        ));
    }
    let mut header = format!("{{{}}}", entries.join(","));
    while header.len() % 8 != 0 {
        header.push(' ');
    }
    [
        &(header.len() as u64).to_le_bytes()[..],
        header.as_bytes(),
        &data,
    ]
    .concat()
}

/// Bytes of an element.
fn size(raw: &Raw) -> usize {
    raw.data.len() / raw.shape.iter().product::<usize>().max(1)
}

/// Two shards of about as many tensors, and the index that says which has which.
#[must_use]
pub fn encode_shards(content: &Content) -> Vec<(String, Vec<u8>)> {
    let (first, second) = content.tensors.split_at(content.tensors.len() / 2);
    let mut files = Vec::new();
    let mut places = Vec::new();
    for (number, tensors) in [first, second].into_iter().enumerate() {
        let name = format!("out-{:05}-of-00002.safetensors", number + 1);
        places.extend(
            tensors
                .iter()
                .map(|raw| format!("{}:{}", quote(&raw.name), quote(&name))),
        );
        let part = Content {
            tensors: tensors.to_vec(),
            metadata: content.metadata.clone(),
        };
        files.push((name, encode(&part)));
    }
    let total: usize = content.tensors.iter().map(|raw| raw.data.len()).sum();
    let index = format!(
        "{{\"metadata\":{{\"total_size\":{total}}},\"weight_map\":{{{}}}}}",
        places.join(",")
    );
    files.push(("out.safetensors.index.json".to_owned(), index.into_bytes()));
    files
}

/// A string as JSON has it.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            char if char < ' ' => write!(quoted, "\\u{:04x}", char as u32).unwrap_or_default(),
            char => quoted.push(char),
        }
    }
    quoted + "\""
}
