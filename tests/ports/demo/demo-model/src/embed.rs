//! Embeddings. Indices arrive as whole f32 numbers.

use crate::array::{count, round, Array};

/// Returns the index that an element of an integer tensor states; None if it is negative.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#[must_use]
pub fn index(value: f32) -> Option<usize> {
    (value >= 0.0).then_some(value as usize)
}

/// Returns the rows of weight \[rows, d\] that tokens \[…, n\] name, \[…, n, d\].
#[must_use]
pub fn embedding(tokens: &Array, weight: &Array) -> Array {
    let shape = [&tokens.shape[..], &[weight.width()]].concat();
    let rows = tokens.data.iter().filter_map(|&token| index(token));
    let data = rows.flat_map(|row| weight.row(row).to_vec()).collect();
    Array::new(&shape, data)
}

/// Returns the means of the rows of weight \[rows, d\] that the bags \[bags, n\] name, \[bags, d\];
/// the row `padding` is not counted.
#[must_use]
pub fn embedding_bag_mean(bags: &Array, weight: &Array, padding: usize) -> Array {
    bags.map_rows(|bag| {
        let named = bag.iter().filter_map(|&token| index(token));
        let rows: Vec<usize> = named.filter(|&row| row != padding).collect();
        let mean = |column: usize| {
            let values = rows.iter().map(|&row| f64::from(weight.row(row)[column]));
            round(values.sum::<f64>() / count(rows.len().max(1)))
        };
        (0..weight.width()).map(mean).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_name_rows() {
        let weight = Array::new(&[2, 2], vec![1.0, 2.0, 3.0, 4.0]);
        let tokens = Array::new(&[1, 3], vec![1.0, 0.0, 1.0]);
        let result = embedding(&tokens, &weight);
        assert_eq!(result.shape, [1, 3, 2]);
        assert_eq!(result.data, [3.0, 4.0, 1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn padding_is_not_counted_in_the_mean() {
        let weight = Array::new(&[3, 1], vec![100.0, 2.0, 4.0]);
        let bags = Array::new(&[2, 3], vec![1.0, 2.0, 0.0, 0.0, 0.0, 0.0]);
        let means = embedding_bag_mean(&bags, &weight, 0);
        assert_eq!(means, Array::new(&[2, 1], vec![3.0, 0.0]));
    }
}
