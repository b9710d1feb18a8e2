//! The names that a checkpoint may import, and what calling them describes.
//!
//! Source: the pickles that torch 2 writes, read with `pickletools.dis`. There is no way from
//! here to any other code: a name that is not listed is a refusal.

use super::value::{Heap, Place, StorageRef, TensorRef, Value};
use crate::error::{refuse, Refusal, Result};
use crate::scalar::Dtype;
use std::rc::Rc;

/// Something that a pickle imported.
#[derive(Debug, Clone)]
pub(super) enum Global {
    OrderedDict,
    RebuildTensor,
    /// As the former, and the dtype follows: for dtypes that have no storage class.
    RebuildTensorOfDtype,
    RebuildParameter,
    /// `torch.Size`, which is a tuple.
    Size,
    /// `torch.device`: nothing that a dump shows.
    Device,
    /// A storage class; `None` is untyped.
    Storage(Option<Dtype>),
    Dtype(Dtype),
    /// A dtype that is no trouble until a tensor has it.
    UnreadDtype(Rc<str>),
}

/// Storage classes of `torch`, without the word `Storage`.
const STORAGES: [(&str, Dtype); 10] = [
    ("Float", Dtype::F32),
    ("Double", Dtype::F64),
    ("Half", Dtype::F16),
    ("BFloat16", Dtype::Bf16),
    ("Long", Dtype::I64),
    ("Int", Dtype::I32),
    ("Short", Dtype::I16),
    ("Char", Dtype::I8),
    ("Byte", Dtype::U8),
    ("Bool", Dtype::Bool),
];

/// Dtypes of `torch` by the name under which they are pickled.
const DTYPES: [(&str, Dtype); 18] = [
    ("float32", Dtype::F32),
    ("float64", Dtype::F64),
    ("float16", Dtype::F16),
    ("bfloat16", Dtype::Bf16),
    ("int64", Dtype::I64),
    ("int32", Dtype::I32),
    ("int16", Dtype::I16),
    ("int8", Dtype::I8),
    ("uint8", Dtype::U8),
    ("uint16", Dtype::U16),
    ("uint32", Dtype::U32),
    ("uint64", Dtype::U64),
    ("bool", Dtype::Bool),
    ("float8_e4m3fn", Dtype::F8E4m3),
    ("float8_e5m2", Dtype::F8E5m2),
    ("float8_e8m0fnu", Dtype::F8E8m0),
    ("float8_e4m3fnuz", Dtype::F8E4m3Fnuz),
    ("float8_e5m2fnuz", Dtype::F8E5m2Fnuz),
];

/// Dtypes that torch has and this crate does not read.
const UNREAD: [&str; 6] = [
    "complex32",
    "complex64",
    "complex128",
    "qint8",
    "quint8",
    "qint32",
];

/// Names that stand for tensors of a kind that is not read, and the word for that kind.
const KINDS: [(&str, &str); 6] = [
    ("Complex", "complex"),
    ("QInt", "quantized"),
    ("QUInt", "quantized"),
    ("qtensor", "quantized"),
    ("sparse", "sparse"),
    ("nested", "nested"),
];

/// The thing that `module` calls `name`.
pub(super) fn find(module: &str, name: &str) -> Result<Global> {
    let found = match (module, name) {
        ("collections", "OrderedDict") => Some(Global::OrderedDict),
        ("torch._utils", "_rebuild_tensor_v2") => Some(Global::RebuildTensor),
        ("torch._utils", "_rebuild_tensor_v3") => Some(Global::RebuildTensorOfDtype),
        ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => {
            Some(Global::RebuildParameter)
        }
        ("torch", "Size") => Some(Global::Size),
        ("torch", "device") => Some(Global::Device),
        ("torch" | "torch.storage", "UntypedStorage") => Some(Global::Storage(None)),
        ("torch", name) => storage_or_dtype(name),
        _ => None,
    };
    found.ok_or_else(|| unknown(module, name))
}

fn storage_or_dtype(name: &str) -> Option<Global> {
    let lookup = |table: &[(&str, Dtype)], name: &str| {
        let found = table.iter().find(|(known, _)| *known == name);
        found.map(|&(_, dtype)| dtype)
    };
    if let Some(stem) = name.strip_suffix("Storage") {
        return lookup(&STORAGES, stem).map(|dtype| Global::Storage(Some(dtype)));
    }
    if UNREAD.contains(&name) {
        return Some(Global::UnreadDtype(name.into()));
    }
    lookup(&DTYPES, name).map(Global::Dtype)
}

