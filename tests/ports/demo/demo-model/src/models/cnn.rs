//! Two convolutions, the second in groups and dilated, with batch norm and all poolings.

use super::run_linear;
use crate::activate::leaky_relu;
use crate::array::Array;
use crate::convolve::{adaptive_avg_pool2d, avg_pool2d, conv2d, max_pool2d, Window};
use crate::loss::cross_entropy;
use crate::normalize::{batch_norm, BatchNorm};
use crate::run::Run;
use demo_serialize::error::Result;

const CONV1: Window = window(3, 1, 1, 1);
const POOL1: Window = window(3, 2, 1, 1);
const CONV2: Window = window(3, 1, 2, 2);
const POOL2: Window = window(2, 1, 1, 1);

const fn window(size: usize, stride: usize, padding: usize, dilation: usize) -> Window {
    Window {
        size,
        stride,
        padding,
        dilation,
    }
}

pub(super) fn forward(run: &mut Run) -> Result<()> {
    let (x, target) = (run.get("x")?, run.get("target")?);
    let hidden = run_conv(run, "conv1", &x, CONV1, 1)?;
    let hidden = run_norm(run, &hidden)?;
    let hidden = run.keep("leaky_relu", leaky_relu(&hidden, 0.05));
    let hidden = run.keep("pool1/max_pool2d", max_pool2d(&hidden, POOL1));
    let hidden = run_conv(run, "conv2", &hidden, CONV2, 2)?;
    let hidden = run.keep("pool2/avg_pool2d", avg_pool2d(&hidden, POOL2));
    let hidden = run.keep("pool3/adaptive_avg_pool2d", adaptive_avg_pool2d(&hidden, 2));
    let flat = hidden.reshape(&[hidden.shape[0], hidden.data.len() / hidden.shape[0]]);
    let output = run_linear(run, "fc", &flat)?;
    let loss = cross_entropy(&output, &target, None, 0.0);
    run.keep("cross_entropy_loss", loss);
    Ok(())
}

fn run_conv(run: &mut Run, name: &str, x: &Array, window: Window, groups: usize) -> Result<Array> {
    let weight = run.get(&format!("{name}.weight"))?;
    let bias = run.get(&format!("{name}.bias"))?;
    let output = conv2d(x, &weight, Some(&bias), window, groups);
    Ok(run.keep(format!("{name}/conv2d"), output))
}

fn run_norm(run: &mut Run, x: &Array) -> Result<Array> {
    let norm = BatchNorm {
        weight: &run.get("norm.weight")?,
        bias: &run.get("norm.bias")?,
        running_mean: &run.get("norm.running_mean")?,
        running_var: &run.get("norm.running_var")?,
    };
    Ok(run.keep("norm/batch_norm", batch_norm(x, &norm, 1e-5)))
}
