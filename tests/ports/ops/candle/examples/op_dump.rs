//! candle-core's and candle-nn's operators, each by the public function of that name or the one
//! that candle documents in its place.
//!
//! candle has no bool, and its functions return indices as u32. The program reads and writes masks,
//! which are u8 there, as BOOL, and writes indices as I64; a BOOL tensor in any other place is not
//! supported. What candle does with mixed dtypes, shapes and axes is left to it.

use candle_core::shape::{Dim, Dims, ShapeWithOneHole};
use candle_core::{DType, Device, Error, Shape, Tensor, WithDType, D};
use candle_nn::{
    encoding, loss, ops, Activation, BatchNorm, Conv1d, Conv1dConfig, Conv2d, Conv2dConfig,
    ConvTranspose1d, ConvTranspose1dConfig, ConvTranspose2d, ConvTranspose2dConfig, Embedding,
    GroupNorm, LayerNorm, Module, ModuleT, PReLU, RmsNorm,
};
use harness::{not_supported, Call, Failure, Outputs, View};
use std::process::ExitCode;

#[path = "../../harness.rs"]
mod harness;

const CPU: &Device = &Device::Cpu;
/// torch.nn.functional.selu has these as constants, candle's as arguments.
const SELU: (f32, f32) = (1.673_263_2, 1.050_701);

fn main() -> ExitCode {
    harness::run(|call| match compute(call) {
        Ok(outputs) => Ok(outputs),
        Err(Stop::Failure(failure)) => Err(failure),
        Err(Stop::Candle(error)) => Err(explain(call, error)),
    })
}

/// Why a call ended: by this program, or by candle.
enum Stop {
    Failure(Failure),
    Candle(Error),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failure(failure)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Candle(error)
    }
}

type Result<T> = std::result::Result<T, Stop>;

/// What candle says that it does not have is not supported, and any other error a rejection.
fn explain(call: &Call, error: Error) -> Failure {
    match error {
        Error::WithBacktrace { inner, .. } => explain(call, *inner),
        Error::UnsupportedDTypeForOp(dtype, _) => {
            let dtype = dtype.as_str().to_uppercase();
            Failure::NotSupported(format!("{} of {dtype}", call.op))
        }
        error => error.into(),
    }
}

/// An axis in torch's counting, given to candle as it counts from the end.
#[derive(Clone, Copy)]
struct Axis(i64);

impl Axis {
    fn candle(self) -> std::result::Result<usize, D> {
        usize::try_from(self.0).map_err(|_| D::Minus(self.0.unsigned_abs() as usize))
    }
}

impl Dim for Axis {
    fn to_index(&self, shape: &Shape, op: &'static str) -> candle_core::Result<usize> {
        match self.candle() {
            Ok(front) => front.to_index(shape, op),
            Err(back) => back.to_index(shape, op),
        }
    }

    fn to_index_plus_one(&self, shape: &Shape, op: &'static str) -> candle_core::Result<usize> {
        match self.candle() {
            Ok(front) => front.to_index_plus_one(shape, op),
            Err(back) => back.to_index_plus_one(shape, op),
        }
    }
}

struct Axes(Vec<i64>);

impl Dims for Axes {
    fn to_indexes_internal(
        self,
        shape: &Shape,
        op: &'static str,
    ) -> candle_core::Result<Vec<usize>> {
        self.0
            .iter()
            .map(|&one| Axis(one).to_index(shape, op))
            .collect()
    }
}

/// A second operand.
enum Operand {
    Tensor(Tensor),
    Float(f64),
    Int(i64),
}

/// What a call gives to candle.
struct Given<'a>(&'a Call);

