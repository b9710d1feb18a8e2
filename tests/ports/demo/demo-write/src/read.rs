//! What a writer is given: the tensors of a file, as bytes where its format has them so.

use crate::{gguf, npy, Content, Metadata, Raw};
use demo_serialize::error::{Refusal, Result};
use demo_serialize::json::{self, Json};
use demo_serialize::{pth, Tensor};
use std::path::Path;

/// Reads a file by its suffix.
///
/// # Errors
/// Where it cannot be read, with the reason.
pub fn read(path: &Path) -> Result<Content> {
    let bytes = std::fs::read(path).map_err(|error| Refusal::new(error.to_string()))?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let suffix = path.extension().unwrap_or_default().to_string_lossy();
    match &*suffix {
        "npy" => Ok(Content {
            tensors: vec![npy::decode(&stem, &bytes)?],
            metadata: Metadata::new(),
        }),
        "gguf" => read_gguf(&bytes),
        "pth" => Ok(Content {
            tensors: pth::read(&bytes)?.into_iter().map(widen).collect(),
            metadata: Metadata::new(),
        }),
        _ => read_safetensors(&bytes).ok_or_else(|| Refusal::new("this is not a safetensors file")),
    }
}

fn widen(tensor: Tensor) -> Raw {
    let Tensor { name, shape, data } = tensor;
    Raw {
        name,
        dtype: "F32".to_owned(),
        shape,
        data: data.into_iter().flat_map(f32::to_le_bytes).collect(),
    }
}

/// The blocks of a GGUF file as they are.
fn read_gguf(bytes: &[u8]) -> Result<Content> {
    let container = demo_serialize::gguf::Container::parse(bytes)?;
    let mut tensors = Vec::new();
    for name in container.names() {
        let Some((code, dims, data)) = container.raw(name) else {
            continue;
        };
        let kind = gguf::KINDS.iter().find(|row| row.1 == code);
        let kind = kind.ok_or_else(|| Refusal::new(format!("the type {code} is not written")))?;
        tensors.push(Raw {
            name: name.to_owned(),
            dtype: kind.0.to_owned(),
            shape: dims.iter().rev().copied().collect(),
            data: data.to_vec(),
        });
    }
    let metadata = [
        ("general.architecture", "test"),
        ("general.quantization_version", "uint32 2"),
    ];
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Ok(Content {
        tensors,
        metadata: metadata.into(),
    })
}

fn read_safetensors(bytes: &[u8]) -> Option<Content> {
    let length = usize::try_from(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?)).ok()?;
    let header = bytes.get(8..8_usize.checked_add(length)?)?;
    let data = &bytes[8 + length..];
    let Json::Object(members) = json::parse(header).ok()? else {
        return None;
    };
    let mut content = Content::default();
    let mut placed = Vec::new();
    for (name, entry) in members {
        let Json::Object(entry) = entry else {
            return None;
        };
        if name == "__metadata__" {
            content.metadata = entry.into_iter().map(text).collect::<Option<_>>()?;
            continue;
        }
        let Json::Text(dtype) = entry.get("dtype")? else {
            return None;
        };
        let (shape, offsets) = (
            counts(entry.get("shape")?)?,
            counts(entry.get("data_offsets")?)?,
        );
        let [start, end] = offsets[..] else {
            return None;
        };
        let raw = Raw {
            name,
            dtype: dtype.clone(),
            shape,
            data: data.get(start..end)?.to_vec(),
        };
        placed.push((start, raw));
    }
    placed.sort_by_key(|one| one.0);
    content.tensors = placed.into_iter().map(|one| one.1).collect();
    Some(content)
}

fn text((key, value): (String, Json)) -> Option<(String, String)> {
    match value {
        Json::Text(value) => Some((key, value)),
        _ => None,
    }
}

fn counts(value: &Json) -> Option<Vec<usize>> {
    let Json::Array(items) = value else {
        return None;
    };
    let count = |item: &Json| match item {
        Json::Integer(value) => usize::try_from(*value).ok(),
        _ => None,
    };
    items.iter().map(count).collect()
}
