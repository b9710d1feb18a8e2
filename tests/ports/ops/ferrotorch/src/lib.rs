//! What the dump program, the example `op_dump`, reads and writes, and how it takes arguments.

#[path = "../../harness.rs"]
pub mod harness;

use ferrotorch_core::{
    self as core, BoolTensor, FerrotorchResult, Float, IntElement, IntTensor, Tensor,
};
use ferrotorch_nn::Reduction;
use harness::{axis, copy_view, expand, not_supported, Call, Outputs, Result, View};

pub trait Number: Copy {
    const NAME: &'static str;
    fn read(bytes: &[u8]) -> Self;
    fn write(self) -> Vec<u8>;
    fn from_f64(number: f64) -> Self;
}

macro_rules! numbers {
    ($($type:ty: $name:literal, $from:expr;)*) => {$(
        impl Number for $type {
            const NAME: &'static str = $name;
            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().unwrap_or_default())
            }
            fn write(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
            fn from_f64(number: f64) -> Self {
                $from(number)
            }
        }
    )*};
}

numbers! {
    f32: "F32", |number| number as f32;
    f64: "F64", |number| number;
    half::f16: "F16", half::f16::from_f64;
    half::bf16: "BF16", half::bf16::from_f64;
    i32: "I32", |number| number as i32;
    i64: "I64", |number| number as i64;
}

pub trait Real: Float + Number {
    fn of(number: f64) -> Self {
        <Self as Number>::from_f64(number)
    }
}

impl<T: Float + Number> Real for T {}

fn read_numbers<N: Number>(call: &Call, name: &str) -> Result<harness::Tensor> {
    let found = call.input(name)?.clone();
    if found.dtype != N::NAME {
        return not_supported(format!("{} of {} and {}", call.op, N::NAME, found.dtype));
    }
    Ok(found)
}

fn parse<N: Number>(bytes: &[u8]) -> Vec<N> {
    let size = std::mem::size_of::<N>();
    bytes.chunks_exact(size).map(N::read).collect()
}

/// A tensor of floats, with its views as views of the port.
pub fn floats<T: Real>(call: &Call, name: &str) -> Result<Tensor<T>> {
    let found = read_numbers::<T>(call, name)?;
    let mut tensor = core::from_vec(parse::<T>(&found.data), &found.shape)?;
    for view in call.views(name)? {
        tensor = apply_view(tensor, &view)?;
    }
    Ok(tensor)
}

fn apply_view<T: Real>(tensor: Tensor<T>, view: &View) -> Result<Tensor<T>> {
    let rank = tensor.ndim();
    let (mut shape, mut strides) = (tensor.shape().to_vec(), tensor.strides().to_vec());
    match view {
        View::Transpose(first, second) => {
            return Ok(tensor.transpose(axis(*first, rank), axis(*second, rank))?)
        }
        View::Narrow(along, start, length) => {
            return Ok(tensor.narrow(axis(*along, rank), *start, *length)?)
        }
        View::Step(along, step) => {
            let along = axis(*along, rank);
            shape[along] = shape[along].div_ceil(*step);
            strides[along] *= *step as isize;
        }
        View::Expand(sizes) => expand(&mut shape, &mut strides, sizes),
    }
    Ok(tensor.as_strided(&shape, &strides, Some(tensor.storage_offset()))?)
}

/// An input with its views applied: the port's integers and booleans have no strides.
fn copied(call: &Call, name: &str) -> Result<harness::Tensor> {
    let views = call.views(name)?;
    let start = call.input(name)?.clone();
    Ok(views.iter().fold(start, |tensor, view| copy_view(&tensor, view)))
}

pub fn integers<I: IntElement + Number>(call: &Call, name: &str) -> Result<IntTensor<I>> {
    read_numbers::<I>(call, name)?;
    let found = copied(call, name)?;
    Ok(IntTensor::from_vec(parse(&found.data), found.shape)?)
}