impl Given<'_> {
    fn fail<T>(&self, what: &str) -> Result<T> {
        Ok(not_supported(format!("{} {what}", self.0.op))?)
    }

    /// An input in its dtype, with its views; a mask is BOOL in the file and u8 in candle.
    fn load(&self, name: &str, is_mask: bool) -> Result<Tensor> {
        let input = self.0.input(name)?;
        let dtype = match &input.dtype[..] {
            "BOOL" if is_mask => DType::U8,
            "U8" => DType::U8,
            "U32" => DType::U32,
            "I16" => DType::I16,
            "I32" => DType::I32,
            "I64" => DType::I64,
            "BF16" => DType::BF16,
            "F16" => DType::F16,
            "F32" => DType::F32,
            "F64" => DType::F64,
            other => return self.fail(&format!("of {other}")),
        };
        let tensor = Tensor::from_raw_buffer(&input.data, dtype, &input.shape, CPU)?;
        let views = self.0.views(name)?;
        Ok(views.iter().try_fold(tensor, |tensor, view| match view {
            View::Transpose(first, second) => tensor.transpose(Axis(*first), Axis(*second)),
            View::Step(along, step) => tensor.unfold(Axis(*along), 1, *step)?.squeeze(D::Minus1),
            View::Narrow(along, start, length) => tensor.narrow(Axis(*along), *start, *length),
            View::Expand(sizes) => {
                let added = sizes.len() - tensor.rank();
                let kept = |(index, &size): (usize, &i64)| {
                    usize::try_from(size).unwrap_or_else(|_| tensor.dims()[index - added])
                };
                tensor.expand(sizes.iter().enumerate().map(kept).collect::<Vec<_>>())
            }
        })?)
    }

    fn tensor(&self, name: &str) -> Result<Tensor> {
        self.load(name, false)
    }

    fn optional(&self, name: &str) -> Result<Option<Tensor>> {
        self.0
            .has_input(name)
            .then(|| self.tensor(name))
            .transpose()
    }

    fn tensors(&self) -> Result<Vec<Tensor>> {
        self.0
            .names("tensors")
            .iter()
            .map(|name| self.tensor(name))
            .collect()
    }

    /// A tensor, or a number among the arguments.
    fn operand(&self, name: &str) -> Result<Operand> {
        if self.0.has_input(name) {
            return Ok(Operand::Tensor(self.tensor(name)?));
        }
        if self.0.is_int(name) {
            return Ok(Operand::Int(self.int(name)?));
        }
        Ok(Operand::Float(self.float(name)?))
    }

    fn need<T>(&self, name: &str, value: Option<T>) -> Result<T> {
        match value {
            Some(value) => Ok(value),
            None => self.fail(&format!("without {name}")),
        }
    }

    fn int(&self, name: &str) -> Result<i64> {
        self.need(name, self.0.int(name)?)
    }

    fn float(&self, name: &str) -> Result<f64> {
        self.need(name, self.0.float(name)?)
    }

    fn float_or(&self, name: &str, default: f64) -> Result<f64> {
        Ok(self.0.float(name)?.unwrap_or(default))
    }

    /// A count or a size, which is never negative in candle.
    fn size(&self, name: &str) -> Result<usize> {
        self.unsigned(name, self.int(name)?)
    }

    fn unsigned(&self, name: &str, value: i64) -> Result<usize> {
        match usize::try_from(value) {
            Ok(value) => Ok(value),
            Err(_) => self.fail(&format!("with {name} {value}")),
        }
    }

    fn sizes(&self, name: &str) -> Result<Vec<usize>> {
        let values = self.need(name, self.0.ints(name)?)?;
        values
            .into_iter()
            .map(|value| self.unsigned(name, value))
            .collect()
    }

    fn axis(&self, name: &str) -> Result<Axis> {
        Ok(Axis(self.int(name)?))
    }

    fn axis_or(&self, name: &str, default: i64) -> Result<Axis> {
        Ok(Axis(self.0.int(name)?.unwrap_or(default)))
    }

    fn axes(&self, name: &str) -> Result<Axes> {
        Ok(Axes(self.need(name, self.0.ints(name)?)?))
    }

    fn keepdim(&self) -> Result<bool> {
        Ok(self.0.bool("keepdim")?.unwrap_or(false))
    }

    /// One number for all spatial axes: candle has no other.
    fn uniform(&self, name: &str, default: usize) -> Result<usize> {
        if !self.0.has_arg(name) {
            return Ok(default);
        }
        if self.0.text(name).is_ok() {
            return self.fail(&format!("with {name} as text"));
        }
        let sizes = self.sizes(name)?;
        match sizes.iter().all(|size| *size == sizes[0]) {
            true => Ok(sizes[0]),
            false => self.fail(&format!("with {name} {sizes:?}")),
        }
    }

    fn pair(&self, name: &str) -> Result<(usize, usize)> {
        match self.sizes(name)?[..] {
            [both] => Ok((both, both)),
            [first, second] => Ok((first, second)),
            _ => self.fail(&format!("with that {name}")),
        }
    }

    /// Reads an argument that candle has no choice for: any other value is not supported.
    fn only(&self, name: &str, values: &[&str]) -> Result<()> {
        match self.0.text(name)? {
            Some(text) if !values.contains(&text) => self.fail(&format!("with {name} {text}")),
            _ => Ok(()),
        }
    }

    fn only_int(&self, name: &str, only: i64) -> Result<()> {
        match self
            .0
            .has_arg(name)
            .then(|| self.0.ints(name))
            .transpose()?
            .flatten()
        {
            Some(values) if values.iter().any(|value| *value != only) => {
                self.fail(&format!("with {name} {values:?}"))
            }
            _ => Ok(()),
        }
    }

    fn only_bool(&self, name: &str, only: bool) -> Result<()> {
        match self.0.bool(name)? {
            Some(value) if value != only => self.fail(&format!("with {name} {value}")),
            _ => Ok(()),
        }
    }

    fn dtype(&self, name: &str) -> Result<Option<DType>> {
        Ok(Some(match self.0.text(name)? {
            None => return Ok(None),
            Some("uint8") => DType::U8,
            Some("uint32") => DType::U32,
            Some("int16") => DType::I16,
            Some("int32") => DType::I32,
            Some("int64") => DType::I64,
            Some("bfloat16") => DType::BF16,
            Some("float16") => DType::F16,
            Some("float32") => DType::F32,
            Some("float64") => DType::F64,
            Some(other) => return self.fail(&format!("of {other}")),
        }))
    }

    /// The dtype of a creation: as named, or torch's default for these arguments.
    fn created(&self, names: &[&str]) -> Result<DType> {
        let all_ints = names
            .iter()
            .all(|name| !self.0.has_arg(name) || self.0.is_int(name));
        let default = if all_ints { DType::I64 } else { DType::F32 };
        Ok(self.dtype("dtype")?.unwrap_or(default))
    }
}

