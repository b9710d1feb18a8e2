//! The tensors that the calls of a pickle rebuild.
//!
//! Source: `torch/_utils.py` and `torch/_tensor.py` of torch 2.

use super::globals::{Called, Global};
use super::value::{Heap, Place, TensorRef, Value};
use crate::error::{refuse, Refusal, Result};
use crate::scalar::Dtype;
use std::rc::Rc;

/// `(data, requires_grad, hooks[, state])` is its data.
pub(super) fn parameter(args: &[Value]) -> Result<Called> {
    match args {
        [Value::Tensor(tensor), grad, _] | [Value::Tensor(tensor), grad, _, _] => {
            check_grad(grad)?;
            Ok(Called::Value(Value::Tensor(Rc::clone(tensor))))
        }
        _ => refuse("a parameter is rebuilt from something other than a tensor"),
    }
}

/// `(function, class, arguments, state)`: what the function rebuilds; attributes are not read.
pub(super) fn from_type(args: &[Value], heap: &Heap) -> Result<Called> {
    let [Value::Global(function), Value::Global(Global::TensorClass), Value::Tuple(place), _] =
        args
    else {
        return refuse("a tensor is rebuilt from something other than torch.Tensor");
    };
    let args = heap.items(*place);
    match function {
        Global::RebuildView => view(args, heap),
        Global::RebuildTensor => tensor(args, None, heap),
        Global::RebuildTensorOfDtype => tensor_of_dtype(args, heap),
        _ => refuse("a tensor with state is rebuilt by something that rebuilds none"),
    }
}

/// `(storage, offset, size, stride)`.
pub(super) fn view(args: &[Value], heap: &Heap) -> Result<Called> {
    match args {
        [_, _, _, _] => tensor(&[args, &[Value::True, Value::None]].concat(), None, heap),
        _ => refuse("a tensor is rebuilt from other arguments than a storage and its view"),
    }
}

/// `(storage, offset, size, stride, requires_grad, hooks, dtype[, metadata])`.
pub(super) fn tensor_of_dtype(args: &[Value], heap: &Heap) -> Result<Called> {
    match args.get(6) {
        Some(Value::Global(Global::Dtype(dtype))) => {
            let mut others = args.to_vec();
            others.remove(6);
            tensor(&others, Some(*dtype), heap)
        }
        Some(Value::Global(Global::UnreadDtype(name))) => {
            refuse(format!("tensors of torch.{name} are not read"))
        }
        _ => refuse("a tensor is rebuilt without a dtype"),
    }
}

/// `(storage, offset, size, stride, requires_grad, hooks[, metadata])`.
pub(super) fn tensor(args: &[Value], dtype: Option<Dtype>, heap: &Heap) -> Result<Called> {
    let [Value::Storage(storage), offset, shape, strides, grad, _, metadata @ ..] = args else {
        return refuse("a tensor is rebuilt from other arguments than a storage and its view");
    };
    check_grad(grad)?;
    check_metadata(metadata, heap)?;
    let dtype = dtype.or(storage.dtype);
    let dtype = dtype.ok_or_else(|| Refusal::new("a tensor lies on an untyped storage"))?;
    let (shape, strides) = (
        heap.counts(shape, "a shape")?,
        heap.counts(strides, "strides")?,
    );
    if shape.len() != strides.len() {
        return refuse(format!(
            "shape {shape:?} and strides {strides:?} differ in length"
        ));
    }
    let storage = Rc::clone(storage);
    let offset = offset.count("a storage offset")?;
    let tensor = TensorRef {
        storage,
        dtype,
        offset,
        shape,
        strides,
    };
    Ok(Called::Value(Value::Tensor(Rc::new(tensor))))
}

/// Whether a tensor needs a gradient is a bool: torch takes nothing else.
fn check_grad(grad: &Value) -> Result<()> {
    match grad {
        Value::True | Value::Other => Ok(()),
        _ => refuse("requires_grad of a tensor is no bool"),
    }
}

/// `{"neg": True}` and `{"conj": True}` mark views whose elements change on reading.
fn check_metadata(metadata: &[Value], heap: &Heap) -> Result<()> {
    let set = |place: &Place| {
        heap.pairs(*place)
            .iter()
            .any(|(_, flag)| matches!(flag, Value::True))
    };
    match metadata {
        [] | [Value::None] => Ok(()),
        [Value::Dict(place)] if !set(place) => Ok(()),
        [Value::Dict(_)] => refuse("tensors that are negated or conjugated views are not read"),
        _ => refuse("a tensor is rebuilt with too many arguments"),
    }
}
