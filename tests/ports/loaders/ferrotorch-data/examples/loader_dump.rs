//! The batches of ferrotorch-data's `DataLoader`: a run of one epoch, with its own random numbers.
//!
//! `--workers` is its mode of whole batches a worker, `CrossBatch`; a rank has its
//! `DistributedSampler`. It has no state that can be saved, and pads no batch. A draw is where its
//! `RandomCrop` cuts a row of 2^16 numbers for an item.

#[path = "../../harness.rs"]
mod harness;

use std::process::ExitCode;
use std::sync::Arc;

use ferrotorch_core::creation::from_vec;
use ferrotorch_core::FerrotorchResult;
use ferrotorch_data::{
    manual_seed, DataLoader, DistributedSampler, MappedDataset, RandomCrop, Transform, VecDataset,
    WorkerMode,
};

use harness::{not_supported, run, Delivery, Record, Result, Settings};

const ROW: usize = 1 << 16;

fn main() -> ExitCode {
    run(deliver)
}

fn deliver(settings: &Settings) -> Result<Delivery> {
    if settings.policy() == "pad" || settings.is_named("trim") || settings.is_named("uneven") {
        return not_supported("this shortfall");
    }
    let (seed, epoch) = (settings.number("--seed", 0_u64)?, settings.number("--epoch", 0_usize)?);
    let (rank, world) = (settings.number("--rank", 0)?, settings.number("--world", 1)?);
    let start = settings.number("--start-batch", 0)?;
    let records = settings.records();
    let count = records.len();
    manual_seed(seed);
    let data = Arc::new(MappedDataset::new(VecDataset::new(records), draw));
    let mut loader = DataLoader::new(data, settings.batch_size())?
        .shuffle(settings.is_shuffled())
        .seed(seed)
        .drop_last(settings.policy() == "drop")
        .worker_mode(WorkerMode::CrossBatch)
        .num_workers(settings.number("--workers", 0)?);
    if world > 1 {
        let sampler =
            DistributedSampler::new(count, world, rank).shuffle(settings.is_shuffled()).seed(seed);
        loader = loader.with_sampler(Box::new(sampler));
    }
    let batches = loader.iter(epoch).skip(start).collect::<FerrotorchResult<_>>()?;
    Ok(Delivery { batches, stated: Some(loader.len() - start), has_draws: true })
}

/// Draw where to cut a row for an item, as an augmentation.
fn draw(record: Record) -> FerrotorchResult<Record> {
    let row = from_vec((0..ROW).map(|place| place as f32).collect(), &[1, ROW])?;
    let place = RandomCrop::<f32>::new(1, 1).apply(row)?.item()?;
    Ok(Record { draw: f64::from(place) / ROW as f64, ..record })
}