/// Elements in safetensors' form.
fn write(tensor: &Tensor, dtype: &str) -> Result<harness::Tensor> {
    fn bytes<T: WithDType, const N: usize>(
        tensor: &Tensor,
        convert: fn(T) -> [u8; N],
    ) -> candle_core::Result<Vec<u8>> {
        let values = tensor.flatten_all()?.to_vec1::<T>()?;
        Ok(values.into_iter().flat_map(convert).collect())
    }
    let data = match tensor.dtype() {
        DType::U8 => bytes(tensor, u8::to_le_bytes),
        DType::U32 => bytes(tensor, u32::to_le_bytes),
        DType::I16 => bytes(tensor, i16::to_le_bytes),
        DType::I32 => bytes(tensor, i32::to_le_bytes),
        DType::I64 => bytes(tensor, i64::to_le_bytes),
        DType::BF16 => bytes(tensor, half::bf16::to_le_bytes),
        DType::F16 => bytes(tensor, half::f16::to_le_bytes),
        DType::F32 => bytes(tensor, f32::to_le_bytes),
        DType::F64 => bytes(tensor, f64::to_le_bytes),
        other => return Ok(not_supported(format!("a result of {other:?}"))?),
    };
    let (dtype, shape) = (dtype.to_owned(), tensor.dims().to_vec());
    Ok(harness::Tensor {
        dtype,
        shape,
        data: data?,
    })
}

fn write_values(tensor: &Tensor) -> Result<harness::Tensor> {
    write(tensor, &tensor.dtype().as_str().to_uppercase())
}

fn write_indices(tensor: &Tensor) -> Result<harness::Tensor> {
    let wide = tensor
        .flatten_all()?
        .to_vec1::<u32>()?
        .into_iter()
        .map(i64::from);
    let data = wide.flat_map(i64::to_le_bytes).collect();
    Ok(harness::Tensor {
        dtype: "I64".to_owned(),
        shape: tensor.dims().to_vec(),
        data,
    })
}

fn one(out: harness::Tensor) -> Result<Outputs> {
    Ok(vec![("out".to_owned(), out)])
}

fn several(tensors: &[Tensor]) -> Result<Outputs> {
    let named = tensors.iter().enumerate();
    named
        .map(|(index, tensor)| Ok((format!("out.{index}"), write_values(tensor)?)))
        .collect()
}

fn compute(call: &Call) -> Result<Outputs> {
    let given = Given(call);
    match &call.op[..] {
        "eq" | "ne" | "lt" | "le" | "gt" | "ge" => one(write(&compare(&given)?, "BOOL")?),
        "argmax" | "argmin" | "argsort" => one(write_indices(&indices(&given)?)?),
        "max" | "min" if call.has_arg("dim") => {
            let (input, dim, keep) = (given.tensor("input")?, given.axis("dim")?, given.keepdim()?);
            let (values, indices) = match (&call.op[..], keep) {
                ("max", false) => (input.max(dim)?, input.argmax(dim)?),
                ("max", true) => (input.max_keepdim(dim)?, input.argmax_keepdim(dim)?),
                (_, false) => (input.min(dim)?, input.argmin(dim)?),
                (_, true) => (input.min_keepdim(dim)?, input.argmin_keepdim(dim)?),
            };
            let indices = write_indices(&indices)?;
            Ok(vec![
                ("values".to_owned(), write_values(&values)?),
                ("indices".to_owned(), indices),
            ])
        }
        "sort" => {
            let (values, indices) = given.tensor("input")?.sort_last_dim(ascending(&given)?)?;
            let indices = write_indices(&indices)?;
            Ok(vec![
                ("values".to_owned(), write_values(&values)?),
                ("indices".to_owned(), indices),
            ])
        }
        "chunk" => {
            let dim = given.axis_or("dim", 0)?;
            several(&given.tensor("input")?.chunk(given.size("chunks")?, dim)?)
        }
        "meshgrid" => {
            given.only("indexing", &["ij", "xy"])?;
            let is_xy = call.text("indexing")? == Some("xy");
            several(&Tensor::meshgrid(&given.tensors()?, is_xy)?)
        }
        op => one(write_values(&value(op, &given)?)?),
    }
}

