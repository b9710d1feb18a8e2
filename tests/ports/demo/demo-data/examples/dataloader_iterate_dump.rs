//! Dumps the batches that a named data loader configuration yields.
//!
//! `dataloader_iterate_dump --config CASE [--seed S] --output-dir DIR` writes
//! `DIR/batch_NNNN.bin`, each with the tensors features `[B, 8]` and labels
//! `[B]`, and prints one JSON line.

use std::path::Path;
use std::process::ExitCode;

use demo_data::batch_file::{write_batch, Tensor};
use demo_data::cli::{finish, make_folder, Flags};
use demo_data::dataset::{Sample, ToyDataset, FEATURES};
use demo_data::error::Error;
use demo_data::json::Object;
use demo_data::loader::{Loader, Options};
use demo_data::number::exact_f32;

/// The seed of the reference, for a call that names none.
const DEFAULT_SEED: u64 = 42;

fn main() -> ExitCode {
    finish(run())
}

/// Does the dump; gives the line that says what was written.
fn run() -> Result<String, Error> {
    let known = ["--config", "--seed", "--output-dir"];
    let flags = Flags::parse(std::env::args_os().skip(1), &known)?;
    let config = flags.text("--config")?;
    let seed = flags.number_or("--seed", DEFAULT_SEED)?;
    let options = Options::named(config, seed)
        .ok_or_else(|| Error::Usage(format!("unknown configuration {config}")))?;
    let batches = Loader::new(&ToyDataset, options)?.batches()?;
    write_all(&flags.path("--output-dir")?, &batches)?;
    let sizes: Vec<usize> = batches.iter().map(Vec::len).collect();
    Ok(Object::default()
        .text("name", config)
        .count("num_batches", sizes.len())
        .list("batch_sizes", &sizes)
        .line())
}

fn write_all(folder: &Path, batches: &[Vec<Sample>]) -> Result<(), Error> {
    make_folder(folder)?;
    for (number, batch) in batches.iter().enumerate() {
        write_batch(folder, number, &tensors(batch)?)?;
    }
    Ok(())
}

/// Features `[B, 8]`, then labels `[B]`.
fn tensors(batch: &[Sample]) -> Result<[Tensor; 2], Error> {
    let features = batch.iter().flat_map(|sample| sample.features).collect();
    let labels: Result<Vec<f32>, Error> = batch.iter().map(|s| exact_f32(s.label)).collect();
    let features = Tensor::new(vec![batch.len(), FEATURES], features)?;
    Ok([features, Tensor::vector(labels?)])
}
