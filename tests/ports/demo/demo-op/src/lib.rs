//! Operators, as a small port of `PyTorch` has them, for the op zoo.
//!
//! | module | does |
//! |---|---|
//! | [`tensor`] | floats of four dtypes with shape and strides, read from and written to safetensors |
//! | [`call`] | one call: its arguments, its inputs with their views, and why there is no result |
//! | [`ops`] | the operators, one match over their names |
//!
//! An operator, a dtype or an argument that is not here is `not supported`, never a wrong result.

pub mod call;
pub mod ops;
pub mod tensor;
