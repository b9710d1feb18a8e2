//! Dense f32 arrays in row-major order, and how they are reshaped and combined.

/// An array; its last axis is contiguous.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// The length of each axis; empty for a scalar.
    pub shape: Vec<usize>,
    /// The elements.
    pub data: Vec<f32>,
}

impl Array {
    /// Makes an array of these elements.
    ///
    /// # Panics
    /// Where the number of elements is not that of the shape.
    #[must_use]
    pub fn new(shape: &[usize], data: Vec<f32>) -> Self {
        assert_eq!(shape.iter().product::<usize>(), data.len(), "{shape:?}");
        let shape = shape.to_vec();
        Self { shape, data }
    }

    /// Computes each element of a new array from its index along all axes.
    #[must_use]
    pub fn from_fn(shape: &[usize], element: impl Fn(&[usize]) -> f32) -> Self {
        let count = shape.iter().product();
        let mut index = vec![0; shape.len()];
        let mut data = Vec::with_capacity(count);
        for _ in 0..count {
            data.push(element(&index));
            for (place, &length) in index.iter_mut().zip(shape).rev() {
                *place = (*place + 1) % length;
                if *place > 0 {
                    break;
                }
            }
        }
        Self::new(shape, data)
    }

    /// Returns the element at `index`, one number an axis.
    #[must_use]
    pub fn at(&self, index: &[usize]) -> f32 {
        let axes = index.iter().zip(&self.shape);
        self.data[axes.fold(0, |place, (&i, &length)| place * length + i)]
    }

    /// Returns the same elements in another shape.
    #[must_use]
    pub fn reshape(&self, shape: &[usize]) -> Self {
        Self::new(shape, self.data.clone())
    }

    /// Exchanges two axes.
    #[must_use]
    pub fn transpose(&self, one: usize, other: usize) -> Self {
        let mut shape = self.shape.clone();
        shape.swap(one, other);
        Self::from_fn(&shape, |index| {
            let mut from = index.to_vec();
            from.swap(one, other);
            self.at(&from)
        })
    }

    /// Returns the length of the last axis.
    #[must_use]
    pub fn width(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Returns row `number` along the last axis.
    #[must_use]
    pub fn row(&self, number: usize) -> &[f32] {
        let start = number * self.width();
        &self.data[start..start + self.width()]
    }

    /// Iterates over the rows along the last axis.
    pub fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.data.chunks_exact(self.width())
    }

    /// Applies a function to each element.
    #[must_use]
    pub fn map(&self, function: impl Fn(f32) -> f32) -> Self {
        let data = self.data.iter().map(|&value| function(value));
        Self::new(&self.shape, data.collect())
    }

    /// Applies a function to each row along the last axis, whose results have all one length.
    #[must_use]
    pub fn map_rows(&self, function: impl Fn(&[f32]) -> Vec<f32>) -> Self {
        let data: Vec<f32> = self.rows().flat_map(function).collect();
        let mut shape = self.shape.clone();
        if let Some(last) = shape.last_mut() {
            *last = data.len() * self.width() / self.data.len();
        }
        Self::new(&shape, data)
    }

    /// Combines the elements of two arrays of one shape.
    ///
    /// # Panics
    /// Where the shapes differ.
    #[must_use]
    pub fn zip(&self, other: &Self, function: impl Fn(f32, f32) -> f32) -> Self {
        assert_eq!(self.shape, other.shape);
        let pairs = self.data.iter().zip(&other.data);
        Self::new(&self.shape, pairs.map(|(&a, &b)| function(a, b)).collect())
    }

    /// Adds two arrays of one shape.
    #[must_use]
    pub fn add(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a + b)
    }

    /// Multiplies two arrays of one shape, element by element.
    #[must_use]
    pub fn mul(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a * b)
    }
}

/// Rounds a sum or a function's value to f32.
#[allow(clippy::cast_possible_truncation)]
#[must_use]
pub fn round(value: f64) -> f32 {
    value as f32
}

/// Returns a length as a number to divide by.
#[allow(clippy::cast_precision_loss)]
#[must_use]
pub fn count(length: usize) -> f64 {
    length as f64
}

/// Returns the sum of products, in f64.
#[must_use]
pub fn dot(one: &[f32], other: &[f32]) -> f64 {
    let pairs = one.iter().zip(other);
    pairs.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_exchanged() {
        let array = Array::new(&[2, 3], vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let turned = array.transpose(0, 1);
        assert_eq!(turned.shape, [3, 2]);
        assert_eq!(turned.data, [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    }

    #[test]
    fn rows_get_another_length() {
        let array = Array::new(&[2, 1, 2], vec![1.0, 2.0, 3.0, 4.0]);
        let sums = array.map_rows(|row| vec![row[0] + row[1]]);
        assert_eq!(sums, Array::new(&[2, 1, 1], vec![3.0, 7.0]));
    }
}
