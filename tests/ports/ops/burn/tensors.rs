//! burn's tensors from and to the harness's; a rank is a type parameter there.

use crate::harness::{axis, not_supported, refused, Call, Outputs, Result, Tensor as Raw, View};
use burn_tensor::kind::Basic;
use burn_tensor::{BoolStore, DType, Device, Int, Slice, Tensor, TensorData};

pub type Bool<const D: usize> = Tensor<D, burn_tensor::Bool>;
pub type Ints<const D: usize> = Tensor<D, Int>;
pub type Floats<const D: usize> = Tensor<D>;

/// A tensor of any of burn's three kinds.
pub enum Any<const D: usize> {
    Float(Floats<D>),
    Int(Ints<D>),
    Bool(Bool<D>),
}

const DTYPES: [(&str, &str, DType); 13] = [
    ("F64", "float64", DType::F64),
    ("F32", "float32", DType::F32),
    ("F16", "float16", DType::F16),
    ("BF16", "bfloat16", DType::BF16),
    ("I64", "int64", DType::I64),
    ("I32", "int32", DType::I32),
    ("I16", "int16", DType::I16),
    ("I8", "int8", DType::I8),
    ("U64", "uint64", DType::U64),
    ("U32", "uint32", DType::U32),
    ("U16", "uint16", DType::U16),
    ("U8", "uint8", DType::U8),
    ("BOOL", "bool", DType::Bool(BoolStore::Native)),
];

/// burn's dtype of safetensors' or torch's name.
pub fn dtype(name: &str) -> Result<DType> {
    let mut all = DTYPES.iter();
    match all.find(|(file, torch, _)| *file == name || *torch == name) {
        Some((_, _, dtype)) if Device::default().supports_dtype(*dtype) => Ok(*dtype),
        _ => not_supported(format!("tensors of {name}")),
    }
}

/// An input of any kind, with leading axes of size 1 up to this rank: burn broadcasts tensors of
/// one rank alone.
pub fn any<const D: usize>(call: &Call, name: &str) -> Result<Any<D>> {
    let raw = call.input(name)?;
    Ok(match dtype(&raw.dtype)? {
        dtype if dtype.is_float() => Any::Float(place(call, name, raw, dtype)?),
        dtype if dtype.is_bool() => Any::Bool(place(call, name, raw, dtype)?),
        dtype => Any::Int(place(call, name, raw, dtype)?),
    })
}

/// An input of exactly this rank.
pub fn exact<const D: usize>(call: &Call, name: &str) -> Result<Any<D>> {
    match rank(call, name)? {
        rank if rank == D => any(call, name),
        rank => refused(format!("{name} has the rank {rank}, not {D}: another type")),
    }
}

pub fn float<const D: usize>(call: &Call, name: &str) -> Result<Floats<D>> {
    match exact(call, name)? {
        Any::Float(tensor) => Ok(tensor),
        _ => other_kind(call, name),
    }
}

pub fn int<const D: usize>(call: &Call, name: &str) -> Result<Ints<D>> {
    match exact(call, name)? {
        Any::Int(tensor) => Ok(tensor),
        _ => other_kind(call, name),
    }
}

pub fn other_kind<T>(call: &Call, name: &str) -> Result<T> {
    let dtype = &call.input(name)?.dtype;
    not_supported(format!("{} with {name} of {dtype}", call.op))
}

/// The rank of an input after its views.
pub fn rank(call: &Call, name: &str) -> Result<usize> {
    let mut rank = call.input(name)?.shape.len();
    for view in call.views(name)? {
        if let View::Expand(sizes) = view {
            rank = sizes.len();
        }
    }
    Ok(rank)
}

