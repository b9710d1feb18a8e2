//! The tensor types of GGUF: their codes, block sizes, and decoders.

use super::{blocks, k_blocks, small_blocks};
use crate::bin::element_count;
use crate::error::{refuse, Refusal, Result};
use crate::scalar::Dtype;

/// Fills one block's elements from one block's bytes.
type Decoder = fn(&[u8], &mut [f32]);

/// How a type's bytes become f32.
enum Decode {
    /// Each element stands alone.
    Plain(Dtype),
    /// Elements share what stands in their block.
    Block(Decoder),
    /// The size is known, so that the file's layout can be checked, and no more.
    Unread,
}

/// A tensor type: `bytes` hold `elements`.
pub(super) struct Kind {
    code: u32,
    name: &'static str,
    elements: usize,
    bytes: usize,
    decode: Decode,
}

const fn plain(code: u32, name: &'static str, bytes: usize, dtype: Dtype) -> Kind {
    let decode = Decode::Plain(dtype);
    Kind {
        code,
        name,
        elements: 1,
        bytes,
        decode,
    }
}

const fn block(
    code: u32,
    name: &'static str,
    elements: usize,
    bytes: usize,
    fill: Decoder,
) -> Kind {
    let decode = Decode::Block(fill);
    Kind {
        code,
        name,
        elements,
        bytes,
        decode,
    }
}

const fn unread(code: u32, name: &'static str, elements: usize, bytes: usize) -> Kind {
    let decode = Decode::Unread;
    Kind {
        code,
        name,
        elements,
        bytes,
        decode,
    }
}

/// Codes and sizes as in ggml's `ggml.h` and gguf-py's `constants.py`.
static KINDS: [Kind; 34] = [
    plain(0, "F32", 4, Dtype::F32),
    plain(1, "F16", 2, Dtype::F16),
    block(2, "Q4_0", 32, 18, blocks::q4_0),
    block(3, "Q4_1", 32, 20, blocks::q4_1),
    block(6, "Q5_0", 32, 22, blocks::q5_0),
    block(7, "Q5_1", 32, 24, blocks::q5_1),
    block(8, "Q8_0", 32, 34, blocks::q8_0),
    unread(9, "Q8_1", 32, 40),
    block(10, "Q2_K", 256, 84, k_blocks::q2_k),
    block(11, "Q3_K", 256, 110, k_blocks::q3_k),
    block(12, "Q4_K", 256, 144, k_blocks::q4_k),
    block(13, "Q5_K", 256, 176, k_blocks::q5_k),
    block(14, "Q6_K", 256, 210, k_blocks::q6_k),
    unread(15, "Q8_K", 256, 292),
    unread(16, "IQ2_XXS", 256, 66),
    unread(17, "IQ2_XS", 256, 74),
    unread(18, "IQ3_XXS", 256, 98),
    unread(19, "IQ1_S", 256, 50),
    block(20, "IQ4_NL", 32, 18, small_blocks::iq4_nl),
    unread(21, "IQ3_S", 256, 110),
    unread(22, "IQ2_S", 256, 82),
    block(23, "IQ4_XS", 256, 136, small_blocks::iq4_xs),
    plain(24, "I8", 1, Dtype::I8),
    plain(25, "I16", 2, Dtype::I16),
    plain(26, "I32", 4, Dtype::I32),
    plain(27, "I64", 8, Dtype::I64),
    plain(28, "F64", 8, Dtype::F64),
    unread(29, "IQ1_M", 256, 56),
    plain(30, "BF16", 2, Dtype::Bf16),
    block(34, "TQ1_0", 256, 54, small_blocks::tq1_0),
    block(35, "TQ2_0", 256, 66, small_blocks::tq2_0),
    block(39, "MXFP4", 32, 17, small_blocks::mxfp4),
    block(40, "NVFP4", 64, 36, small_blocks::nvfp4),
    unread(41, "Q1_0", 128, 18),
];

/// The type with this code.
pub(super) fn find(code: u32) -> Result<&'static Kind> {
    let found = KINDS.iter().find(|kind| kind.code == code);
    found.ok_or_else(|| Refusal::new(format!("type {code} is unknown")))
}

impl Kind {
    /// The type's number in a file.
    pub(super) fn code(&self) -> u32 {
        self.code
    }

    /// Bytes of a tensor with these dimensions, fastest first; a row is whole blocks.
    pub(super) fn byte_length(&self, dims: &[usize]) -> Result<usize> {
        let (name, elements) = (self.name, self.elements);
        if dims[0] % elements != 0 {
            return refuse(format!(
                "rows of {} are no whole blocks of {name} ({elements})",
                dims[0]
            ));
        }
        let length = (element_count(dims)? / elements).checked_mul(self.bytes);
        length.ok_or_else(|| Refusal::new(format!("dimensions {dims:?} overflow")))
    }

    /// The elements in `data`, which is whole blocks.
    pub(super) fn dequantize(&self, data: &[u8]) -> Result<Vec<f32>> {
        match self.decode {
            Decode::Plain(dtype) => Ok(dtype.decode(data, false)),
            Decode::Block(fill) => Ok(self.fill(data, fill)),
            Decode::Unread => refuse(format!("type {} is not decoded", self.name)),
        }
    }

    fn fill(&self, data: &[u8], fill: Decoder) -> Vec<f32> {
        let mut out = vec![0.0; data.len() / self.bytes * self.elements];
        let blocks = data.chunks_exact(self.bytes);
        for (block, values) in blocks.zip(out.chunks_exact_mut(self.elements)) {
            fill(block, values);
        }
        out
    }
}

#[cfg(test)]
mod tests;