fn unknown(module: &str, name: &str) -> Refusal {
    let shown: String = format!("{module}.{name}").chars().take(100).collect();
    let kind = KINDS.iter().find(|(part, _)| name.contains(part));
    match kind {
        Some((_, kind)) if module.starts_with("torch") => {
            Refusal::new(format!("{kind} tensors are not read ({shown:?})"))
        }
        _ => Refusal::new(format!(
            "the pickle imports {shown:?}, which describes no tensor"
        )),
    }
}

/// What a call of `function` with the tuple `args` describes.
pub(super) fn call(function: &Value, args: &[Value], heap: &Heap) -> Result<Called> {
    let Value::Global(function) = function else {
        return refuse("the pickle calls something that is no function");
    };
    match function {
        Global::OrderedDict => ordered_dict(args, heap),
        Global::RebuildTensor => tensor(args, None, heap),
        Global::RebuildTensorOfDtype => tensor_of_dtype(args, heap),
        Global::RebuildParameter => parameter(args),
        Global::Size => size(args),
        Global::Device => Ok(Called::Value(Value::Other)),
        _ => refuse("the pickle calls a storage class or a dtype"),
    }
}

/// The result of a call; a new dict is made by the caller, who may change the heap.
pub(super) enum Called {
    Value(Value),
    /// A dict with these keys and values, which take turns.
    Dict(Vec<Value>),
}

/// `OrderedDict()`, or with one list of pairs, as Python 2 wrote it.
fn ordered_dict(args: &[Value], heap: &Heap) -> Result<Called> {
    let pairs = match args {
        [] => &[],
        [Value::List(place)] => heap.items(*place),
        _ => return refuse("OrderedDict has arguments of another shape"),
    };
    let mut flat = Vec::with_capacity(2 * pairs.len());
    for pair in pairs {
        match pair {
            Value::List(place) | Value::Tuple(place) if heap.items(*place).len() == 2 => {
                flat.extend_from_slice(heap.items(*place));
            }
            _ => return refuse("OrderedDict is given something other than pairs"),
        }
    }
    Ok(Called::Dict(flat))
}

/// `torch.Size((2, 3))` is its own argument.
fn size(args: &[Value]) -> Result<Called> {
    match args {
        [Value::Tuple(place)] => Ok(Called::Value(Value::Tuple(*place))),
        _ => refuse("torch.Size has arguments of another shape"),
    }
}

/// `(data, requires_grad, hooks[, state])` is its data.
fn parameter(args: &[Value]) -> Result<Called> {
    match args {
        [Value::Tensor(tensor), _, _] | [Value::Tensor(tensor), _, _, _] => {
            Ok(Called::Value(Value::Tensor(Rc::clone(tensor))))
        }
        _ => refuse("a parameter is rebuilt from something other than a tensor"),
    }
}

/// `(storage, offset, size, stride, requires_grad, hooks, dtype[, metadata])`.
fn tensor_of_dtype(args: &[Value], heap: &Heap) -> Result<Called> {
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
fn tensor(args: &[Value], dtype: Option<Dtype>, heap: &Heap) -> Result<Called> {
    let [Value::Storage(storage), offset, shape, strides, _, _, metadata @ ..] = args else {
        return refuse("a tensor is rebuilt from other arguments than a storage and its view");
    };
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

/// `("storage", class, key, location, length)`; the legacy stream adds a view, which torch
/// has written as None since 0.4.
pub(super) fn persistent(id: &[Value]) -> Result<StorageRef> {
    let [tag, class, key, location, length, view @ ..] = id else {
        return refuse("a persistent id has another shape than a storage's");
    };
    if &*tag.text("a persistent id's tag")? != "storage" || !matches!(view, [] | [Value::None]) {
        return refuse("a persistent id names something other than a whole storage");
    }
    let Value::Global(Global::Storage(dtype)) = class else {
        return refuse("a persistent id has no storage class");
    };
    location.text("a storage's location")?;
    let key = key.text("a storage's key")?;
    let length = length.count("a storage's length")?;
    Ok(StorageRef {
        key,
        dtype: *dtype,
        length,
    })
}
