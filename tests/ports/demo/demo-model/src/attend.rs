//! Attention, and the rotary embedding of its queries and keys.

use crate::activate::softmax;
use crate::array::{count, dot, round, Array};

/// Scaled dot-product attention of query \[batch, heads, length, d\] over key and value
/// \[batch, groups, length, d\]: each of them serves `heads / groups` heads that follow one another.
#[must_use]
pub fn attend(query: &Array, key: &Array, value: &Array, causal: bool) -> Array {
    let [batch, heads, length] = [0, 1, 2].map(|axis| query.shape[axis]);
    let (group, keys) = (heads / key.shape[1], key.shape[2]);
    let scores = Array::from_fn(&[batch, heads, length, keys], |index| {
        let hidden = causal && index[3] > index[2];
        if hidden {
            return f32::NEG_INFINITY;
        }
        let one = row(query, [index[0], index[1], index[2]]);
        let other = row(key, [index[0], index[1] / group, index[3]]);
        round(dot(one, other) / count(query.width()).sqrt())
    });
    let shares = softmax(&scores);
    Array::from_fn(&[batch, heads, length, value.width()], |index| {
        let weights = row(&shares, [index[0], index[1], index[2]]);
        let values = (0..keys).map(|key| value.at(&[index[0], index[1] / group, key, index[3]]));
        round(dot(weights, &values.collect::<Vec<_>>()))
    })
}

/// Returns the vector of one batch, head and place of an array of four axes.
fn row(array: &Array, [item, head, place]: [usize; 3]) -> &[f32] {
    array.row((item * array.shape[1] + head) * array.shape[2] + place)
}

/// Splits \[batch, length, heads · d\] into \[batch, heads, length, d\].
#[must_use]
pub fn split_heads(x: &Array, heads: usize) -> Array {
    let shape = [x.shape[0], x.shape[1], heads, x.width() / heads];
    x.reshape(&shape).transpose(1, 2)
}

/// Joins \[batch, heads, length, d\] to \[batch, length, heads · d\].
#[must_use]
pub fn join_heads(x: &Array) -> Array {
    let shape = [x.shape[0], x.shape[2], x.shape[1] * x.shape[3]];
    x.transpose(1, 2).reshape(&shape)
}

/// Rotates the halves of the last axis of x \[batch, heads, length, d\], by sines and cosines
/// \[length, d\] whose halves are equal.
#[must_use]
pub fn rotate(x: &Array, cos: &Array, sin: &Array) -> Array {
    x.mul(&repeat(cos, x))
        .add(&rotate_half(x).mul(&repeat(sin, x)))
}

/// (a, b) becomes (-b, a), where a and b are the halves of the last axis.
#[must_use]
pub fn rotate_half(x: &Array) -> Array {
    x.map_rows(|row| {
        let (a, b) = row.split_at(row.len() / 2);
        b.iter()
            .map(|value| -value)
            .chain(a.iter().copied())
            .collect()
    })
}

/// Repeats an array \[length, d\] for each batch and head of `like`.
fn repeat(array: &Array, like: &Array) -> Array {
    Array::from_fn(&like.shape, |index| array.at(&index[2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_causal_mask_hides_later_keys_and_groups_are_neighbours() {
        let query = Array::new(&[1, 4, 2, 1], vec![0.0; 8]);
        let key = Array::new(&[1, 2, 2, 1], vec![0.0; 4]);
        let value = Array::new(&[1, 2, 2, 1], vec![1.0, 3.0, 5.0, 7.0]);
        let all = attend(&query, &key, &value, false);
        assert_eq!(all.data, [2.0, 2.0, 2.0, 2.0, 6.0, 6.0, 6.0, 6.0]);
        let causal = attend(&query, &key, &value, true);
        assert_eq!(causal.data, [1.0, 2.0, 1.0, 2.0, 5.0, 6.0, 5.0, 6.0]);
    }

    #[test]
    fn heads_are_split_and_joined() {
        let x = Array::new(&[1, 2, 4], (0..8_u8).map(f32::from).collect());
        let heads = split_heads(&x, 2);
        assert_eq!(heads.data, [0.0, 1.0, 4.0, 5.0, 2.0, 3.0, 6.0, 7.0]);
        assert_eq!(join_heads(&heads), x);
    }

    #[test]
    fn a_quarter_turn() {
        let x = Array::new(&[1, 1, 1, 4], vec![1.0, 2.0, 3.0, 4.0]);
        let (cos, sin) = (
            Array::new(&[1, 4], vec![0.0; 4]),
            Array::new(&[1, 4], vec![1.0; 4]),
        );
        assert_eq!(rotate(&x, &cos, &sin).data, [-3.0, -4.0, 1.0, 2.0]);
    }
}
