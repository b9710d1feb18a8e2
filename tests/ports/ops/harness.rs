//! What the operator programs of this folder share; it knows no port's types.
//!
//! `op_dump OP ARGS INPUTS OUT` makes one call of one operator: ARGS is a JSON object with torch's
//! names, INPUTS a safetensors file (absent where the operator has no tensor for input), OUT the
//! safetensors file to write. A rejection by the port is a line on stderr and exit code 1; what the
//! port does not have is `not supported: WHAT` and exit code 3. An argument or an input that the
//! program never asks for is not supported, so that no option is ignored.

// No program uses all of it.
#![allow(dead_code)]

use serde_json::{json, Map, Value};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

/// A tensor, row-major; the dtype has safetensors' name.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub dtype: String,
    pub shape: Vec<usize>,
    pub data: Vec<u8>,
}

/// Why there is no result.
#[derive(Debug)]
pub enum Failure {
    /// The port has no such operator, option or dtype.
    NotSupported(String),
    /// The port has it and rejects this call.
    Refused(String),
}

pub type Result<T> = std::result::Result<T, Failure>;

/// The outputs by their names.
pub type Outputs = Vec<(String, Tensor)>;

/// Any error of a port is a rejection; a backtrace may follow its first line.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let text = error.to_string();
        Failure::Refused(text.lines().next().unwrap_or_default().to_owned())
    }
}

pub fn not_supported<T>(what: impl Into<String>) -> Result<T> {
    Err(Failure::NotSupported(what.into()))
}

pub fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(Failure::Refused(why.into()))
}

/// How an input is looked at before the call. A port applies it without a copy where it can.
#[derive(Clone, Debug, PartialEq)]
pub enum View {
    Transpose(i64, i64),
    /// Every n-th element of an axis, from the first one on.
    Step(i64, usize),
    Expand(Vec<i64>),
    /// Axis, start and length.
    Narrow(i64, usize, usize),
}

/// One call: its operator, and its arguments and inputs, which count as used once asked for.
pub struct Call {
    pub op: String,
    args: Map<String, Value>,
    inputs: BTreeMap<String, Tensor>,
    used: RefCell<BTreeSet<String>>,
}

impl Call {
    fn arg(&self, name: &str) -> Option<&Value> {
        self.used.borrow_mut().insert(name.to_owned());
        self.args.get(name).filter(|value| !value.is_null())
    }

    pub fn has_arg(&self, name: &str) -> bool {
        self.args.get(name).is_some_and(|value| !value.is_null())
    }

    pub fn has_input(&self, name: &str) -> bool {
        self.inputs.contains_key(name)
    }

    fn convert<T>(&self, name: &str, convert: fn(&Value) -> Option<T>) -> Result<Option<T>> {
        let Some(value) = self.arg(name) else {
            return Ok(None);
        };
        match convert(value) {
            Some(value) => Ok(Some(value)),
            None => not_supported(format!("{} with {name} {value}", self.op)),
        }
    }

    pub fn int(&self, name: &str) -> Result<Option<i64>> {
        self.convert(name, Value::as_i64)
    }

    /// A number, or `"inf"`, `"-inf"`, `"nan"`.
    pub fn float(&self, name: &str) -> Result<Option<f64>> {
        self.convert(name, number)
    }

    pub fn bool(&self, name: &str) -> Result<Option<bool>> {
        self.convert(name, Value::as_bool)
    }

    pub fn text(&self, name: &str) -> Result<Option<&str>> {
        let Some(value) = self.arg(name) else {
            return Ok(None);
        };
        match value.as_str() {
            Some(text) => Ok(Some(text)),
            None => not_supported(format!("{} with {name} {value}", self.op)),
        }
    }

    /// A list of integers; one integer alone is a list of one.
    pub fn ints(&self, name: &str) -> Result<Option<Vec<i64>>> {
        self.convert(name, |value| match value {
            Value::Array(all) => all.iter().map(Value::as_i64).collect(),
            one => one.as_i64().map(|one| vec![one]),
        })
    }

    pub fn floats(&self, name: &str) -> Result<Option<Vec<f64>>> {
        self.convert(name, |value| match value {
            Value::Array(all) => all.iter().map(number).collect(),
            one => number(one).map(|one| vec![one]),
        })
    }

