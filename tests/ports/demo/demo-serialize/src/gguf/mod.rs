//! GGUF: magic, version, metadata, tensor infos, padding, tensor data.
//!
//! Source of the rules: ggml's `docs/gguf.md`. Versions 2 and 3 are read, little-endian.
//! Tensor data starts at the next multiple of `general.alignment` (32 if not stated), and
//! each tensor's offset counts from there and is a multiple of it too. Dimensions are stored
//! fastest first; the data is row-major over the reversed dimensions.

mod blocks;
mod k_blocks;
mod kinds;
mod metadata;
mod small_blocks;

use crate::cursor::Cursor;
use crate::error::{refuse, Refusal, Result};
use crate::Tensor;
use kinds::Kind;
use std::collections::BTreeMap;

/// Bytes of the shortest tensor info: an empty name, one dimension, type, offset.
const SHORTEST_INFO: usize = 8 + 4 + 8 + 4 + 8;

/// Longest tensor name by the format's document.
const MAX_NAME: usize = 64;

/// A tensor's place in the file.
struct Info<'a> {
    kind: &'static Kind,
    dims: Vec<usize>,
    data: &'a [u8],
    begin: usize,
}

/// A GGUF file whose tensors are all placed and checked, and not yet decoded.
pub struct Container<'a> {
    infos: BTreeMap<String, Info<'a>>,
}

impl<'a> Container<'a> {
    /// Reads everything but the tensors' elements.
    ///
    /// # Errors
    /// For other versions and byte orders, counts and lengths beyond the file, unknown types,
    /// an alignment that is no power of two, duplicate keys or names, data that overlaps.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        check_version(&mut cursor)?;
        // Both counts come first; what follows bounds each of them when its turn comes.
        let tensors = cursor.u64("the tensor count")?;
        let keys = cursor.u64("the metadata count")?;
        let alignment = metadata::read(&mut cursor, keys)?;
        let count = cursor.bounded(tensors, SHORTEST_INFO, "the tensor infos")?;
        let raw = (0..count).map(|_| RawInfo::read(&mut cursor));
        let raw = raw.collect::<Result<Vec<_>>>()?;
        let start = cursor.position().checked_next_multiple_of(alignment);
        let start = start.ok_or_else(|| Refusal::new("the data starts past the end"))?;
        let section = bytes.get(start..).unwrap_or_default();
        Self::place(raw, section, alignment)
    }

    fn place(raw: Vec<RawInfo>, section: &'a [u8], alignment: usize) -> Result<Self> {
        let mut infos = BTreeMap::new();
        for raw in raw {
            let name = raw.name.clone();
            let info = raw.place(section, alignment);
            let info = info.map_err(|refusal| refusal.within(&format!("tensor {name:?}")))?;
            if infos.contains_key(&name) {
                return refuse(format!("tensor {name:?} occurs twice"));
            }
            infos.insert(name, info);
        }
        check_overlap(&infos)?;
        Ok(Self { infos })
    }

    /// The names of all tensors.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.infos.keys().map(String::as_str)
    }

    /// One tensor as it is stored: its type's number, its dimensions, fastest first, its bytes.
    #[must_use]
    pub fn raw(&self, name: &str) -> Option<(u32, &[usize], &[u8])> {
        let info = self.infos.get(name)?;
        Some((info.kind.code(), &info.dims, info.data))
    }

    /// Decodes one tensor to f32; its shape is in the file's own order, fastest first.
    ///
    /// # Errors
    /// Where there is no such tensor, and for types that have no decoder here.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let Some(info) = self.infos.get(name) else {
            return refuse(format!("there is no tensor {name:?}"));
        };
        let data = info.kind.dequantize(info.data);
        let data = data.map_err(|refusal| refusal.within(&format!("tensor {name:?}")))?;
        let (name, shape) = (name.to_owned(), info.dims.clone());
        Ok(Tensor { name, shape, data })
    }
}

/// A swapped 2 or 3 is a big-endian file: the magic does not tell.
fn check_version(cursor: &mut Cursor) -> Result<()> {
    if cursor.array("the magic")? != *b"GGUF" {
        return refuse("the file does not begin with GGUF");
    }
    match cursor.u32("the version")? {
        2 | 3 => Ok(()),
        1 => refuse("GGUF version 1 is not read: its counts have 32 bits"),
        version if (1..=3).contains(&version.swap_bytes()) => refuse(format!(
            "version {version} = {} with swapped bytes: a big-endian GGUF is not read",
            version.swap_bytes()
        )),
        version => refuse(format!("GGUF version {version} is unknown")),
    }
}

/// A tensor info as stored.
struct RawInfo {
    name: String,
    dims: Vec<u64>,
    code: u32,
    offset: u64,
}

impl RawInfo {
    fn read(cursor: &mut Cursor) -> Result<Self> {
        let name = metadata::text(cursor, "a tensor's name")?;
        if name.len() > MAX_NAME {
            return refuse(format!(
                "a tensor's name has {} bytes, {MAX_NAME} are allowed",
                name.len()
            ));
        }
        let count = cursor.u32("a tensor's dimension count")?;
        if !(1..=4).contains(&count) {
            return refuse(format!(
                "tensor {name:?} states {count} dimensions, not 1 to 4"
            ));
        }
        let dims = (0..count).map(|_| cursor.u64("a tensor's dimension"));
        let dims = dims.collect::<Result<Vec<_>>>()?;
        let code = cursor.u32("a tensor's type")?;
        let offset = cursor.u64("a tensor's offset")?;
        Ok(Self {
            name: name.to_owned(),
            dims,
            code,
            offset,
        })
    }

    fn place(self, section: &[u8], alignment: usize) -> Result<Info<'_>> {
        let kind = kinds::find(self.code)?;
        let dims = self.dims.iter().map(|&dim| usize::try_from(dim).ok());
        let dims = dims.collect::<Option<Vec<_>>>();
        let dims = dims.ok_or_else(|| Refusal::new("a dimension is too large"))?;
        let length = kind.byte_length(&dims)?;
        let begin = usize::try_from(self.offset).unwrap_or(usize::MAX);
        if begin % alignment != 0 {
            return refuse(format!(
                "offset {begin} is no multiple of the alignment {alignment}"
            ));
        }
        let data = begin
            .checked_add(length)
            .and_then(|end| section.get(begin..end));
        // An empty tensor may be the last one of a file that is not padded.
        let data = if length == 0 {
            Some(&section[..0])
        } else {
            data
        };
        let data = data.ok_or_else(|| {
            let size = section.len();
            Refusal::new(format!(
                "{length} bytes at offset {begin} lie past the end ({size})"
            ))
        })?;
        Ok(Info {
            kind,
            dims,
            data,
            begin,
        })
    }
}

fn check_overlap(infos: &BTreeMap<String, Info>) -> Result<()> {
    let mut ranges: Vec<_> = infos
        .iter()
        .filter(|(_, info)| !info.data.is_empty())
        .map(|(name, info)| (info.begin, info.begin + info.data.len(), name))
        .collect();
    ranges.sort_unstable();
    match ranges.windows(2).find(|pair| pair[1].0 < pair[0].1) {
        None => Ok(()),
        Some(pair) => refuse(format!(
            "tensors {:?} and {:?} share bytes",
            pair[0].2, pair[1].2
        )),
    }
}

#[cfg(test)]
mod tests;
