//! The data side of the demo port: a data loader and an input pipeline, with
//! the batch files that their dump examples leave for a verifier to read.
//!
//! Everything here is standard library only, so that the port builds with no
//! registry at hand. The two examples are the interface to the outside:
//! `dataloader_iterate_dump` walks [`loader::Loader`] over a toy data set and
//! `pipeline_dump` walks [`pipeline::Pipeline`] over eleven records.

pub mod batch_file;
pub mod cli;
pub mod dataset;
pub mod error;
pub mod json;
pub mod loader;
pub mod number;
pub mod numpy_order;
pub mod pipeline;
pub mod rng;
pub mod sha256;