    /// Whether an argument is a list, not one number.
    pub fn is_list(&self, name: &str) -> bool {
        self.args.get(name).is_some_and(Value::is_array)
    }

    /// Whether an argument is an integer, not a float: torch's promotion depends on it.
    pub fn is_int(&self, name: &str) -> bool {
        self.args.get(name).is_some_and(Value::is_i64)
    }

    pub fn optional(&self, name: &str) -> Option<&Tensor> {
        self.used.borrow_mut().insert(format!("input {name}"));
        self.inputs.get(name)
    }

    pub fn input(&self, name: &str) -> Result<&Tensor> {
        match self.optional(name) {
            Some(found) => Ok(found),
            None => not_supported(format!("{} without {name}", self.op)),
        }
    }

    /// The names of a list of inputs, `PREFIX.0`, `PREFIX.1` and so on.
    pub fn names(&self, prefix: &str) -> Vec<String> {
        let names = (0..).map(|index| format!("{prefix}.{index}"));
        names.take_while(|name| self.has_input(name)).collect()
    }

    /// The views of an input, in the order in which they apply.
    pub fn views(&self, name: &str) -> Result<Vec<View>> {
        let Some(views) = self.arg("views").and_then(|views| views.get(name)) else {
            return Ok(Vec::new());
        };
        let of_object = |view: &Value| -> Option<Vec<View>> {
            view.as_object()?
                .iter()
                .map(|(kind, values)| parse_view(kind, values))
                .collect()
        };
        let parsed: Option<Vec<Vec<View>>> = match views {
            Value::Array(all) => all.iter().map(of_object).collect(),
            one => of_object(one).map(|one| vec![one]),
        };
        match parsed {
            Some(parsed) => Ok(parsed.concat()),
            None => not_supported(format!("{} with the view {views}", self.op)),
        }
    }

    /// The name of an argument or an input that was never asked for.
    fn unused(&self) -> Option<String> {
        let used = self.used.borrow();
        let mut args = self
            .args
            .iter()
            .filter(|(name, value)| !value.is_null() && !used.contains(*name));
        let mut inputs = self
            .inputs
            .keys()
            .filter(|name| !used.contains(&format!("input {name}")));
        let arg = args.next().map(|(name, value)| format!("{name} {value}"));
        arg.or_else(|| inputs.next().map(|name| format!("the input {name}")))
    }
}

fn number(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some("inf") => Some(f64::INFINITY),
        Some("-inf") => Some(f64::NEG_INFINITY),
        Some("nan") => Some(f64::NAN),
        Some(_) => None,
        None => value.as_f64(),
    }
}

fn parse_view(kind: &str, values: &Value) -> Option<View> {
    let values: Option<Vec<i64>> = values.as_array()?.iter().map(Value::as_i64).collect();
    let values = values?;
    let size = |index: usize| usize::try_from(values[index]).ok();
    match (kind, values.len()) {
        ("transpose", 2) => Some(View::Transpose(values[0], values[1])),
        ("step", 2) => Some(View::Step(values[0], size(1)?)),
        ("expand", _) => Some(View::Expand(values)),
        ("narrow", 3) => Some(View::Narrow(values[0], size(1)?, size(2)?)),
        _ => None,
    }
}

/// An axis counted from the front.
pub fn axis(axis: i64, rank: usize) -> usize {
    usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }).unwrap_or(usize::MAX)
}

/// Bytes of one element.
pub fn size_of(dtype: &str) -> usize {
    match dtype {
        "BOOL" | "U8" | "I8" => 1,
        "U16" | "I16" | "F16" | "BF16" => 2,
        "U32" | "I32" | "F32" => 4,
        "U64" | "I64" | "F64" | "C64" => 8,
        _ => 1,
    }
}

/// Broadcasts axes to `sizes`, where -1 keeps a size; further axes are added in front.
pub fn expand<S: Clone + Default>(shape: &mut Vec<usize>, strides: &mut Vec<S>, sizes: &[i64]) {
    let added = sizes.len() - shape.len();
    shape.splice(0..0, vec![1; added]);
    strides.splice(0..0, vec![S::default(); added]);
    for (index, size) in sizes.iter().enumerate() {
        if *size >= 0 && shape[index] != *size as usize {
            (shape[index], strides[index]) = (*size as usize, S::default());
        }
    }
}