fn compare(given: &Given) -> Result<Tensor> {
    let input = given.tensor("input")?;
    let op = &given.0.op[..];
    if let Operand::Tensor(other) = given.operand("other")? {
        return Ok(match op {
            "eq" => input.broadcast_eq(&other),
            "ne" => input.broadcast_ne(&other),
            "lt" => input.broadcast_lt(&other),
            "le" => input.broadcast_le(&other),
            "gt" => input.broadcast_gt(&other),
            _ => input.broadcast_ge(&other),
        }?);
    }
    fn scalar<T: WithDType>(input: Tensor, op: &str, other: T) -> candle_core::Result<Tensor> {
        match op {
            "eq" => input.eq(other),
            "ne" => input.ne(other),
            "lt" => input.lt(other),
            "le" => input.le(other),
            "gt" => input.gt(other),
            _ => input.ge(other),
        }
    }
    Ok(match given.operand("other")? {
        Operand::Int(other) => scalar(input, op, other),
        _ => scalar(input, op, given.float("other")?),
    }?)
}

fn indices(given: &Given) -> Result<Tensor> {
    let input = given.tensor("input")?;
    if given.0.op == "argsort" {
        return Ok(input.arg_sort_last_dim(ascending(given)?)?);
    }
    let (dim, keep) = (given.axis("dim")?, given.keepdim()?);
    Ok(match (&given.0.op[..], keep) {
        ("argmax", false) => input.argmax(dim),
        ("argmax", true) => input.argmax_keepdim(dim),
        (_, false) => input.argmin(dim),
        (_, true) => input.argmin_keepdim(dim),
    }?)
}

/// The order of a sort; candle sorts along the last axis, and not stably.
fn ascending(given: &Given) -> Result<bool> {
    let rank = given.0.input("input")?.shape.len() as i64;
    if given.axis_or("dim", -1)?.0 != rank - 1 {
        given.only_int("dim", -1)?;
    }
    given.only_bool("stable", false)?;
    Ok(!given.0.bool("descending")?.unwrap_or(false))
}