fn place<const D: usize, K: Basic>(
    call: &Call,
    name: &str,
    raw: &Raw,
    dtype: DType,
) -> Result<Tensor<D, K>> {
    let mut rank = raw.shape.len();
    let mut shape = vec![1; D - rank];
    shape.extend(&raw.shape);
    let data = TensorData::from_bytes_vec(raw.data.clone(), shape, dtype);
    let mut tensor = Tensor::from_data(data, (&Device::default(), dtype));
    for view in call.views(name)? {
        let place = |along: i64, rank: usize| (D - rank + axis(along, rank)) as i64;
        tensor = match view {
            View::Transpose(a, b) => tensor.swap_dims(place(a, rank), place(b, rank)),
            View::Step(along, step) => {
                tensor.slice_dim(place(along, rank), Slice::new(0, None, step as isize))
            }
            View::Narrow(along, start, length) => tensor.narrow(place(along, rank), start, length),
            View::Expand(sizes) => {
                rank = sizes.len();
                let mut all = [1; D];
                all[D - rank..].copy_from_slice(&sizes);
                tensor.expand(all)
            }
        };
    }
    Ok(tensor)
}

/// A tensor as it is written.
pub trait Dump {
    fn dump(self) -> Raw;
}

impl<const D: usize, K: Basic> Dump for Tensor<D, K> {
    fn dump(self) -> Raw {
        let data = self.into_data();
        let name = DTYPES.iter().find(|(_, _, dtype)| *dtype == data.dtype());
        Raw {
            dtype: name.map_or_else(|| format!("{:?}", data.dtype()), |name| name.0.to_owned()),
            shape: data.shape().to_vec(),
            data: data.as_bytes().to_vec(),
        }
    }
}

pub fn one<const D: usize, K: Basic>(tensor: Tensor<D, K>) -> Result<Outputs> {
    Ok(vec![("out".to_owned(), tensor.dump())])
}

/// The result of a reduction to one number, which burn has in a tensor of rank 1.
pub fn scalar<K: Basic>(tensor: Tensor<1, K>) -> Result<Outputs> {
    let mut raw = tensor.dump();
    if raw.shape == [1] {
        raw.shape.clear();
    }
    Ok(vec![("out".to_owned(), raw)])
}

pub fn list<const D: usize, K: Basic>(tensors: Vec<Tensor<D, K>>) -> Result<Outputs> {
    let named = tensors.into_iter().enumerate();
    Ok(named
        .map(|(index, tensor)| (format!("out.{index}"), tensor.dump()))
        .collect())
}

/// Both outputs of a function that gives indices, too.
pub fn pair<const D: usize, K: Basic>(both: (Tensor<D, K>, Ints<D>)) -> Result<Outputs> {
    Ok(vec![
        ("values".to_owned(), both.0.dump()),
        ("indices".to_owned(), both.1.dump()),
    ])
}

/// Without the reduced axes, which burn leaves with size 1, unless `keepdim` is true.
pub fn drop_axes(call: &Call, dims: &[i64], outputs: Outputs) -> Result<Outputs> {
    if call.bool("keepdim")?.unwrap_or(false) {
        return Ok(outputs);
    }
    let drop = |(name, mut raw): (String, Raw)| {
        let rank = raw.shape.len();
        let reduced: Vec<usize> = dims.iter().map(|dim| axis(*dim, rank)).collect();
        let sizes = raw.shape.iter().enumerate();
        raw.shape = sizes
            .filter(|(index, size)| !(reduced.contains(index) && **size == 1))
            .map(|(_, size)| *size)
            .collect();
        (name, raw)
    };
    Ok(outputs.into_iter().map(drop).collect())
}

/// One kind of a tensor of any kind.
pub trait FromAny<const D: usize>: Sized {
    fn from_any(any: Any<D>) -> Option<Self>;
}

macro_rules! from_any {
    ($kind:ident, $tensor:ident) => {
        impl<const D: usize> FromAny<D> for $tensor<D> {
            fn from_any(any: Any<D>) -> Option<Self> {
                match any {
                    Any::$kind(tensor) => Some(tensor),
                    _ => None,
                }
            }
        }
    };
}

from_any!(Float, Floats);
from_any!(Int, Ints);
from_any!(Bool, Bool);
