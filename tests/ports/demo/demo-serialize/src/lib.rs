//! Readers of checkpoints and a writer of ONNX, as a small port of `PyTorch` has them.
//!
//! | module | reads or writes |
//! |---|---|
//! | [`pth`] | what `torch.save` writes: zip or legacy stream, pickle protocols 2 to 5 |
//! | [`safetensors`] | the safetensors format |
//! | [`gguf`] | GGUF v2 and v3, with the dequantisers of its block types |
//! | [`mlp`], [`onnx`] | a two-layer perceptron, and its ONNX export |
//! | [`dump`], [`cli`] | the dump contract: one `<key>.bin` per tensor |
//!
//! A file is never trusted: every count, length and offset is compared with the size of the
//! file before anything is reserved or repeated by it, and what does not fit is refused.

pub mod bin;
pub mod cli;
mod cursor;
pub mod dump;
pub mod error;
pub mod gguf;
pub mod json;
pub mod mlp;
pub mod names;
pub mod onnx;
mod protobuf;
pub mod pth;
pub mod safetensors;
pub mod scalar;

/// One tensor of a checkpoint, widened or rounded to f32.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Its key in the checkpoint.
    pub name: String,
    /// Its dimensions in the order of the dump's header; empty for a scalar.
    pub shape: Vec<usize>,
    /// Its elements, in row-major order of the checkpoint's own axes.
    pub data: Vec<f32>,
}

/// What a checkpoint holds, for a dump that knows f32 only.
pub type Checkpoint = Vec<Tensor>;
