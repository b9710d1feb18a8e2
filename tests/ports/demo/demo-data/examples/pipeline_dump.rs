//! Dumps the batches that a named input pipeline delivers.
//!
//! `pipeline_dump --config CASE --seed S --epoch E --start-batch K
//! --output-dir DIR` writes `DIR/batch_NNNN.bin` from batch K of the epoch on,
//! each with the tensors id, x, y and mask of shape `[B]`, and `DIR/meta.json`
//! with what this port says of the run. It prints one JSON line.
//!
//! `--rank R --world W` runs one of W processes. `--workers N` builds batches
//! in N threads. `--save-state FILE --stop-after K` stops after K batches and
//! writes where to continue; `--load-state FILE` continues there, in place of
//! `--epoch` and `--start-batch`.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use demo_data::batch_file::write_batch;
use demo_data::cli::{finish, make_folder, Flags};
use demo_data::error::Error;
use demo_data::json::Object;
use demo_data::pipeline::{masked_mean, Batch, Config, Cursor, Pipeline, Records};

fn main() -> ExitCode {
    finish(run())
}

/// Does the dump; gives the line that says what was written.
fn run() -> Result<String, Error> {
    let known = [
        "--config",
        "--seed",
        "--epoch",
        "--start-batch",
        "--output-dir",
        "--rank",
        "--world",
        "--workers",
        "--save-state",
        "--stop-after",
        "--load-state",
    ];
    let flags = Flags::parse(std::env::args_os().skip(1), &known)?;
    let name = flags.text("--config")?;
    let config = Config::named(name)?;
    let (rank, world) = (
        flags.number_or("--rank", 0)?,
        flags.number_or("--world", 1)?,
    );
    let pipeline = Pipeline::new(Records::lesson()?, config)?
        .shard(rank, world)?
        .with_workers(flags.number_or("--workers", 0)?);
    let cursor = place(&flags, &pipeline)?;
    let mut batches = pipeline.batches_from(&cursor)?;
    batches.truncate(flags.number_or("--stop-after", usize::MAX)?);
    let folder = flags.path("--output-dir")?;
    let claims = claims(name, config, &pipeline, &cursor, &batches)?;
    write_all(&folder, &batches, &claims)?;
    if let Some(path) = flags.path_if("--save-state") {
        let state = pipeline.save(&pipeline.advance(&cursor, batches.len()));
        fs::write(&path, state).map_err(|source| Error::io(&path, source))?;
    }
    Ok(summary(name, &batches).line())
}

/// Where the run begins: as the flags say, or as the state that it loads.
fn place(flags: &Flags, pipeline: &Pipeline) -> Result<Cursor, Error> {
    let seed = flags.number("--seed")?;
    if let Some(path) = flags.path_if("--load-state") {
        let state = fs::read(&path).map_err(|source| Error::io(&path, source))?;
        return pipeline.load(&state, seed);
    }
    pipeline.cursor(
        seed,
        flags.number("--epoch")?,
        flags.number("--start-batch")?,
    )
}

/// What the line and `meta.json` have in common.
fn summary(name: &str, batches: &[Batch]) -> Object {
    let sizes: Vec<usize> = batches.iter().map(Batch::len).collect();
    Object::default()
        .text("name", name)
        .count("num_batches", sizes.len())
        .list("batch_sizes", &sizes)
}

/// The port's own account of the run, for a verifier to hold against the files.
fn claims(
    name: &str,
    config: Config,
    pipeline: &Pipeline,
    cursor: &Cursor,
    batches: &[Batch],
) -> Result<Object, Error> {
    let (seed, epoch) = (cursor.seed, cursor.epoch);
    let draws: Vec<&[f64]> = batches.iter().map(|batch| &batch.draws[..]).collect();
    Ok(summary(name, batches)
        .integer("seed", seed)
        .integer("epoch", epoch)
        .count("start_batch", cursor.position.div_ceil(cursor.batch_size))
        .count("batch_size", cursor.batch_size)
        .text("policy", config.policy.name())
        .list("order", &pipeline.ordered_ids(seed, epoch)?)
        .list("omitted_ids", &pipeline.omitted(seed, epoch)?)
        .text("fingerprint", &cursor.fingerprint)
        .number("masked_mean", masked_mean(batches))
        .list("draws", &draws.concat()))
}

fn write_all(folder: &Path, batches: &[Batch], claims: &Object) -> Result<(), Error> {
    make_folder(folder)?;
    for batch in batches {
        write_batch(folder, batch.number, &batch.tensors()?)?;
    }
    let path = folder.join("meta.json");
    fs::write(&path, claims.line() + "\n").map_err(|source| Error::io(&path, source))
}