fn value(op: &str, given: &Given) -> Result<Tensor> {
    let call = given.0;
    let input = || given.tensor("input");
    let result = match op {
        "abs" => input()?.abs(),
        "neg" => input()?.neg(),
        "sign" => input()?.sign(),
        "exp" => input()?.exp(),
        "log" => input()?.log(),
        "sqrt" => input()?.sqrt(),
        "square" => input()?.sqr(),
        "reciprocal" => input()?.recip(),
        "sin" => input()?.sin(),
        "cos" => input()?.cos(),
        "tanh" => input()?.tanh(),
        "ceil" => input()?.ceil(),
        "floor" => input()?.floor(),
        "erf" => input()?.erf(),
        "round" => match call.int("decimals")? {
            Some(decimals) => input()?.round_to(decimals as i32),
            None => input()?.round(),
        },

        "add" | "sub" | "mul" | "div" | "maximum" | "minimum" | "pow" => return binary(op, given),
        "where" => {
            let mask = given.load("condition", true)?;
            mask.where_cond(&input()?, &given.tensor("other")?)
        }
        "clamp" => return clamp(given),

        "sum" => match (call.has_arg("dim"), given.keepdim()?) {
            (false, false) => input()?.sum_all(),
            (_, false) => input()?.sum(given.axes("dim")?),
            (_, true) => input()?.sum_keepdim(given.axes("dim")?),
        },
        "mean" => match (call.has_arg("dim"), given.keepdim()?) {
            (false, false) => input()?.mean_all(),
            (_, false) => input()?.mean(given.axes("dim")?),
            (_, true) => input()?.mean_keepdim(given.axes("dim")?),
        },
        "var" => {
            given.only_int("correction", 1)?;
            let dim = given.one_axis()?;
            match given.keepdim()? {
                false => input()?.var(dim),
                true => input()?.var_keepdim(dim),
            }
        }
        "max" | "amax" if !call.has_arg("dim") => input()?.max_all(),
        "min" | "amin" if !call.has_arg("dim") => input()?.min_all(),
        "amax" => match given.keepdim()? {
            false => input()?.max(given.one_axis()?),
            true => input()?.max_keepdim(given.one_axis()?),
        },
        "amin" => match given.keepdim()? {
            false => input()?.min(given.one_axis()?),
            true => input()?.min_keepdim(given.one_axis()?),
        },
        "logsumexp" => {
            given.only_bool("keepdim", false)?;
            input()?.log_sum_exp(given.axes("dim")?)
        }
        "norm" => {
            if given.float_or("p", 2.)? != 2. {
                return given.fail("with another p than 2");
            }
            given.only_bool("keepdim", false)?;
            input()?.norm()
        }
        "cumsum" => input()?.cumsum(given.axis("dim")?),

        "gather" => input()?.gather(&given.tensor("index")?, given.axis("dim")?),
        "scatter" => input()?.scatter(
            &given.tensor("index")?,
            &given.tensor("src")?,
            given.axis("dim")?,
        ),
        "scatter_add" => input()?.scatter_add(
            &given.tensor("index")?,
            &given.tensor("src")?,
            given.axis("dim")?,
        ),
        "index_select" => input()?.index_select(&given.tensor("index")?, given.axis("dim")?),
        "index_add" => {
            let (index, source) = (given.tensor("index")?, given.tensor("source")?);
            input()?.index_add(&index, &source, given.axis("dim")?)
        }
        "narrow" => input()?.narrow(
            given.axis("dim")?,
            given.size("start")?,
            given.size("length")?,
        ),
        "select" => input()?.get_on_dim(given.axis("dim")?, given.size("index")?),
        "roll" => {
            let (shifts, axes) = (call.ints("shifts")?, call.ints("dims")?);
            match (shifts.as_deref(), axes.as_deref()) {
                (Some([shift]), Some([axis])) => input()?.roll(*shift as i32, Axis(*axis)),
                _ => return given.fail("along other than one axis"),
            }
        }
        "flip" => {
            let input = input()?;
            let axes = given.axes("dims")?.0;
            let axes: candle_core::Result<Vec<_>> = axes
                .into_iter()
                .map(|axis| input.normalize_axis(axis))
                .collect();
            input.flip(&axes?)
        }

        "reshape" => return reshape(given),
        "transpose" => input()?.transpose(given.axis("dim0")?, given.axis("dim1")?),
        "permute" => input()?.permute(given.axes("dims")?),
        "squeeze" => input()?.squeeze(given.one_axis()?),
        "unsqueeze" => input()?.unsqueeze(given.axis("dim")?),
        "broadcast_to" => input()?.broadcast_as(given.sizes("shape")?),
        "flatten" => input()?.flatten(
            given.axis_or("start_dim", 0)?,
            given.axis_or("end_dim", -1)?,
        ),
        "cat" => Tensor::cat(&given.tensors()?, given.axis_or("dim", 0)?),
        "stack" => Tensor::stack(&given.tensors()?, given.axis_or("dim", 0)?),
        "tile" => {
            let repeats = given.sizes("dims")?;
            if repeats.len() < call.input("input")?.shape.len() {
                return given.fail("with fewer repeats than axes");
            }
            input()?.repeat(repeats)
        }
        "pad" => return pad(given),
        "unfold" => {
            let dim = given.axis("dimension")?;
            input()?.unfold(dim, given.size("size")?, given.size("step")?)
        }

        "matmul" => input()?.broadcast_matmul(&given.tensor("other")?),
        "bmm" => input()?.matmul(&given.tensor("mat2")?),
        "mv" => input()?.mv(&given.tensor("vec")?),
        "dot" => input()?.dot(&given.tensor("tensor")?),

        "conv1d" | "conv2d" | "conv_transpose1d" | "conv_transpose2d" => {
            return convolve(op, given)
        }
        "max_pool2d" | "avg_pool2d" => {
            given.only_int("padding", 0)?;
            given.only_int("dilation", 1)?;
            given.only_bool("ceil_mode", false)?;
            // Without padding there is nothing to count.
            call.bool("count_include_pad")?;
            let kernel = given.pair("kernel_size")?;
            let stride = if call.has_arg("stride") {
                given.pair("stride")?
            } else {
                kernel
            };
            match op {
                "max_pool2d" => input()?.max_pool2d_with_stride(kernel, stride),
                _ => input()?.avg_pool2d_with_stride(kernel, stride),
            }
        }

        "layer_norm" => {
            given.last_axis_alone()?;
            let (weight, eps) = (given.tensor("weight")?, given.float_or("eps", 1e-5)?);
            let norm = match given.optional("bias")? {
                Some(bias) => LayerNorm::new(weight, bias, eps),
                None => LayerNorm::new_no_bias(weight, eps),
            };
            norm.forward(&input()?)
        }
        "rms_norm" => {
            given.last_axis_alone()?;
            RmsNorm::new(given.tensor("weight")?, given.float("eps")?).forward(&input()?)
        }
        "group_norm" => {
            let (input, weight) = (input()?, given.tensor("weight")?);
            let (channels, groups) = (input.dim(1)?, given.size("num_groups")?);
            let eps = given.float_or("eps", 1e-5)?;
            let norm = GroupNorm::new(weight, given.tensor("bias")?, channels, groups, eps);
            norm?.forward(&input)
        }
        "batch_norm" => return batch_norm(given),

        "sigmoid" => ops::sigmoid(&input()?),
        "relu" => input()?.relu(),
        "relu6" => Activation::Relu6.forward(&input()?),
        "leaky_relu" => ops::leaky_relu(&input()?, given.float_or("negative_slope", 0.01)?),
        "elu" => input()?.elu(given.float_or("alpha", 1.)?),
        "selu" => ops::selu(&input()?, SELU.0, SELU.1),
        "gelu" => match call.text("approximate")?.unwrap_or("none") {
            "tanh" => input()?.gelu(),
            "none" => input()?.gelu_erf(),
            other => return given.fail(&format!("with approximate {other}")),
        },
        "silu" => input()?.silu(),
        "mish" => ops::mish(&input()?),
        "hardsigmoid" => ops::hard_sigmoid(&input()?),
        "hardswish" => Activation::HardSwish.forward(&input()?),
        "softmax" => ops::softmax(&input()?, given.axis("dim")?),
        "log_softmax" => ops::log_softmax(&input()?, given.axis("dim")?),
        "prelu" => {
            let weight = given.tensor("weight")?;
            let is_scalar = weight.elem_count() == 1;
            PReLU::new(weight, is_scalar).forward(&input()?)
        }

        "mse_loss" => {
            given.only("reduction", &["mean"])?;
            loss::mse(&input()?, &given.tensor("target")?)
        }
        "huber_loss" => {
            given.only("reduction", &["mean"])?;
            loss::huber(
                &input()?,
                &given.tensor("target")?,
                given.float_or("delta", 1.)?,
            )
        }
        "cross_entropy" => {
            given.only("reduction", &["mean"])?;
            loss::cross_entropy(&input()?, &given.tensor("target")?)
        }
        "nll_loss" => {
            given.only("reduction", &["mean"])?;
            loss::nll(&input()?, &given.tensor("target")?)
        }
        "binary_cross_entropy_with_logits" => {
            given.only("reduction", &["mean"])?;
            loss::binary_cross_entropy_with_logit(&input()?, &given.tensor("target")?)
        }

        "interpolate" => return interpolate(given),
        "pixel_shuffle" => ops::pixel_shuffle(&input()?, given.size("upscale_factor")?),
        "pixel_unshuffle" => ops::pixel_unshuffle(&input()?, given.size("downscale_factor")?),

        "cast" => {
            let dtype = given.dtype("dtype")?;
            input()?.to_dtype(given.need("dtype", dtype)?)
        }

        "arange" => return arange(given),
        "eye" => {
            if call.has_arg("m") && call.int("m")? != call.int("n")? {
                return given.fail("with m other than n");
            }
            Tensor::eye(
                given.size("n")?,
                given.dtype("dtype")?.unwrap_or(DType::F32),
                CPU,
            )
        }
        "full" => return full(given),
        "one_hot" => {
            let indices = input()?;
            encoding::one_hot(indices, given.size("num_classes")?, 1i64, 0i64)
        }
        "embedding" => {
            let weight = given.tensor("weight")?;
            let width = weight.dim(1)?;
            Embedding::new(weight, width).forward(&input()?)
        }
        _ => return Ok(not_supported(op)?),
    };
    Ok(result?)
}

