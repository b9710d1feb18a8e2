//! A perceptron: Linear(4 → 8), `ReLU`, Linear(8 → 2), in f32.

use crate::bin;
use crate::error::{refuse, Result};
use crate::Tensor;

/// The weights in the order of `mlp_weights.bin`, with the shapes they have to have.
const LAYOUT: [(&str, &[usize]); 4] = [
    ("fc1.weight", &[8, 4]),
    ("fc1.bias", &[8]),
    ("fc2.weight", &[2, 8]),
    ("fc2.bias", &[2]),
];

/// The four weights, in the order of the file.
pub struct Mlp {
    weights: Vec<Tensor>,
}

impl Mlp {
    /// Reads `mlp_weights.bin`: four tensors with a header each, one after another.
    ///
    /// # Errors
    /// Where a tensor is cut short or has another shape, and for trailing bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let weights = bin::decode(bytes, &LAYOUT.map(|(name, _)| name))?;
        for (tensor, (name, shape)) in weights.iter().zip(LAYOUT) {
            if tensor.shape != shape {
                return refuse(format!(
                    "{name} has shape {:?}, not {shape:?}",
                    tensor.shape
                ));
            }
        }
        Ok(Self { weights })
    }

    /// `fc1.weight` \[8, 4\], `fc1.bias` \[8\], `fc2.weight` \[2, 8\], `fc2.bias` \[2\].
    #[must_use]
    pub fn weights(&self) -> &[Tensor] {
        &self.weights
    }

    /// Output \[1, 2\] for an input \[1, 4\].
    #[must_use]
    pub fn forward(&self, input: &[f32]) -> Vec<f32> {
        let mut hidden = linear(&self.weights[0].data, &self.weights[1].data, input);
        // Not `f32::max`: a NaN has to stay one, as torch's relu keeps it.
        for value in hidden.iter_mut().filter(|value| **value < 0.0) {
            *value = 0.0;
        }
        linear(&self.weights[2].data, &self.weights[3].data, &hidden)
    }
}

/// `weight · input + bias`, a row of `weight` for each output; the bias is added last.
fn linear(weight: &[f32], bias: &[f32], input: &[f32]) -> Vec<f32> {
    let rows = weight.chunks_exact(input.len());
    let dot = |row: &[f32]| row.iter().zip(input).map(|(w, x)| w * x).sum::<f32>();
    rows.zip(bias).map(|(row, bias)| dot(row) + bias).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A perceptron whose weight `i` of each tensor is `(i - 3) / 4`.
    pub(crate) fn example() -> Vec<u8> {
        let ramp = |count: u8| (0..count).map(|i| (f32::from(i) - 3.0) / 4.0);
        let tensors = LAYOUT.iter().zip([32, 8, 16, 2]);
        let encoded = tensors.map(|((_, shape), count)| {
            bin::encode(shape, &ramp(count).collect::<Vec<_>>()).unwrap()
        });
        encoded.flatten().collect()
    }

    #[test]
    fn zeros_pass_only_the_biases() {
        let mlp = Mlp::parse(&example()).unwrap();
        // relu(b1) is 0 0 0 0 1/4 1/2 3/4 1; the rows of w2 are (0..8 - 3)/4 and (8..16 - 3)/4.
        let row = |first: f32| {
            (4..8).map(move |i| {
                let i = f32::from(u8::try_from(i).unwrap());
                (i - 3.0) / 4.0 * (first + i - 3.0) / 4.0
            })
        };
        let (a, b): (f32, f32) = (row(0.0).sum(), row(8.0).sum());
        assert_eq!(mlp.forward(&[0.0; 4]), [a - 0.75, b - 0.5]);
    }

    #[test]
    fn rows_of_the_weight_are_outputs() {
        assert_eq!(
            linear(&[1.0, 2.0, 3.0, 4.0], &[0.5, -1.0], &[1.0, 10.0]),
            [21.5, 42.0]
        );
    }

    #[test]
    fn a_nan_is_not_rectified_away() {
        let mlp = Mlp::parse(&example()).unwrap();
        assert!(mlp
            .forward(&[f32::NAN; 4])
            .iter()
            .all(|value| value.is_nan()));
    }

    #[test]
    fn other_shapes_and_lengths_are_refused() {
        let bytes = example();
        assert!(Mlp::parse(&bytes[..bytes.len() - 1]).is_err());
        assert!(Mlp::parse(&[bytes.as_slice(), &[0]].concat()).is_err());
        let mut swapped = bytes;
        swapped.swap(4, 8);
        assert!(Mlp::parse(&swapped).is_err());
    }
}
