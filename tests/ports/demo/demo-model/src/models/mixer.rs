//! A rotary embedding of neighbours, an attention layer with its own projections, and layer norm.

use super::run_layer_norm;
use crate::array::Array;
use crate::attend::{attend, join_heads, split_heads, Rotary};
use crate::linear::linear;
use crate::run::Run;
use demo_serialize::error::Result;

const HEADS: usize = 2;
const ROTARY: Rotary = Rotary {
    base: 1000.0,
    neighbours: true,
    first: 1,
};

pub(super) fn forward(run: &mut Run) -> Result<()> {
    let (x, mask) = (run.get("x")?, run.get("mask")?);
    let x = run.keep("rotary", ROTARY.rotate(&x));
    let mixed = run_attention(run, &x, &mask)?;
    run_layer_norm(run, "norm", "norm", &mixed)?;
    Ok(())
}

/// Computes `MultiheadAttention`, whose projections of query, key and value are one array.
fn run_attention(run: &mut Run, x: &Array, mask: &Array) -> Result<Array> {
    let (weight, bias) = (
        run.get("attention.in_proj_weight")?,
        run.get("attention.in_proj_bias")?,
    );
    let projected = linear(x, &weight, Some(&bias));
    let part = |number: usize| {
        let width = x.width();
        let part = projected.map_rows(|row| row[number * width..(number + 1) * width].to_vec());
        split_heads(&part, HEADS)
    };
    let mixed = attend(&part(0), &part(1), &part(2), Some(mask));
    let (weight, bias) = (
        run.get("attention.out_proj.weight")?,
        run.get("attention.out_proj.bias")?,
    );
    let output = linear(&join_heads(&mixed), &weight, Some(&bias));
    Ok(run.keep("attention", output))
}
