//! Normalisation: layer, root mean square, batch.

use crate::array::{count, dot, round, Array};

/// Normalises the last axis, then multiplies by weight and adds bias, each \[width\].
#[must_use]
pub fn layer_norm(x: &Array, weight: &Array, bias: &Array, eps: f64) -> Array {
    x.map_rows(|row| {
        let mean = row.iter().map(|&value| f64::from(value)).sum::<f64>() / count(row.len());
        let centred: Vec<f64> = row.iter().map(|&value| f64::from(value) - mean).collect();
        let variance = centred.iter().map(|value| value * value).sum::<f64>() / count(row.len());
        let scale = 1.0 / (variance + eps).sqrt();
        let parameters = weight.data.iter().zip(&bias.data);
        let normal = centred.iter().zip(parameters);
        let result = normal.map(|(value, (&w, &b))| value * scale * f64::from(w) + f64::from(b));
        result.map(round).collect()
    })
}

/// Divides the last axis by its root mean square, then multiplies by weight \[width\].
#[must_use]
pub fn rms_norm(x: &Array, weight: &Array, eps: f64) -> Array {
    x.map_rows(|row| {
        let scale = 1.0 / (dot(row, row) / count(row.len()) + eps).sqrt();
        let scaled = row.iter().zip(&weight.data);
        let scaled = scaled.map(|(&value, &w)| f64::from(value) * scale * f64::from(w));
        scaled.map(round).collect()
    })
}

/// What a batch norm of `PyTorch` has, each \[channels\].
pub struct BatchNorm<'a> {
    /// Multiplies the normalised values.
    pub weight: &'a Array,
    /// Is added to the product.
    pub bias: &'a Array,
    /// Is subtracted first.
    pub running_mean: &'a Array,
    /// Its root, with eps below it, divides.
    pub running_var: &'a Array,
}

/// Normalises x \[batch, channels, …\] by the running statistics, as in evaluation.
#[must_use]
pub fn batch_norm(x: &Array, norm: &BatchNorm, eps: f64) -> Array {
    Array::from_fn(&x.shape, |index| {
        let of = |array: &Array| f64::from(array.data[index[1]]);
        let scale = of(norm.weight) / (of(norm.running_var) + eps).sqrt();
        let centred = f64::from(x.at(index)) - of(norm.running_mean);
        round(centred * scale + of(norm.bias))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variance_is_divided_by_n_and_eps_is_added_below_the_root() {
        let x = Array::new(&[1, 2], vec![1.0, 3.0]);
        let (weight, bias) = (
            Array::new(&[2], vec![2.0, 2.0]),
            Array::new(&[2], vec![0.0, 1.0]),
        );
        assert_eq!(layer_norm(&x, &weight, &bias, 3.0).data, [-1.0, 2.0]);
        assert_eq!(rms_norm(&x, &weight, 11.0).data, [0.5, 1.5]);
    }

    #[test]
    fn running_statistics_are_used() {
        let one = |value: f32| Array::new(&[1], vec![value]);
        let norm = BatchNorm {
            weight: &one(2.0),
            bias: &one(1.0),
            running_mean: &one(3.0),
            running_var: &one(12.0),
        };
        let x = Array::new(&[2, 1, 1], vec![7.0, 3.0]);
        assert_eq!(batch_norm(&x, &norm, 4.0).data, [3.0, 1.0]);
    }
}
