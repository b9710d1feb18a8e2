//! A block of a transformer encoder, post-norm, with two heads and `GELU`.

use super::{run_attention, run_layer_norm, run_linear};
use crate::activate::gelu;
use crate::attend::split_heads;
use crate::loss::smooth_l1_loss;
use crate::run::Run;
use demo_serialize::error::Result;

const HEADS: usize = 2;

pub(super) fn forward(run: &mut Run) -> Result<()> {
    let (x, target) = (run.get("x")?, run.get("target")?);
    let mut heads = |name| Ok(split_heads(&run_linear(run, name, &x)?, HEADS));
    let (query, key, value) = (heads("q")?, heads("k")?, heads("v")?);
    let mixed = run_attention(run, [&query, &key, &value], None);
    let mixed = run_linear(run, "out", &mixed)?;
    let sum = run.keep("add", x.add(&mixed));
    let x = run_layer_norm(run, "norm1", "norm1/layer_norm", &sum)?;
    let hidden = run_linear(run, "fc1", &x)?;
    let hidden = run.keep("gelu", gelu(&hidden));
    let hidden = run_linear(run, "fc2", &hidden)?;
    let sum = run.keep("add#2", x.add(&hidden));
    let output = run_layer_norm(run, "norm2", "norm2/layer_norm", &sum)?;
    run.keep("smooth_l1_loss", smooth_l1_loss(&output, &target, 0.5));
    Ok(())
}