impl Given<'_> {
    /// The axis of a function that takes one alone.
    fn one_axis(&self) -> Result<Axis> {
        match self.axes("dim")?.0[..] {
            [axis] => Ok(Axis(axis)),
            _ => self.fail("along other than one axis"),
        }
    }

    /// Accepts a `normalized_shape` of one axis; candle takes the last one.
    fn last_axis_alone(&self) -> Result<()> {
        match self.sizes("normalized_shape")?.len() {
            1 => Ok(()),
            _ => self.fail("over more than one axis"),
        }
    }
}

fn binary(op: &str, given: &Given) -> Result<Tensor> {
    given.only("rounding_mode", &[])?;
    let input = given.tensor("input")?;
    let result = match (
        op,
        given.operand(if op == "pow" { "exponent" } else { "other" })?,
    ) {
        ("add", Operand::Tensor(other)) => input.broadcast_add(&other),
        ("sub", Operand::Tensor(other)) => input.broadcast_sub(&other),
        ("mul", Operand::Tensor(other)) => input.broadcast_mul(&other),
        ("div", Operand::Tensor(other)) => input.broadcast_div(&other),
        ("maximum", Operand::Tensor(other)) => input.broadcast_maximum(&other),
        ("minimum", Operand::Tensor(other)) => input.broadcast_minimum(&other),
        (_, Operand::Tensor(other)) => input.broadcast_pow(&other),
        ("add", other) => &input + other.float(),
        ("sub", other) => &input - other.float(),
        ("mul", other) => &input * other.float(),
        ("div", other) => &input / other.float(),
        ("maximum", Operand::Int(other)) => input.maximum(other),
        ("maximum", other) => input.maximum(other.float()),
        ("minimum", Operand::Int(other)) => input.minimum(other),
        ("minimum", other) => input.minimum(other.float()),
        (_, other) => input.powf(other.float()),
    };
    Ok(result?)
}

