//! Linear layers and their gradients.

use crate::array::{dot, round, Array};

/// x · weightᵀ + bias, for x \[…, in\], weight \[out, in\] and bias \[out\].
#[must_use]
pub fn linear(x: &Array, weight: &Array, bias: Option<&Array>) -> Array {
    x.map_rows(|row| {
        let outputs = weight.rows().enumerate();
        let outputs = outputs.map(|(out, weights)| {
            let bias = bias.map_or(0.0, |bias| f64::from(bias.data[out]));
            round(dot(row, weights) + bias)
        });
        outputs.collect()
    })
}

/// Gradients of a linear layer: of its input, its weight and its bias.
pub struct LinearGradient {
    /// \[n, in\]
    pub input: Array,
    /// \[out, in\]
    pub weight: Array,
    /// \[out\]
    pub bias: Array,
}

/// Returns the gradients for `upstream` \[n, out\], that of the output, and the input x \[n, in\].
#[must_use]
pub fn linear_backward(x: &Array, weight: &Array, upstream: &Array) -> LinearGradient {
    let columns = upstream.transpose(0, 1);
    let sums = columns
        .rows()
        .map(|column| round(column.iter().map(|&value| f64::from(value)).sum()));
    LinearGradient {
        input: linear(upstream, &weight.transpose(0, 1), None),
        weight: linear(&columns, &x.transpose(0, 1), None),
        bias: Array::new(&[columns.shape[0]], sums.collect()),
    }
}

/// Returns the gradient before a `ReLU` with input x: 0 where x is not positive.
#[must_use]
pub fn relu_backward(x: &Array, upstream: &Array) -> Array {
    x.zip(upstream, |x, gradient| if x > 0.0 { gradient } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_are_products_with_the_one_of_the_output() {
        let x = Array::new(&[2, 2], vec![1.0, -2.0, 0.5, 3.0]);
        let weight = Array::new(&[1, 2], vec![0.25, -1.0]);
        let upstream = Array::new(&[2, 1], vec![1.0, 2.0]);
        let gradient = linear_backward(&x, &weight, &upstream);
        assert_eq!(gradient.weight.data, [2.0, 4.0]);
        assert_eq!(gradient.bias.data, [3.0]);
        assert_eq!(gradient.input.data, [0.25, -1.0, 0.5, -2.0]);
    }
}
