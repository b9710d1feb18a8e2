//! The names that a checkpoint may import, and what calling them describes.
//!
//! Source: the pickles that torch 2 writes, read with `pickletools.dis`. There is no way from
//! here to any other code: a name that is not listed is a refusal.

use super::rebuild;
use super::value::{Heap, StorageRef, Value};
use crate::error::{refuse, Refusal, Result};
use crate::scalar::Dtype;
use std::rc::Rc;

/// Something that a pickle imported.
#[derive(Debug, Clone)]
pub(super) enum Global {
    OrderedDict,
    /// A view by its storage, offset, shape and strides alone, as before torch 0.4.
    RebuildView,
    RebuildTensor,
    /// As the former, and the dtype follows: for dtypes that have no storage class.
    RebuildTensorOfDtype,
    RebuildParameter,
    /// A tensor with state: the call that rebuilds it, its class, arguments and attributes.
    RebuildFromType,
    /// The class `torch.Tensor`.
    TensorClass,
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
        ("torch._utils", "_rebuild_tensor") => Some(Global::RebuildView),
        ("torch._utils", "_rebuild_tensor_v2") => Some(Global::RebuildTensor),
        ("torch._utils", "_rebuild_tensor_v3") => Some(Global::RebuildTensorOfDtype),
        ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => {
            Some(Global::RebuildParameter)
        }
        ("torch._tensor", "_rebuild_from_type_v2") => Some(Global::RebuildFromType),
        ("torch", "Tensor") => Some(Global::TensorClass),
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
        Global::RebuildView => rebuild::view(args, heap),
        Global::RebuildTensor => rebuild::tensor(args, None, heap),
        Global::RebuildTensorOfDtype => rebuild::tensor_of_dtype(args, heap),
        Global::RebuildParameter => rebuild::parameter(args),
        Global::RebuildFromType => rebuild::from_type(args, heap),
        Global::Size => size(args),
        Global::Device => Ok(Called::Value(Value::Other)),
        _ => refuse("the pickle calls a class or a dtype"),
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
        has_view: !view.is_empty(),
    })
}