pub fn bools(call: &Call, name: &str) -> Result<BoolTensor> {
    let found = copied(call, name)?;
    if found.dtype != "BOOL" {
        return not_supported(format!("{} with {name} of {}", call.op, found.dtype));
    }
    let values = found.data.iter().map(|byte| *byte != 0).collect();
    Ok(BoolTensor::from_vec(values, found.shape)?)
}

/// Indices for a function that takes them as `usize`, and their shape.
pub fn unsigned(call: &Call, name: &str) -> Result<(Vec<usize>, Vec<usize>)> {
    let found = integers::<i64>(call, name)?;
    let values = found.data()?.iter().map(|index| usize::try_from(*index));
    match values.collect() {
        Ok(values) => Ok((values, found.shape().to_vec())),
        Err(_) => not_supported(format!("{} with a negative index", call.op)),
    }
}

/// Classes or indices for a function that takes them as floats.
pub fn classes<T: Real>(call: &Call, name: &str) -> Result<Tensor<T>> {
    match call.input(name)?.dtype.as_str() {
        "I64" => Ok(integers::<i64>(call, name)?.to_float()?),
        _ => floats(call, name),
    }
}

pub trait Give {
    fn give(self) -> Result<harness::Tensor>;
}

fn give<N: Number>(values: &[N], shape: &[usize]) -> harness::Tensor {
    harness::Tensor {
        dtype: N::NAME.to_owned(),
        shape: shape.to_vec(),
        data: values.iter().flat_map(|value| value.write()).collect(),
    }
}

impl<T: Real> Give for Tensor<T> {
    fn give(self) -> Result<harness::Tensor> {
        Ok(give(&self.data_vec()?, self.shape()))
    }
}

impl<I: IntElement + Number> Give for IntTensor<I> {
    fn give(self) -> Result<harness::Tensor> {
        Ok(give(self.data()?, self.shape()))
    }
}

impl Give for BoolTensor {
    fn give(self) -> Result<harness::Tensor> {
        Ok(harness::Tensor {
            dtype: "BOOL".to_owned(),
            shape: self.shape().to_vec(),
            data: self.data()?.iter().map(|value| u8::from(*value)).collect(),
        })
    }
}

/// Indices that the port returns as a plain vector.
pub struct Indices(pub Vec<usize>, pub Vec<usize>);

impl Give for Indices {
    fn give(self) -> Result<harness::Tensor> {
        let values: Vec<i64> = self.0.iter().map(|index| *index as i64).collect();
        Ok(give(&values, &self.1))
    }
}

pub fn out(value: impl Give) -> Result<Outputs> {
    Ok(vec![("out".to_owned(), value.give()?)])
}

pub fn pair(first: (&str, impl Give), second: (&str, impl Give)) -> Result<Outputs> {
    let first = (first.0.to_owned(), first.1.give()?);
    Ok(vec![first, (second.0.to_owned(), second.1.give()?)])
}

pub fn list<T: Real>(all: Vec<Tensor<T>>) -> Result<Outputs> {
    let name = |(index, one): (usize, Tensor<T>)| Ok((format!("out.{index}"), one.give()?));
    all.into_iter().enumerate().map(name).collect()
}

// Arguments.

/// One axis; several at once are not supported.
pub fn dim(call: &Call) -> Result<Option<i64>> {
    match call.ints("dim")?.as_deref() {
        None => Ok(None),
        Some([one]) => Ok(Some(*one)),
        Some(several) => not_supported(format!("{} with dim {several:?}", call.op)),
    }
}

/// An axis for a function that counts it from the front.
pub fn dim_of(call: &Call, name: &str, rank: usize, default: i64) -> Result<usize> {
    Ok(axis(call.int(name)?.unwrap_or(default), rank))
}

pub fn keepdim(call: &Call) -> Result<bool> {
    Ok(call.bool("keepdim")?.unwrap_or(false))
}

