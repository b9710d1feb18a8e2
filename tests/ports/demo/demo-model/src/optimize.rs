//! Optimizers, as `torch.optim` has them: one step of one parameter.

use crate::array::{round, Array};

/// Stochastic gradient descent with momentum.
#[derive(Debug, Clone, Copy)]
pub struct Sgd {
    /// Learning rate.
    pub rate: f32,
    /// Share of the buffer that stays.
    pub momentum: f32,
    /// Share of the gradient that does not enter the buffer, from the second step on.
    pub dampening: f32,
    /// Multiple of the parameter that is added to its gradient.
    pub decay: f32,
}

impl Sgd {
    /// Updates the parameter and its momentum buffer, which is None before the first step.
    pub fn step(&self, parameter: &mut Array, gradient: &Array, buffer: &mut Option<Array>) {
        let gradient = gradient.zip(parameter, |g, p| g + self.decay * p);
        let momentum = match buffer.take() {
            None => gradient,
            Some(old) => old.zip(&gradient, |old, g| {
                self.momentum * old + (1.0 - self.dampening) * g
            }),
        };
        *parameter = parameter.zip(&momentum, |p, m| p - self.rate * m);
        *buffer = Some(momentum);
    }
}

/// Adam; the weight decay is decoupled (`AdamW`) or part of the gradient.
#[derive(Debug, Clone, Copy)]
pub struct Adam {
    /// Learning rate.
    pub rate: f64,
    /// Shares of the two means that stay.
    pub betas: (f64, f64),
    /// Added to the root of the second mean.
    pub eps: f64,
    /// Weight decay.
    pub decay: f64,
    /// Whether the decay is decoupled.
    pub decoupled: bool,
}

/// The means of gradients and of their squares.
#[derive(Debug, Clone)]
pub struct Means {
    /// Of gradients.
    pub first: Array,
    /// Of their squares.
    pub second: Array,
}

impl Adam {
    /// Updates the parameter and its means in step `number`, which begins at 1.
    pub fn step(&self, number: i32, parameter: &mut Array, gradient: &Array, means: &mut Means) {
        let (one, two) = self.betas;
        let coupled = if self.decoupled { 0.0 } else { self.decay };
        let shrink = if self.decoupled {
            1.0 - self.rate * self.decay
        } else {
            1.0
        };
        let mix = |beta: f64, old: f32, new: f64| round(beta * f64::from(old) + (1.0 - beta) * new);
        let gradient = gradient.zip(parameter, |g, p| {
            round(f64::from(g) + coupled * f64::from(p))
        });
        means.first = means.first.zip(&gradient, |m, g| mix(one, m, f64::from(g)));
        means.second = means
            .second
            .zip(&gradient, |v, g| mix(two, v, f64::from(g).powi(2)));
        let (first, second) = (1.0 - one.powi(number), 1.0 - two.powi(number));
        let change = means.first.zip(&means.second, |m, v| {
            let root = (f64::from(v) / second).sqrt() + self.eps;
            round(self.rate * f64::from(m) / first / root)
        });
        *parameter = parameter.zip(&change, |p, c| round(f64::from(p) * shrink - f64::from(c)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_momentum_begins_with_the_first_gradient() {
        let sgd = Sgd {
            rate: 0.5,
            momentum: 0.5,
            dampening: 0.25,
            decay: 0.0,
        };
        let gradient = Array::new(&[1], vec![4.0]);
        let (mut parameter, mut buffer) = (Array::new(&[1], vec![10.0]), None);
        sgd.step(&mut parameter, &gradient, &mut buffer);
        assert_eq!(parameter.data, [8.0]);
        sgd.step(&mut parameter, &gradient, &mut buffer);
        assert_eq!(parameter.data, [5.5]);
    }

    #[test]
    fn the_first_step_of_adam_is_the_rate() {
        for (decoupled, expected) in [(true, 10.0 - 10.0 * 0.5 * 0.5 - 0.5), (false, 9.5)] {
            let adam = Adam {
                rate: 0.5,
                betas: (0.5, 0.75),
                eps: 0.0,
                decay: 0.5,
                decoupled,
            };
            let gradient = Array::new(&[1], vec![4.0]);
            let mut parameter = Array::new(&[1], vec![10.0]);
            let zeros = Array::new(&[1], vec![0.0]);
            let mut means = Means {
                first: zeros.clone(),
                second: zeros,
            };
            adam.step(1, &mut parameter, &gradient, &mut means);
            assert_eq!(parameter.data, [expected]);
        }
    }
}
