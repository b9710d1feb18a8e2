//! Losses; each is a scalar.

use crate::activate::log_sum_exp;
use crate::array::{count, round, Array};
use crate::embed::index;

/// The mean of squared differences.
#[must_use]
pub fn mse_loss(x: &Array, target: &Array) -> Array {
    mean(x, target, |difference| difference * difference)
}

/// The mean of absolute differences.
#[must_use]
pub fn l1_loss(x: &Array, target: &Array) -> Array {
    mean(x, target, f64::abs)
}

/// The mean of absolute differences, less half of `beta`; below `beta`, of squares over 2 · `beta`.
#[must_use]
pub fn smooth_l1_loss(x: &Array, target: &Array, beta: f64) -> Array {
    mean(x, target, |difference| {
        let size = difference.abs();
        if size < beta {
            size * size / (2.0 * beta)
        } else {
            size - beta / 2.0
        }
    })
}

fn mean(x: &Array, target: &Array, cost: impl Fn(f64) -> f64) -> Array {
    let pairs = x.data.iter().zip(&target.data);
    let costs = pairs.map(|(&x, &target)| cost(f64::from(x) - f64::from(target)));
    scalar(costs.sum::<f64>() / count(x.data.len()))
}

/// The cross entropy of logits \[n, classes\] and classes \[n\], of which negative ones do not count.
///
/// With `weight` \[classes\] the mean is weighted by the target's; `smoothing` is the share of the
/// target that is spread evenly over all classes.
#[must_use]
pub fn cross_entropy(
    logits: &Array,
    target: &Array,
    weight: Option<&Array>,
    smoothing: f64,
) -> Array {
    let weight_of = |class: usize| weight.map_or(1.0, |weight| f64::from(weight.data[class]));
    let (mut sum, mut divisor) = (0.0, 0.0);
    for (row, &class) in logits.rows().zip(&target.data) {
        let Some(class) = index(class) else { continue };
        let logarithm = log_sum_exp(row);
        let cost = |class: usize| weight_of(class) * (logarithm - f64::from(row[class]));
        let all: f64 = (0..row.len()).map(cost).sum();
        sum += (1.0 - smoothing) * cost(class) + smoothing / count(row.len()) * all;
        divisor += weight_of(class);
    }
    scalar(sum / divisor)
}

fn scalar(value: f64) -> Array {
    Array::new(&[], vec![round(value)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_have_their_means() {
        let x = Array::new(&[2], vec![1.0, 2.0]);
        let target = Array::new(&[2], vec![1.5, 6.0]);
        assert_eq!(mse_loss(&x, &target).data, [8.125]);
        assert_eq!(l1_loss(&x, &target).data, [2.25]);
        assert_eq!(smooth_l1_loss(&x, &target, 1.0).data, [1.8125]);
    }

    #[test]
    fn equal_logits_cost_the_logarithm_of_their_number() {
        let logits = Array::new(&[2, 4], vec![7.0; 8]);
        let target = Array::new(&[2], vec![3.0, -100.0]);
        let loss = cross_entropy(&logits, &target, None, 0.5);
        assert_eq!(loss.data, [4.0_f32.ln()]);
    }

    #[test]
    fn the_mean_is_weighted_by_the_targets() {
        let logits = Array::new(&[2, 2], vec![0.0, 0.0, 3.0, 3.0]);
        let target = Array::new(&[2], vec![0.0, 1.0]);
        let weight = Array::new(&[2], vec![1.0, 5.0]);
        let loss = cross_entropy(&logits, &target, Some(&weight), 0.0);
        assert_eq!(loss.data, [2.0_f32.ln()]);
    }
}
