//! Writers of checkpoints, as a small port of `PyTorch` has them.
//!
//! | module | writes | source of the rules |
//! |---|---|---|
//! | [`safetensors`] | the safetensors format, also in shards | safetensors' README |
//! | [`npy`] | one array a file | NEP 1 |
//! | [`gguf`] | GGUF version 3 | ggml's `docs/gguf.md` |
//! | [`pth`] | the zip of `torch.save` | files of torch 2 |
//!
//! Tensors are bytes with a dtype and a shape: nothing is computed, so that nothing is rounded.

pub mod gguf;
pub mod npy;
pub mod pth;
pub mod read;
pub mod safetensors;

use demo_serialize::error::{Refusal, Result};
use std::collections::BTreeMap;

/// A tensor as its bytes, little-endian and row-major.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw {
    /// Its key.
    pub name: String,
    /// safetensors' name of the dtype, or GGUF's of a type of blocks.
    pub dtype: String,
    /// Its dimensions, the slowest first; empty for a scalar.
    pub shape: Vec<usize>,
    /// Its elements.
    pub data: Vec<u8>,
}

/// Text by key, as in `__metadata__` of a safetensors file.
pub type Metadata = BTreeMap<String, String>;

/// What a file contains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    /// In the order in which they are written.
    pub tensors: Vec<Raw>,
    /// Beside the tensors.
    pub metadata: Metadata,
}

/// The row of `table` that belongs to a dtype.
pub(crate) fn find<T: Copy>(table: &[(&str, T)], dtype: &str) -> Result<T> {
    let found = table.iter().find(|(name, _)| *name == dtype);
    found
        .map(|row| row.1)
        .ok_or_else(|| Refusal::new(format!("the format has no dtype {dtype}")))
}
