//! The data side of the demo port: what its dump examples are built from.

pub mod batch_file;
pub mod cli;
pub mod dataset;
pub mod error;
pub mod json;
pub mod loader;
pub mod number;
pub mod numpy_order;
pub mod rng;
