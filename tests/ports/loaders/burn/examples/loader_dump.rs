//! The batches of burn's `DataLoader`, with its own random numbers.
//!
//! An epoch is a call of `iter`, so that epoch E comes after E others. Ranks are the parts of
//! `split_dataloader`, for devices of one process. It leaves out or pads no batch, and has no state
//! that can be saved.

#[path = "../../harness.rs"]
mod harness;

use std::process::ExitCode;

use burn_core::data::dataloader::batcher::Batcher;
use burn_core::data::dataloader::split::split_dataloader;
use burn_core::data::dataloader::DataLoaderBuilder;
use burn_core::data::dataset::InMemDataset;
use burn_core::tensor::Device;

use harness::{not_supported, run, Delivery, Record, Result, Settings};

struct Records;

impl Batcher<Record, Vec<Record>> for Records {
    fn batch(&self, items: Vec<Record>, _device: &Device) -> Vec<Record> {
        items
    }
}

fn main() -> ExitCode {
    run(deliver)
}

fn deliver(settings: &Settings) -> Result<Delivery> {
    if settings.policy() == "pad" || settings.policy() == "drop" {
        return not_supported("this policy");
    }
    if settings.is_named("fill") || settings.is_named("trim") {
        return not_supported("this shortfall");
    }
    let (rank, world) = (settings.number("--rank", 0_usize)?, settings.number("--world", 1)?);
    let seed = settings.number("--seed", 0)?;
    let mut builder = DataLoaderBuilder::new(Records)
        .batch_size(settings.batch_size())
        .num_workers(settings.number("--workers", 0)?);
    if settings.is_shuffled() {
        builder = builder.shuffle(seed);
    }
    let loader = builder.build(InMemDataset::new(settings.records()));
    let devices = vec![Device::default(); world];
    let part = &split_dataloader(loader, &devices)[rank];
    for _ in 0..settings.number("--epoch", 0_u64)? {
        part.iter().for_each(drop);
    }
    let start = settings.number("--start-batch", 0)?;
    let batches = part.iter().skip(start).collect::<std::result::Result<_, _>>()?;
    Ok(Delivery { batches, ..Delivery::default() })
}