/// Applies a view by copying, for a port that has no such view.
pub fn copy_view(tensor: &Tensor, view: &View) -> Tensor {
    let mut strides = vec![1; tensor.shape.len()];
    for index in (1..strides.len()).rev() {
        strides[index - 1] = strides[index] * tensor.shape[index];
    }
    let (mut shape, mut start, rank) = (tensor.shape.clone(), 0, tensor.shape.len());
    match view {
        View::Transpose(first, second) => {
            shape.swap(axis(*first, rank), axis(*second, rank));
            strides.swap(axis(*first, rank), axis(*second, rank));
        }
        View::Step(along, step) => {
            let along = axis(*along, rank);
            shape[along] = shape[along].div_ceil(*step);
            strides[along] *= step;
        }
        View::Expand(sizes) => expand(&mut shape, &mut strides, sizes),
        View::Narrow(along, first, length) => {
            let along = axis(*along, rank);
            shape[along] = *length;
            start = first * strides[along];
        }
    }
    let (size, mut data) = (size_of(&tensor.dtype), Vec::new());
    for flat in 0..shape.iter().product() {
        let (mut rest, mut place) = (flat, start);
        for index in (0..shape.len()).rev() {
            place += rest % shape[index] * strides[index];
            rest /= shape[index];
        }
        data.extend(&tensor.data[place * size..][..size]);
    }
    Tensor {
        dtype: tensor.dtype.clone(),
        shape,
        data,
    }
}

/// Makes the call of the command line with `compute`, and writes its outputs.
pub fn run(compute: fn(&Call) -> Result<Outputs>) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [op, args, inputs, output] = &words[..] else {
        eprintln!("usage: op_dump OP ARGS INPUTS OUT");
        return ExitCode::from(2);
    };
    match make_call(op, args, Path::new(inputs), Path::new(output), compute) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::NotSupported(what)) => {
            eprintln!("not supported: {what}");
            ExitCode::from(3)
        }
        Err(Failure::Refused(why)) => {
            eprintln!("FAILED: {why}");
            ExitCode::FAILURE
        }
    }
}

fn make_call(
    op: &str,
    args: &str,
    inputs: &Path,
    output: &Path,
    compute: fn(&Call) -> Result<Outputs>,
) -> Result<()> {
    let inputs = if inputs.exists() {
        read(&std::fs::read(inputs)?)?
    } else {
        BTreeMap::new()
    };
    let args = serde_json::from_str(args)?;
    let call = Call {
        op: op.to_owned(),
        args,
        inputs,
        used: RefCell::default(),
    };
    let outputs = compute(&call)?;
    match call.unused() {
        Some(unused) => not_supported(format!("{op} with {unused}")),
        None => Ok(std::fs::write(output, write(&outputs))?),
    }
}

/// Reads a safetensors file.
pub fn read(file: &[u8]) -> Result<BTreeMap<String, Tensor>> {
    let broken = || Failure::Refused("the inputs are not a safetensors file".to_owned());
    let length = file
        .first_chunk()
        .map(|bytes| u64::from_le_bytes(*bytes) as usize);
    let (header, data) = length
        .and_then(|length| file[8..].split_at_checked(length))
        .ok_or_else(broken)?;
    let header: BTreeMap<String, Value> = serde_json::from_slice(header)?;
    let entries = header
        .into_iter()
        .filter(|(name, _)| name != "__metadata__");
    let parse = |entry: &Value| -> Option<Tensor> {
        let numbers = |key: &str| -> Option<Vec<usize>> {
            entry[key]
                .as_array()?
                .iter()
                .map(|one| one.as_u64().map(|one| one as usize))
                .collect()
        };
        let offsets = numbers("data_offsets")?;
        Some(Tensor {
            dtype: entry["dtype"].as_str()?.to_owned(),
            shape: numbers("shape")?,
            data: data.get(*offsets.first()?..*offsets.get(1)?)?.to_vec(),
        })
    };
    entries
        .map(|(name, entry)| Ok((name, parse(&entry).ok_or_else(broken)?)))
        .collect()
}

/// The bytes of a safetensors file with these tensors.
pub fn write(tensors: &[(String, Tensor)]) -> Vec<u8> {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for (name, tensor) in tensors {
        let offsets = [data.len(), data.len() + tensor.data.len()];
        data.extend(&tensor.data);
        let entry = json!({"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": offsets});
        header.insert(name.clone(), entry);
    }
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.bytes().chain(data));
    file
}
