//! Layers and models, as a small port of `PyTorch` has them, for traces of models.
//!
//! | module | computes |
//! |---|---|
//! | [`array`] | reshaping and combining dense f32 arrays |
//! | [`linear`], [`convolve`], [`normalize`], [`activate`] | layers of feed-forward networks |
//! | [`attend`], [`recur`], [`embed`], [`loss`] | layers of sequence models, and losses |
//! | [`optimize`] | SGD with momentum, Adam and `AdamW` |
//! | [`models`] | the models of `model-traces-v1`, each with its stages |
//! | [`npy`], [`run`] | what a trace gives, and the stages that are dumped |
//!
//! Files are checked as they are read; arrays of a shape that a layer does not expect panic.

pub mod activate;
pub mod array;
pub mod attend;
pub mod convolve;
pub mod embed;
pub mod linear;
pub mod loss;
pub mod models;
pub mod normalize;
pub mod npy;
pub mod optimize;
pub mod recur;
pub mod run;
