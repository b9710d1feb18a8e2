//! The models of `model-traces-v1`, as a port's author writes them; each keeps its stages.

mod bag;
mod cnn;
mod decoder;
mod encoder;
mod lstm;
mod mixer;
mod mlp;

use crate::array::Array;
use crate::attend::{attend, join_heads};
use crate::linear::linear;
use crate::normalize::layer_norm;
use crate::run::Run;
use demo_serialize::error::{Refusal, Result};

/// Runs the case of this name, and keeps all of its stages.
///
/// # Errors
/// For a case that is not supported, and where the trace lacks an input or a parameter.
pub fn compute(case: &str, run: &mut Run) -> Result<()> {
    match case {
        "mlp" => mlp::forward(run),
        "mlp-train-sgd" => mlp::train(run, mlp::Optimizer::Sgd),
        "mlp-train-adamw" => mlp::train(run, mlp::Optimizer::Adam { decoupled: true }),
        "mlp-train-adam" => mlp::train(run, mlp::Optimizer::Adam { decoupled: false }),
        "cnn" => cnn::forward(run),
        "encoder" => encoder::forward(run),
        "decoder" => decoder::forward(run),
        "lstm" => lstm::forward(run),
        "bag" => bag::forward(run),
        "mixer" => mixer::forward(run),
        _ => Err(Refusal::new(format!("not supported: {case}"))),
    }
}

/// Computes the linear layer `name`, with a bias where the trace has one, and keeps its output.
fn run_linear(run: &mut Run, name: &str, x: &Array) -> Result<Array> {
    let weight = run.get(&format!("{name}.weight"))?;
    let bias = run.get(&format!("{name}.bias")).ok();
    let output = linear(x, &weight, bias.as_ref());
    Ok(run.keep(format!("{name}/linear"), output))
}

/// Computes attention over heads, keeps its output, and returns it with the heads joined.
fn run_attention(run: &mut Run, heads: [&Array; 3], mask: Option<&Array>) -> Array {
    let [query, key, value] = heads;
    let output = attend(query, key, value, mask);
    join_heads(&run.keep("scaled_dot_product_attention", output))
}

/// Computes the layer norm `name`, and keeps its output under the name of the stage.
fn run_layer_norm(run: &mut Run, name: &str, stage: &str, x: &Array) -> Result<Array> {
    let weight = run.get(&format!("{name}.weight"))?;
    let bias = run.get(&format!("{name}.bias"))?;
    Ok(run.keep(stage, layer_norm(x, &weight, &bias, 1e-5)))
}
