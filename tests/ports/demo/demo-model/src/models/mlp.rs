//! Linear, `ReLU`, Linear, tanh, Linear, and the mean of squared errors; and its training.

use super::run_linear;
use crate::activate::relu;
use crate::array::{count, round, Array};
use crate::linear::{linear, linear_backward, relu_backward};
use crate::loss::mse_loss;
use crate::optimize::{Adam, Means, Sgd};
use crate::run::Run;
use demo_serialize::error::Result;

pub(super) fn forward(run: &mut Run) -> Result<()> {
    let (x, target) = (run.get("x")?, run.get("target")?);
    let hidden = run_linear(run, "fc1", &x)?;
    let hidden = run.keep("relu", relu(&hidden));
    let hidden = run_linear(run, "fc2", &hidden)?;
    let hidden = run.keep("tanh", hidden.map(f32::tanh));
    let output = run_linear(run, "fc3", &hidden)?;
    run.keep("mse_loss", mse_loss(&output, &target));
    Ok(())
}

const STEPS: i32 = 3;
const SGD: Sgd = Sgd {
    rate: 0.05,
    momentum: 0.9,
    dampening: 0.1,
    decay: 0.02,
};
const ADAM: Adam = Adam {
    rate: 0.01,
    betas: (0.8, 0.95),
    eps: 1e-3,
    decay: 0.05,
    decoupled: true,
};

/// The optimizers that the trace trains with.
#[derive(Clone, Copy)]
pub(super) enum Optimizer {
    Sgd,
    Adam { decoupled: bool },
}

/// A parameter and what the optimizer keeps of it.
struct Trained {
    name: String,
    value: Array,
    buffer: Option<Array>,
    means: Means,
}

pub(super) fn train(run: &mut Run, optimizer: Optimizer) -> Result<()> {
    let (x, target) = (run.get("x")?, run.get("target")?);
    let layers = ["fc1", "fc2", "fc3"].iter();
    let names = layers.flat_map(|layer| ["weight", "bias"].map(|kind| format!("{layer}.{kind}")));
    let start = names.map(|name| Ok(Trained::new(&name, run.get(&name)?)));
    let mut parameters = start.collect::<Result<Vec<_>>>()?;
    let mut losses = Vec::new();
    for number in 1..=STEPS {
        let values: Vec<&Array> = parameters.iter().map(|one| &one.value).collect();
        let (loss, gradients) = differentiate(&x, &target, &values);
        losses.extend(loss.data);
        for (parameter, gradient) in parameters.iter_mut().zip(gradients) {
            parameter.step(run, optimizer, number, gradient);
        }
    }
    run.keep("loss", Array::new(&[losses.len()], losses));
    Ok(())
}

/// Returns the loss, and its gradients in the order of the parameters.
fn differentiate(x: &Array, target: &Array, parameters: &[&Array]) -> (Array, Vec<Array>) {
    let layer = |number: usize, x: &Array| {
        linear(x, parameters[2 * number], Some(parameters[2 * number + 1]))
    };
    let first = layer(0, x);
    let rectified = relu(&first);
    let squashed = layer(1, &rectified).map(f32::tanh);
    let output = layer(2, &squashed);
    let share = 2.0 / count(output.data.len());
    let upstream = output.zip(target, |o, t| round(share * (f64::from(o) - f64::from(t))));
    let third = linear_backward(&squashed, parameters[4], &upstream);
    let upstream = squashed.zip(&third.input, |tanh, gradient| {
        (1.0 - tanh * tanh) * gradient
    });
    let second = linear_backward(&rectified, parameters[2], &upstream);
    let upstream = relu_backward(&first, &second.input);
    let first = linear_backward(x, parameters[0], &upstream);
    let gradients = [first, second, third].map(|layer| [layer.weight, layer.bias]);
    (mse_loss(&output, target), gradients.concat())
}

impl Trained {
    fn new(name: &str, value: Array) -> Self {
        let zeros = value.map(|_| 0.0);
        Self {
            name: name.to_owned(),
            value,
            buffer: None,
            means: Means {
                first: zeros.clone(),
                second: zeros,
            },
        }
    }

    /// Updates the parameter, and keeps its gradient, the optimizer's state, and itself.
    fn step(&mut self, run: &mut Run, optimizer: Optimizer, number: i32, gradient: Array) {
        let name = &self.name;
        let gradient = run.keep(format!("step_{number}/grad/{name}"), gradient);
        let mut keep = |key: &str, array: &Array| {
            run.keep(format!("step_{number}/{key}/{name}"), array.clone());
        };
        match optimizer {
            Optimizer::Sgd => {
                SGD.step(&mut self.value, &gradient, &mut self.buffer);
                if let Some(buffer) = &self.buffer {
                    keep("momentum_buffer", buffer);
                }
            }
            Optimizer::Adam { decoupled } => {
                let adam = Adam { decoupled, ..ADAM };
                adam.step(number, &mut self.value, &gradient, &mut self.means);
                keep("exp_avg", &self.means.first);
                keep("exp_avg_sq", &self.means.second);
            }
        }
        run.keep(format!("step_{number}/{name}"), self.value.clone());
    }
}
