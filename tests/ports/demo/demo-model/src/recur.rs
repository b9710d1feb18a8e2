//! A recurrent layer: LSTM.

use crate::activate::sigmoid;
use crate::array::{dot, round, Array};

/// The four parameters of one layer: gates lie one after another as input, forget, cell, output.
pub struct LstmWeights<'a> {
    /// \[4 · hidden, in\]
    pub input: &'a Array,
    /// \[4 · hidden, hidden\]
    pub hidden: &'a Array,
    /// \[4 · hidden\]
    pub input_bias: &'a Array,
    /// \[4 · hidden\]
    pub hidden_bias: &'a Array,
}

/// Runs one layer over x \[batch, length, in\] from zeros; returns \[batch, length, hidden\].
#[must_use]
pub fn lstm(x: &Array, weights: &LstmWeights) -> Array {
    let (batch, length, size) = (x.shape[0], x.shape[1], weights.hidden.width());
    let items = x.data.chunks_exact(length * x.width());
    let data = items.flat_map(|item| run_sequence(item, x.width(), weights));
    Array::new(&[batch, length, size], data.collect())
}

/// Returns the hidden states of one sequence, one after another.
fn run_sequence(item: &[f32], width: usize, weights: &LstmWeights) -> Vec<f32> {
    let size = weights.hidden.width();
    let (mut hidden, mut cell) = (vec![0.0; size], vec![0.0; size]);
    let mut outputs = Vec::new();
    for input in item.chunks_exact(width) {
        let gate = |row: usize| {
            let bias = weights.input_bias.data[row] + weights.hidden_bias.data[row];
            let products = dot(input, weights.input.row(row));
            round(products + dot(&hidden, weights.hidden.row(row)) + f64::from(bias))
        };
        let gates: Vec<f32> = (0..4 * size).map(gate).collect();
        for i in 0..size {
            let kept = sigmoid(gates[size + i]) * cell[i];
            cell[i] = kept + sigmoid(gates[i]) * gates[2 * size + i].tanh();
            hidden[i] = sigmoid(gates[3 * size + i]) * cell[i].tanh();
        }
        outputs.extend_from_slice(&hidden);
    }
    outputs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_lie_in_the_order_input_forget_cell_output() {
        // Weights of zero leave the biases: the forget gate is shut after one step, the rest open.
        let zeros = Array::new(&[4, 1], vec![0.0; 4]);
        let bias = Array::new(&[4], vec![100.0, -100.0, 1.0, 100.0]);
        let none = Array::new(&[4], vec![0.0; 4]);
        let weights = LstmWeights {
            input: &zeros,
            hidden: &zeros,
            input_bias: &bias,
            hidden_bias: &none,
        };
        let x = Array::new(&[1, 2, 1], vec![5.0, 6.0]);
        let expected = 1.0_f32.tanh().tanh();
        assert_eq!(lstm(&x, &weights).data, [expected, expected]);
    }
}