pub fn number(call: &Call, name: &str, default: f64) -> Result<f64> {
    Ok(call.float(name)?.unwrap_or(default))
}

/// An argument without a default.
pub fn stated<V>(call: &Call, name: &str, value: Option<V>) -> Result<V> {
    match value {
        Some(value) => Ok(value),
        None => not_supported(format!("{} without {name}", call.op)),
    }
}

/// What the port does without choice.
pub fn fixed<V: PartialEq + std::fmt::Debug>(
    call: &Call,
    name: &str,
    value: Option<V>,
    expected: V,
) -> Result<()> {
    match value {
        Some(value) if value != expected => {
            not_supported(format!("{} with {name} {value:?}", call.op))
        }
        _ => Ok(()),
    }
}

pub fn to_usize(call: &Call, name: &str, value: i64) -> Result<usize> {
    match usize::try_from(value) {
        Ok(value) => Ok(value),
        Err(_) => not_supported(format!("{} with {name} {value}", call.op)),
    }
}

pub fn size(call: &Call, name: &str) -> Result<usize> {
    to_usize(call, name, stated(call, name, call.int(name)?)?)
}

pub fn sizes(call: &Call, name: &str) -> Result<Option<Vec<usize>>> {
    let Some(values) = call.ints(name)? else {
        return Ok(None);
    };
    let values = values.into_iter().map(|value| to_usize(call, name, value));
    values.collect::<Result<Vec<usize>>>().map(Some)
}

/// One number for each of N axes; one number alone is for all.
pub fn each<const N: usize>(call: &Call, name: &str, default: [usize; N]) -> Result<[usize; N]> {
    match sizes(call, name)?.as_deref() {
        None => Ok(default),
        Some([one]) => Ok([*one; N]),
        Some(several) => match several.try_into() {
            Ok(several) => Ok(several),
            Err(_) => not_supported(format!("{} with {name} {several:?}", call.op)),
        },
    }
}

pub fn signed(call: &Call, name: &str) -> Result<Option<Vec<isize>>> {
    let values = call.ints(name)?;
    Ok(values.map(|values| values.into_iter().map(|value| value as isize).collect()))
}

pub fn reduction_of(call: &Call) -> Result<Reduction> {
    match call.text("reduction")? {
        None | Some("mean") => Ok(Reduction::Mean),
        Some("sum") => Ok(Reduction::Sum),
        Some("none") => Ok(Reduction::None),
        Some(other) => not_supported(format!("{} with reduction {other}", call.op)),
    }
}

/// Reduces one axis, or the whole input to a 0-d tensor.
pub fn reduce<V: Give>(
    call: &Call,
    whole: impl FnOnce() -> FerrotorchResult<V>,
    along: impl FnOnce(i64, bool) -> FerrotorchResult<V>,
) -> Result<Outputs> {
    match (dim(call)?, keepdim(call)?) {
        (None, false) => out(whole()?),
        (None, true) => not_supported(format!("{} of all axes with keepdim", call.op)),
        (Some(dim), keepdim) => out(along(dim, keepdim)?),
    }
}

/// Reduces the whole input; the port has no axes for it.
pub fn reduce_whole<V: Give>(
    call: &Call,
    whole: impl FnOnce() -> FerrotorchResult<V>,
) -> Result<Outputs> {
    match dim(call)? {
        None => reduce(call, whole, |_, _| unreachable!()),
        Some(dim) => not_supported(format!("{} with dim {dim}", call.op)),
    }
}

/// safetensors' name of a dtype of torch.
pub fn dtype_name(torch: &str) -> Option<&'static str> {
    match torch {
        "float32" => Some("F32"),
        "float64" => Some("F64"),
        "float16" => Some("F16"),
        "bfloat16" => Some("BF16"),
        "int32" => Some("I32"),
        "int64" => Some("I64"),
        _ => None,
    }
}
