//! Floats of four dtypes with shape and strides, read from and written to safetensors.

use crate::call::{Result, Stop};
use demo_serialize::json::{self, Json};
use demo_serialize::scalar::{bf16_to_f32, f16_to_f32};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A float type; values are computed in f64, and rounded once as they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dtype {
    /// IEEE binary16.
    F16,
    /// The upper half of an f32.
    Bf16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
}

impl Dtype {
    const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::F16, "F16", "float16"),
        (Self::Bf16, "BF16", "bfloat16"),
        (Self::F32, "F32", "float32"),
        (Self::F64, "F64", "float64"),
    ];

    /// The dtype of this name, safetensors' or torch's.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter();
        all.find(|one| one.1 == name || one.2 == name)
            .map(|one| one.0)
    }

    /// The value as this dtype has it.
    #[must_use]
    pub fn round(self, value: f64) -> f64 {
        let mut bytes = Vec::new();
        self.write(value, &mut bytes);
        self.read(&bytes)
    }

    /// The dtype of partial sums.
    #[must_use]
    pub fn accumulator(self) -> Self {
        if self == Self::F64 {
            Self::F64
        } else {
            Self::F32
        }
    }

    fn size(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    fn read(self, bytes: &[u8]) -> f64 {
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        let [first, second, third, fourth, ..] = all;
        match self {
            Self::F16 => f16_to_f32(u16::from_le_bytes([first, second])).into(),
            Self::Bf16 => bf16_to_f32(u16::from_le_bytes([first, second])).into(),
            Self::F32 => f32::from_le_bytes([first, second, third, fourth]).into(),
            Self::F64 => f64::from_le_bytes(all),
        }
    }

    #[allow(clippy::cast_possible_truncation)]
    fn write(self, value: f64, out: &mut Vec<u8>) {
        match self {
            Self::F16 => out.extend(narrow(value, 10, -14, 0x7c00).to_le_bytes()),
            Self::Bf16 => out.extend(narrow(value, 7, -126, 0x7f80).to_le_bytes()),
            Self::F32 => out.extend((value as f32).to_le_bytes()),
            Self::F64 => out.extend(value.to_le_bytes()),
        }
    }
}

/// Rounds to the nearest integer, halves to the even one.
#[must_use]
#[allow(clippy::float_cmp)] // A half is exact.
pub fn round_half_even(value: f64) -> f64 {
    let rounded = if value.fract().abs() == 0.5 {
        2.0 * (value / 2.0).round()
    } else {
        value.round()
    };
    rounded.copysign(value)
}

