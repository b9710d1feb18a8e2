//! Attention, and the rotary embedding of its queries and keys.

use crate::activate::softmax;
use crate::array::{count, dot, round, Array};

/// Scaled dot-product attention of query \[batch, heads, length, d\] over key and value
/// \[batch, groups, length, d\]: each of them serves `heads / groups` heads that follow one another.
/// The mask \[length, length\] is added to the scores.
#[must_use]
pub fn attend(query: &Array, key: &Array, value: &Array, mask: Option<&Array>) -> Array {
    let [batch, heads, length] = [0, 1, 2].map(|axis| query.shape[axis]);
    let (group, keys) = (heads / key.shape[1], key.shape[2]);
    let scores = Array::from_fn(&[batch, heads, length, keys], |index| {
        let one = row(query, [index[0], index[1], index[2]]);
        let other = row(key, [index[0], index[1] / group, index[3]]);
        let added = mask.map_or(0.0, |mask| f64::from(mask.at(&index[2..])));
        round(dot(one, other) / count(query.width()).sqrt() + added)
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

/// Returns the mask that hides later keys.
#[must_use]
pub fn causal_mask(length: usize) -> Array {
    Array::from_fn(&[length, length], |index| {
        if index[1] > index[0] {
            f32::NEG_INFINITY
        } else {
            0.0
        }
    })
}

/// A rotary embedding.
#[derive(Debug, Clone, Copy)]
pub struct Rotary {
    /// The angle of pair i at a place is place · base^(-2i / d).
    pub base: f64,
    /// Whether pairs are neighbours, not elements of the two halves.
    pub neighbours: bool,
    /// The place of the first element.
    pub first: usize,
}

impl Rotary {
    /// Rotates the pairs of the last axis of x \[…, length, d\].
    #[must_use]
    pub fn rotate(&self, x: &Array) -> Array {
        let (axis, half) = (x.shape.len() - 1, x.width() / 2);
        Array::from_fn(&x.shape, |index| {
            let place = index[axis];
            let (pair, is_second, other) = if self.neighbours {
                (place / 2, place % 2 == 1, place ^ 1)
            } else {
                (place % half, place >= half, (place + half) % x.width())
            };
            let power = count(2 * pair) / count(x.width());
            let angle = count(self.first + index[axis - 1]) * self.base.powf(-power);
            let mut partner = index.to_vec();
            partner[axis] = other;
            let (own, partner) = (f64::from(x.at(index)), f64::from(x.at(&partner)));
            let sine = if is_second { angle.sin() } else { -angle.sin() };
            round(own * angle.cos() + partner * sine)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_causal_mask_hides_later_keys_and_groups_are_neighbours() {
        let query = Array::new(&[1, 4, 2, 1], vec![0.0; 8]);
        let key = Array::new(&[1, 2, 2, 1], vec![0.0; 4]);
        let value = Array::new(&[1, 2, 2, 1], vec![1.0, 3.0, 5.0, 7.0]);
        let all = attend(&query, &key, &value, None);
        assert_eq!(all.data, [2.0, 2.0, 2.0, 2.0, 6.0, 6.0, 6.0, 6.0]);
        let causal = attend(&query, &key, &value, Some(&causal_mask(2)));
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
    fn pairs_are_rotated_by_their_place() {
        let rotary = |neighbours| Rotary {
            base: 1.0,
            neighbours,
            first: 1,
        };
        let x = Array::new(&[1, 4], vec![1.0, 0.0, 0.0, 1.0]);
        let (sine, cosine) = (round(1.0_f64.sin()), round(1.0_f64.cos()));
        let halves = rotary(false).rotate(&x).data;
        assert_eq!(halves, [cosine, -sine, sine, cosine]);
        let neighbours = rotary(true).rotate(&x).data;
        assert_eq!(neighbours, [cosine, sine, -sine, cosine]);
    }
}
