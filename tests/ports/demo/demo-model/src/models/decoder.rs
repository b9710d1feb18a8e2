//! A block of a decoder: RMS norm, rotary embedding, four query heads on two, `SiLU` gate, causal.

use super::{run_attention, run_linear};
use crate::activate::silu;
use crate::array::Array;
use crate::attend::{causal_mask, split_heads, Rotary};
use crate::embed::embedding;
use crate::loss::cross_entropy;
use crate::normalize::rms_norm;
use crate::run::Run;
use demo_serialize::error::Result;

const HEADS: usize = 4;
const KEY_HEADS: usize = 2;
const ROTARY: Rotary = Rotary {
    base: 10_000.0,
    neighbours: false,
    first: 0,
};

pub(super) fn forward(run: &mut Run) -> Result<()> {
    let (tokens, target) = (run.get("tokens")?, run.get("target")?);
    let x = embedding(&tokens, &run.get("embed.weight")?);
    let x = run.keep("embed/embedding", x);
    let normed = run_norm(run, "norm1", &x)?;
    let query = split_heads(&run_linear(run, "q", &normed)?, HEADS);
    let key = split_heads(&run_linear(run, "k", &normed)?, KEY_HEADS);
    let value = split_heads(&run_linear(run, "v", &normed)?, KEY_HEADS);
    let query = run.keep("rotary", ROTARY.rotate(&query));
    let key = run.keep("rotary#2", ROTARY.rotate(&key));
    let mask = causal_mask(tokens.width());
    let mixed = run_attention(run, [&query, &key, &value], Some(&mask));
    let mixed = run_linear(run, "out", &mixed)?;
    let x = run.keep("add", x.add(&mixed));
    let normed = run_norm(run, "norm2", &x)?;
    let gate = run_linear(run, "gate", &normed)?;
    let gate = run.keep("silu", silu(&gate));
    let up = run_linear(run, "up", &normed)?;
    let hidden = run.keep("mul", gate.mul(&up));
    let hidden = run_linear(run, "down", &hidden)?;
    let x = run.keep("add#2", x.add(&hidden));
    let output = run_linear(run, "head", &x)?;
    let loss = cross_entropy(&output, &target, None, 0.0);
    run.keep("cross_entropy_loss", loss);
    Ok(())
}

fn run_norm(run: &mut Run, name: &str, x: &Array) -> Result<Array> {
    let weight = run.get(&format!("{name}.weight"))?;
    Ok(run.keep(format!("{name}/rms_norm"), rms_norm(x, &weight, 1e-6)))
}