/// The bits of a float of 16 bits with `digits` bits of fraction.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn narrow(value: f64, digits: i32, least_exponent: i32, infinity: u16) -> u16 {
    let sign = u16::from(value.is_sign_negative()) << 15;
    if value.is_nan() {
        return sign | infinity | 1 << (digits - 1);
    }
    let exponent = ((value.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    let exponent = exponent.max(least_exponent);
    let fraction = round_half_even(value.abs() / 2_f64.powi(exponent - digits));
    // A normal number's leading 1 counts the exponent up, and so does a fraction that overflows.
    let code = f64::from(exponent - least_exponent) * 2_f64.powi(digits) + fraction;
    sign | code.min(f64::from(infinity)) as u16
}

/// A tensor, or a view of one.
#[derive(Debug, Clone)]
pub struct Tensor {
    /// Of the elements.
    pub dtype: Dtype,
    /// Sizes of the axes.
    pub shape: Vec<usize>,
    strides: Vec<usize>,
    offset: usize,
    data: Rc<Vec<f64>>,
}

impl Tensor {
    /// A tensor with these elements, the last axis fastest.
    ///
    /// # Panics
    /// Where the data do not fill the shape.
    #[must_use]
    pub fn new(dtype: Dtype, shape: &[usize], data: Vec<f64>) -> Self {
        assert_eq!(shape.iter().product::<usize>(), data.len());
        let strides = (1..=shape.len()).map(|axis| shape[axis..].iter().product());
        Self {
            dtype,
            shape: shape.to_vec(),
            strides: strides.collect(),
            offset: 0,
            data: Rc::new(data),
        }
    }

    /// The elements in the order of the shape.
    #[must_use]
    pub fn elements(&self) -> Vec<f64> {
        let mut places = vec![self.offset];
        for (size, stride) in self.shape.iter().zip(&self.strides) {
            let along = |place: usize| (0..*size).map(move |at| place + at * stride);
            places = places.into_iter().flat_map(along).collect();
        }
        places.into_iter().map(|place| self.data[place]).collect()
    }

    /// Another tensor of this dtype.
    #[must_use]
    pub fn with(&self, shape: &[usize], data: Vec<f64>) -> Self {
        Self::new(self.dtype, shape, data)
    }

    /// The axis that is counted from the front, or from the end if it is negative.
    ///
    /// # Errors
    /// Where there is no such axis; a scalar has one.
    pub fn axis(&self, axis: i64) -> Result<usize> {
        let rank = self.shape.len().max(1);
        let count = if axis < 0 {
            usize::try_from(axis.unsigned_abs()).map(|back| rank.wrapping_sub(back))
        } else {
            usize::try_from(axis)
        };
        let found = count.ok().filter(|place| *place < rank);
        found.ok_or_else(|| Stop::rejected(format!("axis {axis} of {rank}")))
    }

    /// Exchanges two axes.
    ///
    /// # Errors
    /// Where there is no such axis.
    pub fn transpose(&self, first: i64, second: i64) -> Result<Self> {
        let (first, second) = (self.axis(first)?, self.axis(second)?);
        let mut view = self.clone();
        if !self.shape.is_empty() {
            view.shape.swap(first, second);
            view.strides.swap(first, second);
        }
        Ok(view)
    }

    /// The axes in another order.
    ///
    /// # Panics
    /// For an axis that it does not have.
    #[must_use]
    pub fn permute(&self, order: &[usize]) -> Self {
        let mut view = self.clone();
        view.shape = order.iter().map(|axis| self.shape[*axis]).collect();
        view.strides = order.iter().map(|axis| self.strides[*axis]).collect();
        view
    }

    /// Every `step`-th index of an axis.
    ///
    /// # Errors
    /// Where there is no such axis, or the step is not positive.
    pub fn step(&self, axis: i64, step: i64) -> Result<Self> {
        let step = usize::try_from(step).map_err(Stop::rejected)?;
        let (axis, mut view) = (self.axis(axis)?, self.clone());
        if step == 0 {
            return Err(Stop::rejected("a step of 0"));
        }
        view.shape[axis] = view.shape[axis].div_ceil(step);
        view.strides[axis] *= step;
        Ok(view)
    }

    /// A part of an axis.
    ///
    /// # Errors
    /// Where there is no such axis, or the part is not within it.
    pub fn narrow(&self, axis: i64, start: i64, length: i64) -> Result<Self> {
        let start = usize::try_from(start).map_err(Stop::rejected)?;
        let length = usize::try_from(length).map_err(Stop::rejected)?;
        let (axis, mut view) = (self.axis(axis)?, self.clone());
        if start.saturating_add(length) > view.shape[axis] {
            return Err(Stop::rejected("a part beyond its axis"));
        }
        view.offset += start * view.strides[axis];
        view.shape[axis] = length;
        Ok(view)
    }

    /// Repeats axes of size 1, and adds axes at the front; -1 keeps a size.
    ///
    /// # Errors
    /// Where a size differs and is not 1.
    pub fn expand_to(&self, sizes: &[i64]) -> Result<Self> {
        let added = sizes.len().saturating_sub(self.shape.len());
        let own = |place: usize| place.checked_sub(added).map_or(1, |axis| self.shape[axis]);
        let sizes = sizes.iter().enumerate();
        let shape = sizes.map(|(at, size)| usize::try_from(*size).unwrap_or_else(|_| own(at)));
        self.expand(&shape.collect::<Vec<_>>())
    }

    /// Broadcasts to a shape.
    ///
    /// # Errors
    /// Where a size differs and is not 1.
    pub fn expand(&self, shape: &[usize]) -> Result<Self> {
        let reject = || Stop::rejected(format!("{:?} does not broadcast to {shape:?}", self.shape));
        let added = shape.len().checked_sub(self.shape.len());
        let mut strides = vec![0; added.ok_or_else(reject)?];
        for ((own, stride), size) in self
            .shape
            .iter()
            .zip(&self.strides)
            .zip(&shape[strides.len()..])
        {
            match *own {
                1 => strides.push(0),
                same if same == *size => strides.push(*stride),
                _ => return Err(reject()),
            }
        }
        let shape = shape.to_vec();
        Ok(Self {
            shape,
            strides,
            ..self.clone()
        })
    }
}

/// The shape that both shapes broadcast to.
///
/// # Errors
/// Where there is none.
pub fn broadcast(one: &[usize], other: &[usize]) -> Result<Vec<usize>> {
    let rank = one.len().max(other.len());
    let size = |shape: &[usize], at: usize| {
        let axis = (at + shape.len()).checked_sub(rank);
        axis.map_or(1, |axis| shape[axis])
    };
    let sizes = (0..rank).map(|at| match (size(one, at), size(other, at)) {
        (1, size) | (size, 1) => Ok(size),
        (first, second) if first == second => Ok(first),
        _ => Err(Stop::rejected(format!(
            "{one:?} and {other:?} do not broadcast"
        ))),
    });
    sizes.collect()
}

/// Reads the tensors of a safetensors file.
///
/// # Errors
/// For a damaged file, and a dtype that is not supported.
pub fn decode(bytes: &[u8], op: &str) -> Result<BTreeMap<String, Tensor>> {
    let damaged = || Stop::rejected("the inputs are damaged");
    let length = bytes.get(..8).and_then(|length| length.try_into().ok());
    let length = length.map_or(u64::MAX, u64::from_le_bytes);
    let length = usize::try_from(length).map_err(Stop::rejected)?;
    let end = length.checked_add(8).ok_or_else(damaged)?;
    let header = json::parse(bytes.get(8..end).ok_or_else(damaged)?).map_err(Stop::rejected)?;
    let Json::Object(mut entries) = header else {
        return Err(damaged());
    };
    entries.remove("__metadata__");
    let tensors = entries.into_iter().map(|(name, entry)| {
        let (dtype, shape, [from, to]) = split(&entry).ok_or_else(damaged)?;
        let unsupported = || Stop::NotSupported(format!("{op} of {dtype}"));
        let dtype = Dtype::named(dtype).ok_or_else(unsupported)?;
        let data = bytes[end..].get(from..to).ok_or_else(damaged)?;
        let data: Vec<_> = data
            .chunks_exact(dtype.size())
            .map(|one| dtype.read(one))
            .collect();
        if shape.iter().product::<usize>() != data.len() {
            return Err(damaged());
        }
        Ok((name, Tensor::new(dtype, &shape, data)))
    });
    tensors.collect()
}

/// The dtype, the shape and the range of an entry of the header.
fn split(entry: &Json) -> Option<(&str, Vec<usize>, [usize; 2])> {
    let Json::Object(entry) = entry else {
        return None;
    };
    let counts = |name: &str| match entry.get(name)? {
        Json::Array(items) => items.iter().map(count).collect::<Option<Vec<_>>>(),
        _ => None,
    };
    let Json::Text(dtype) = entry.get("dtype")? else {
        return None;
    };
    let range = counts("data_offsets")?.try_into().ok()?;
    Some((dtype, counts("shape")?, range))
}

fn count(value: &Json) -> Option<usize> {
    match value {
        Json::Integer(value) => usize::try_from(*value).ok(),
        _ => None,
    }
}

/// Writes a safetensors file with one tensor.
#[must_use]
pub fn encode(name: &str, tensor: &Tensor) -> Vec<u8> {
    let mut data = Vec::new();
    for value in tensor.elements() {
        tensor.dtype.write(value, &mut data);
    }
    let label = Dtype::ALL.iter().find(|one| one.0 == tensor.dtype);
    let (label, shape, end) = (label.map_or("", |one| one.1), &tensor.shape, data.len());
    let header = format!(
        "{{\"{name}\":{{\"dtype\":\"{label}\",\"shape\":{shape:?},\"data_offsets\":[0,{end}]}}}}"
    );
    let length = (header.len() as u64).to_le_bytes();
    [&length[..], header.as_bytes(), &data].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_of_16_bits_are_rounded_once_to_even() {
        for (value, f16, bf16) in [
            (1.0, 0x3c00, 0x3f80),
            (-0.0, 0x8000, 0x8000),
            (65519.0, 0x7bff, 0x4780),
            (65520.0, 0x7c00, 0x4780),
            (6e-8, 0x0001, 0x3381),
            (2_f64.powi(-25), 0x0000, 0x3300),
            (1.0 + 2_f64.powi(-11), 0x3c00, 0x3f80),
            (1.0 + 3.0 * 2_f64.powi(-11), 0x3c02, 0x3f80),
            (f64::INFINITY, 0x7c00, 0x7f80),
            (1e300, 0x7c00, 0x7f80),
        ] {
            assert_eq!(narrow(value, 10, -14, 0x7c00), f16, "{value}");
            assert_eq!(narrow(value, 7, -126, 0x7f80), bf16, "{value}");
        }
        assert!(Dtype::F16.round(f64::NAN).is_nan() && Dtype::Bf16.round(f64::NAN).is_nan());
    }

    #[test]
    fn views_are_read_in_the_order_of_their_shape() {
        let tensor = Tensor::new(Dtype::F32, &[2, 3], (0..6).map(f64::from).collect());
        let elements = |view: Result<Tensor>| view.unwrap().elements();
        assert_eq!(
            elements(tensor.transpose(0, -1)),
            [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
        );
        assert_eq!(elements(tensor.step(1, 2)), [0.0, 2.0, 3.0, 5.0]);
        assert_eq!(elements(tensor.narrow(1, 1, 2)), [1.0, 2.0, 4.0, 5.0]);
        let row = tensor.narrow(0, 1, 1).unwrap();
        assert_eq!(
            elements(row.expand_to(&[2, -1])),
            [3.0, 4.0, 5.0, 3.0, 4.0, 5.0]
        );
        assert!(tensor.expand(&[2, 4]).is_err() && tensor.narrow(1, 2, 2).is_err());
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let tensor = Tensor::new(Dtype::F16, &[2], vec![1.5, -2.0]);
        let read = decode(&encode("out", &tensor), "abs").unwrap();
        assert_eq!(read["out"].elements(), [1.5, -2.0]);
        assert_eq!(read["out"].dtype, Dtype::F16);
        let bytes = encode("out", &tensor);
        assert!(decode(&bytes[..bytes.len() - 1], "abs").is_err());
        let text = String::from_utf8_lossy(&bytes).replace("F16", "I16");
        let expected = Stop::NotSupported("abs of I16".to_owned());
        assert_eq!(decode(text.as_bytes(), "abs").unwrap_err(), expected);
    }
}