impl Operand {
    /// A number as candle's operators take it.
    fn float(&self) -> f64 {
        match self {
            Operand::Float(value) => *value,
            Operand::Int(value) => *value as f64,
            Operand::Tensor(_) => f64::NAN,
        }
    }
}

fn clamp(given: &Given) -> Result<Tensor> {
    let input = given.tensor("input")?;
    Ok(match (given.operand("min")?, given.operand("max")?) {
        (Operand::Tensor(min), Operand::Tensor(max)) => input.clamp(&min, &max),
        (Operand::Int(min), Operand::Int(max)) => input.clamp(min, max),
        (min, max) => input.clamp(min.float(), max.float()),
    }?)
}

/// Reshapes; a hole is candle's `()`, in shapes of up to five axes.
fn reshape(given: &Given) -> Result<Tensor> {
    fn to<S: ShapeWithOneHole>(input: &Tensor, shape: S) -> Result<Tensor> {
        Ok(input.reshape(shape)?)
    }
    let input = &given.tensor("input")?;
    let shape = given.need("shape", given.0.ints("shape")?)?;
    if shape.iter().all(|size| *size >= 0) {
        return to(
            input,
            shape.iter().map(|size| *size as usize).collect::<Vec<_>>(),
        );
    }
    let size = |index: usize| given.unsigned("shape", shape[index]);
    match shape[..] {
        [-1] => to(input, ((),)),
        [-1, _] => to(input, ((), size(1)?)),
        [_, -1] => to(input, (size(0)?, ())),
        [-1, _, _] => to(input, ((), size(1)?, size(2)?)),
        [_, -1, _] => to(input, (size(0)?, (), size(2)?)),
        [_, _, -1] => to(input, (size(0)?, size(1)?, ())),
        _ => given.fail(&format!("to {shape:?}")),
    }
}

/// Pads one axis with zeros or its last element, or two axes by one element.
fn pad(given: &Given) -> Result<Tensor> {
    let (input, pad) = (given.tensor("input")?, given.sizes("pad")?);
    let mode = given.0.text("mode")?.unwrap_or("constant");
    if given.float_or("value", 0.)? != 0. {
        return given.fail("with another value than 0");
    }
    Ok(match (mode, &pad[..]) {
        ("constant", [left, right]) => input.pad_with_zeros(D::Minus1, *left, *right),
        ("replicate", [left, right]) => input.pad_with_same(D::Minus1, *left, *right),
        ("replicate", [all, others @ ..]) if others.len() == 3 && *others == [*all; 3] => {
            ops::replication_pad2d(&input, *all)
        }
        _ => return given.fail(&format!("with mode {mode} and pad {pad:?}")),
    }?)
}

fn convolve(op: &str, given: &Given) -> Result<Tensor> {
    let (input, weight) = (given.tensor("input")?, given.tensor("weight")?);
    let bias = given.optional("bias")?;
    let (padding, stride) = (given.uniform("padding", 0)?, given.uniform("stride", 1)?);
    let (dilation, groups) = (given.uniform("dilation", 1)?, given.uniform("groups", 1)?);
    let cudnn_fwd_algo = None;
    if op == "conv1d" {
        let config = Conv1dConfig {
            padding,
            stride,
            dilation,
            groups,
            cudnn_fwd_algo,
        };
        return Ok(Conv1d::new(weight, bias, config).forward(&input)?);
    }
    if op == "conv2d" {
        let config = Conv2dConfig {
            padding,
            stride,
            dilation,
            groups,
            cudnn_fwd_algo,
        };
        return Ok(Conv2d::new(weight, bias, config).forward(&input)?);
    }
    let output_padding = given.uniform("output_padding", 0)?;
    if op == "conv_transpose1d" {
        let config = ConvTranspose1dConfig {
            padding,
            output_padding,
            stride,
            dilation,
            groups,
        };
        return Ok(ConvTranspose1d::new(weight, bias, config).forward(&input)?);
    }
    if groups != 1 {
        return given.fail("with groups");
    }
    let config = ConvTranspose2dConfig {
        padding,
        output_padding,
        stride,
        dilation,
    };
    Ok(ConvTranspose2d::new(weight, bias, config).forward(&input)?)
}

