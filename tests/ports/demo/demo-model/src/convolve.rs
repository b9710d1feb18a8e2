//! Convolution and pooling of images \[batch, channels, height, width\].

use crate::array::{count, round, Array};

/// A square window and how it moves over both axes of an image.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Elements along an axis.
    pub size: usize,
    /// Elements from one place of the window to the next.
    pub stride: usize,
    /// Elements that are added before and after an axis.
    pub padding: usize,
    /// Elements from one element of the window to the next.
    pub dilation: usize,
}

impl Window {
    fn steps(self, length: usize) -> usize {
        let extent = self.dilation * (self.size - 1) + 1;
        (length + 2 * self.padding - extent) / self.stride + 1
    }

    fn output(self, x: &Array, channels: usize) -> [usize; 4] {
        let [height, width] = [x.shape[2], x.shape[3]].map(|length| self.steps(length));
        [x.shape[0], channels, height, width]
    }

    /// Visits the elements of one window: the place in the kernel, and the place in the image.
    fn visit(self, x: &Array, place: [usize; 2], mut see: impl FnMut([usize; 2], [usize; 2])) {
        for i in 0..self.size {
            for j in 0..self.size {
                let at = |axis: usize, step: usize| {
                    (place[axis] * self.stride + step * self.dilation).checked_sub(self.padding)
                };
                let (row, column) = (at(0, i), at(1, j));
                match (row, column) {
                    (Some(row), Some(column)) if row < x.shape[2] && column < x.shape[3] => {
                        see([i, j], [row, column]);
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Cross-correlation with weight \[out, in / groups, size, size\] and bias \[out\].
#[must_use]
pub fn conv2d(
    x: &Array,
    weight: &Array,
    bias: Option<&Array>,
    window: Window,
    groups: usize,
) -> Array {
    let (outputs, depth) = (weight.shape[0], weight.shape[1]);
    Array::from_fn(&window.output(x, outputs), |index| {
        let &[item, out, y_place, x_place] = index else {
            return f32::NAN;
        };
        let first = out / (outputs / groups) * depth;
        let mut sum = bias.map_or(0.0, |bias| f64::from(bias.data[out]));
        window.visit(x, [y_place, x_place], |[i, j], [row, column]| {
            for channel in 0..depth {
                let value = x.at(&[item, first + channel, row, column]);
                sum += f64::from(value) * f64::from(weight.at(&[out, channel, i, j]));
            }
        });
        round(sum)
    })
}

/// Returns the largest element of each window; padding is never the largest.
#[must_use]
pub fn max_pool2d(x: &Array, window: Window) -> Array {
    pool(x, window, |values| {
        values.iter().copied().fold(f32::NEG_INFINITY, f32::max)
    })
}

/// Returns the mean of each window; padding counts as zeros, as torch's default has it.
#[must_use]
pub fn avg_pool2d(x: &Array, window: Window) -> Array {
    let area = count(window.size * window.size);
    pool(x, window, |values| {
        round(values.iter().map(|&value| f64::from(value)).sum::<f64>() / area)
    })
}

/// Returns means over `size` parts of each axis, which overlap where it cannot be divided.
#[must_use]
pub fn adaptive_avg_pool2d(x: &Array, size: usize) -> Array {
    let part = |length: usize, at: usize| at * length / size..((at + 1) * length).div_ceil(size);
    Array::from_fn(&[x.shape[0], x.shape[1], size, size], |index| {
        let rows = part(x.shape[2], index[2]);
        let columns = part(x.shape[3], index[3]);
        let number = count(rows.len() * columns.len());
        let places = rows.flat_map(|row| columns.clone().map(move |column| (row, column)));
        let values = places.map(|(row, column)| x.at(&[index[0], index[1], row, column]));
        round(values.map(f64::from).sum::<f64>() / number)
    })
}

fn pool(x: &Array, window: Window, reduce: impl Fn(&[f32]) -> f32) -> Array {
    Array::from_fn(&window.output(x, x.shape[1]), |index| {
        let &[item, channel, y_place, x_place] = index else {
            return f32::NAN;
        };
        let mut values = Vec::new();
        window.visit(x, [y_place, x_place], |_, [row, column]| {
            values.push(x.at(&[item, channel, row, column]));
        });
        reduce(&values)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: [f32; 9] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
    const WINDOW: Window = Window {
        size: 2,
        stride: 2,
        padding: 1,
        dilation: 1,
    };

    #[test]
    fn the_kernel_is_not_reversed() {
        let x = Array::new(&[1, 1, 3, 3], IMAGE.to_vec());
        let kernel = Array::new(&[1, 1, 2, 2], vec![1.0, 0.0, 0.0, 10.0]);
        let result = conv2d(&x, &kernel, None, WINDOW, 1);
        assert_eq!(result.data, [10.0, 30.0, 70.0, 95.0]);
    }

    #[test]
    fn pooling_counts_padding_in_the_mean_alone() {
        let x = Array::new(&[1, 1, 3, 3], IMAGE.map(|value| -value).to_vec());
        assert_eq!(max_pool2d(&x, WINDOW).data, [-1.0, -2.0, -4.0, -5.0]);
        assert_eq!(avg_pool2d(&x, WINDOW).data, [-0.25, -1.25, -2.75, -7.0]);
    }

    #[test]
    fn a_window_is_dilated() {
        let x = Array::new(&[1, 1, 3, 3], IMAGE.to_vec());
        let kernel = Array::new(&[1, 1, 2, 2], vec![1.0, 0.0, 0.0, 10.0]);
        let window = Window {
            padding: 0,
            dilation: 2,
            ..WINDOW
        };
        assert_eq!(conv2d(&x, &kernel, None, window, 1).data, [91.0]);
    }

    #[test]
    fn parts_of_an_axis_overlap_where_it_cannot_be_divided() {
        let x = Array::new(&[1, 1, 3, 3], IMAGE.to_vec());
        assert_eq!(adaptive_avg_pool2d(&x, 2).data, [3.0, 4.0, 6.0, 7.0]);
    }
}
