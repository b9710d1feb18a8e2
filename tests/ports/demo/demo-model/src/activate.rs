//! Activation functions and the softmax.

use crate::array::{round, Array};
use std::f64::consts::{PI, SQRT_2};

/// Returns 0 for negative values; a NaN stays one.
#[must_use]
pub fn relu(x: &Array) -> Array {
    x.map(|value| if value < 0.0 { 0.0 } else { value })
}

/// Multiplies negative values by `slope`.
#[must_use]
pub fn leaky_relu(x: &Array, slope: f32) -> Array {
    x.map(|value| if value < 0.0 { value * slope } else { value })
}

/// `GELU` in its exact form: x · Φ(x).
#[must_use]
pub fn gelu(x: &Array) -> Array {
    x.map(|value| {
        let value = f64::from(value);
        round(value / 2.0 * (1.0 + erf(value / SQRT_2)))
    })
}

/// x · σ(x).
#[must_use]
pub fn silu(x: &Array) -> Array {
    x.map(|value| value * sigmoid(value))
}

/// 1 / (1 + exp(-x)).
#[must_use]
pub fn sigmoid(value: f32) -> f32 {
    round(1.0 / (1.0 + (-f64::from(value)).exp()))
}

/// Softmax along the last axis.
#[must_use]
pub fn softmax(x: &Array) -> Array {
    x.map_rows(|row| {
        let logarithm = log_sum_exp(row);
        let shares = row.iter().map(|&value| f64::from(value) - logarithm);
        shares.map(|share| round(share.exp())).collect()
    })
}

/// log Σ exp(x), with the largest value taken out of the sum.
#[must_use]
pub fn log_sum_exp(row: &[f32]) -> f64 {
    let largest = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let terms = row.iter().map(|&value| (f64::from(value) - largest).exp());
    largest + terms.sum::<f64>().ln()
}

/// The error function, by the series exp(-x²) · 2/√π · Σ 2ⁿ x²ⁿ⁺¹ / (2n + 1)!!, whose terms have
/// all the sign of x.
#[must_use]
pub fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term.abs() > 1e-17 * sum.abs() {
        odd += 2.0;
        term *= 2.0 * x * x / odd;
        sum += term;
    }
    2.0 / PI.sqrt() * (-x * x).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_has_its_known_values() {
        for (x, expected) in [
            (0.0, 0.0),
            (0.5, 0.520_499_877_813_046_5),
            (-1.0, -0.842_700_792_949_714_9),
            (3.0, 0.999_977_909_503_001_4),
            (7.0, 1.0),
        ] {
            assert!((erf(x) - expected).abs() < 1e-15, "{x}");
        }
    }

    #[test]
    fn large_values_do_not_overflow() {
        let x = Array::new(&[3], vec![1000.0, 1000.0, f32::NEG_INFINITY]);
        assert_eq!(softmax(&x).data, [0.5, 0.5, 0.0]);
    }
}
