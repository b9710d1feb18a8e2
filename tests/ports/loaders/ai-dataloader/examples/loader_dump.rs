//! The batches of ai-dataloader's loaders: `indexable`, or `iterable` with `--kind iterable`.
//!
//! Its shuffle takes no seed: with one, a case with a shuffle is not supported. It has threads for
//! an indexable data set, no ranks, and no state that can be saved.

#[path = "../../harness.rs"]
mod harness;

use std::process::ExitCode;

use ai_dataloader::collate::NoOpCollate;
use ai_dataloader::{indexable, iterable};

use harness::{not_supported, run, Delivery, Record, Result, Settings};

type Item = (i64, f32, f32);

fn main() -> ExitCode {
    run(deliver)
}

fn deliver(settings: &Settings) -> Result<Delivery> {
    if settings.policy() == "pad" {
        return not_supported("this policy");
    }
    if !settings.is_shuffled() {
        // They change nothing.
        (settings.number("--seed", 0_u64)?, settings.number("--epoch", 0_u64)?);
    }
    let start = settings.number("--start-batch", 0)?;
    let items = settings.records().iter().map(|r| (r.id, r.x, r.y)).collect();
    let batches = match settings.text("--kind") {
        Some("iterable") => stream(settings, items),
        _ => index(settings, items)?,
    };
    let batches = batches.into_iter().skip(start).map(join).collect();
    Ok(Delivery { batches, ..Delivery::default() })
}

fn index(settings: &Settings, items: Vec<Item>) -> Result<Vec<Vec<Item>>> {
    let mut builder = indexable::DataLoader::builder(items)
        .batch_size(settings.batch_size())
        .num_threads(settings.number("--workers", 1)?)
        .collate_fn(NoOpCollate);
    if settings.policy() == "drop" {
        builder = builder.drop_last();
    }
    Ok(match settings.is_shuffled() {
        true => builder.shuffle().build().iter().collect(),
        false => builder.build().iter().collect(),
    })
}

fn stream(settings: &Settings, items: Vec<Item>) -> Vec<Vec<Item>> {
    let mut builder = iterable::DataLoader::builder(items)
        .batch_size(settings.batch_size())
        .collate_fn(NoOpCollate);
    if settings.policy() == "drop" {
        builder = builder.drop_last();
    }
    if settings.is_shuffled() {
        builder = builder.shuffle();
    }
    builder.build().into_iter().collect()
}

fn join(batch: Vec<Item>) -> Vec<Record> {
    batch.into_iter().map(|(id, x, y)| Record { id, x, y, draw: 0.0 }).collect()
}