fn batch_norm(given: &Given) -> Result<Tensor> {
    let (input, mean) = (given.tensor("input")?, given.tensor("running_mean")?);
    let (variance, eps) = (given.tensor("running_var")?, given.float_or("eps", 1e-5)?);
    let channels = mean.elem_count();
    let training = given.0.bool("training")?.unwrap_or(false);
    let norm = match given.optional("weight")? {
        Some(weight) => {
            let bias = given.tensor("bias")?;
            BatchNorm::new(channels, mean, variance, weight, bias, eps)
        }
        None => BatchNorm::new_no_bias(channels, mean, variance, eps),
    };
    Ok(norm?.forward_t(&input, training)?)
}

fn interpolate(given: &Given) -> Result<Tensor> {
    let input = given.tensor("input")?;
    let mode = given.0.text("mode")?.unwrap_or("nearest");
    if mode == "bilinear" {
        let corners = given.0.bool("align_corners")?.unwrap_or(false);
        if given.0.has_arg("size") {
            let (height, width) = given.pair("size")?;
            return Ok(input.upsample_bilinear2d(height, width, corners)?);
        }
        let factors = given.need("scale_factor", given.0.floats("scale_factor")?)?;
        let (height, width) = (factors[0], factors[factors.len() - 1]);
        return Ok(input.upsample_bilinear2d_with_scale(height, width, corners)?);
    }
    match (mode, input.rank()) {
        ("nearest", 3) => match given.sizes("size")?[..] {
            [size] => Ok(input.interpolate1d(size)?),
            _ => given.fail("with that size"),
        },
        ("nearest", 4) => {
            let (height, width) = given.pair("size")?;
            Ok(input.interpolate2d(height, width)?)
        }
        (mode, rank) => given.fail(&format!("with mode {mode} of {rank} axes")),
    }
}

/// Calls a generic function with the type of a dtype.
macro_rules! with_type {
    ($given:expr, $dtype:expr, $function:ident($($argument:expr),*)) => {
        match $dtype {
            DType::U8 => $function::<u8>($($argument),*),
            DType::U32 => $function::<u32>($($argument),*),
            DType::I16 => $function::<i16>($($argument),*),
            DType::I32 => $function::<i32>($($argument),*),
            DType::I64 => $function::<i64>($($argument),*),
            DType::BF16 => $function::<half::bf16>($($argument),*),
            DType::F16 => $function::<half::f16>($($argument),*),
            DType::F32 => $function::<f32>($($argument),*),
            DType::F64 => $function::<f64>($($argument),*),
            other => return $given.fail(&format!("of {other:?}")),
        }
    };
}

fn arange(given: &Given) -> Result<Tensor> {
    fn typed<T: WithDType>(start: f64, end: f64, step: Option<f64>) -> candle_core::Result<Tensor> {
        let (start, end) = (T::from_f64(start), T::from_f64(end));
        match step {
            Some(step) => Tensor::arange_step(start, end, T::from_f64(step), CPU),
            None => Tensor::arange(start, end, CPU),
        }
    }
    let dtype = given.created(&["start", "end", "step"])?;
    let (start, end) = (given.float_or("start", 0.)?, given.float("end")?);
    let step = given.0.float("step")?;
    Ok(with_type!(given, dtype, typed(start, end, step))?)
}

fn full(given: &Given) -> Result<Tensor> {
    fn typed<T: WithDType>(value: f64, size: Vec<usize>) -> candle_core::Result<Tensor> {
        Tensor::full(T::from_f64(value), size, CPU)
    }
    let dtype = given.created(&["fill_value"])?;
    let (value, size) = (given.float("fill_value")?, given.sizes("size")?);
    // An integer beyond 2^53 has no f64.
    if let (DType::I64, Some(value)) = (dtype, given.0.int("fill_value").ok().flatten()) {
        return Ok(Tensor::full(value, size, CPU)?);
    }
    Ok(with_type!(given, dtype, typed(value, size))?)
}
