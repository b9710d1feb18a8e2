//! ferrotorch-core and ferrotorch-nn on the operators of `op-zoo-v1`.
//!
//! Each call is one call of a public function of the port. Axes and indices that it takes as `usize`
//! are counted from the front; what a type of its signature cannot express is not supported.

use ferrotorch_core::fft::{self, fft_norm_from_str};
use ferrotorch_core::grad_fns::{
    activation, arithmetic, cumulative, indexing, reduction, shape, transcendental,
};
use ferrotorch_core::ops::{elementwise, search};
use ferrotorch_core::{
    self as core, linalg, special, BoolTensor, FerrotorchResult, GeluApproximate, IntElement,
    IntTensor, MeshIndexing, Tensor,
};
use ferrotorch_nn::{self as nn, functional, padding, pooling, upsample, Module, StateDict};
use ops_ferrotorch::harness::{self, axis, not_supported, Call, Outputs, Result};
use ops_ferrotorch::*;
use std::process::ExitCode;

fn main() -> ExitCode {
    harness::run(compute)
}

fn compute(call: &Call) -> Result<Outputs> {
    let main_input = ["weight", "input", "tensors.0", "operands.0", "A", "x1"]
        .into_iter()
        .filter(|name| *name != "weight" || call.op == "embedding")
        .find(|name| call.has_input(name));
    let dtype = match main_input {
        Some(name) => call.input(name)?.dtype.clone(),
        None => {
            let dtype = call.text("dtype")?.unwrap_or("int64");
            dtype_name(dtype).unwrap_or(dtype).to_owned()
        }
    };
    match (main_input.is_some(), dtype.as_str()) {
        (true, "F32") => on_floats::<f32>(call),
        (true, "F64") => on_floats::<f64>(call),
        (true, "F16") => on_floats::<half::f16>(call),
        (true, "BF16") => on_floats::<half::bf16>(call),
        (true, "I32") => on_integers::<i32>(call),
        (true, "I64") => on_integers::<i64>(call),
        (true, "BOOL") => on_bools(call),
        (false, "F32") => create::<f32>(call),
        (false, "F64") => create::<f64>(call),
        (false, "F16") => create::<half::f16>(call),
        (false, "BF16") => create::<half::bf16>(call),
        (false, "I32") => create_integers::<i32>(call),
        (false, "I64") => create_integers::<i64>(call),
        (_, other) => not_supported(format!("{} of {other}", call.op)),
    }
}

type Unary<T> = fn(&Tensor<T>) -> FerrotorchResult<Tensor<T>>;
type Binary<T> = fn(&Tensor<T>, &Tensor<T>) -> FerrotorchResult<Tensor<T>>;
type Compare<T> = fn(&Tensor<T>, &Tensor<T>) -> FerrotorchResult<BoolTensor>;

/// Functions of one tensor without arguments.
fn unary<T: Real>(op: &str) -> Option<Unary<T>> {
    Some(match op {
        "abs" => arithmetic::abs,
        "neg" => arithmetic::neg,
        "sqrt" => arithmetic::sqrt,
        "rsqrt" => arithmetic::rsqrt,
        "reciprocal" => arithmetic::reciprocal,
        "sign" => transcendental::sign,
        "exp" => transcendental::exp,
        "exp2" => transcendental::exp2,
        "expm1" => transcendental::expm1,
        "log" => transcendental::log,
        "log2" => transcendental::log2,
        "log10" => transcendental::log10,
        "log1p" => transcendental::log1p,
        "sin" => transcendental::sin,
        "cos" => transcendental::cos,
        "tan" => transcendental::tan,
        "asin" => transcendental::asin,
        "acos" => transcendental::acos,
        "atan" => transcendental::atan,
        "sinh" => transcendental::sinh,
        "cosh" => transcendental::cosh,
        "asinh" => transcendental::asinh,
        "acosh" => transcendental::acosh,
        "atanh" => transcendental::atanh,
        "ceil" => transcendental::ceil,
        "floor" => transcendental::floor,
        "trunc" => transcendental::trunc,
        "frac" => transcendental::frac,
        "sinc" => transcendental::sinc,
        "erf" => special::erf,
        "erfc" => special::erfc,
        "erfinv" => special::erfinv,
        "lgamma" => special::lgamma,
        "digamma" => special::digamma,
        "sigmoid" => activation::sigmoid,
        "tanh" => activation::tanh,
        "relu" => activation::relu,
        "silu" => activation::silu,
        "mish" => activation::mish,
        "relu6" => activation::relu6,
        "hardsigmoid" => activation::hardsigmoid,
        "hardswish" => activation::hardswish,
        "selu" => activation::selu,
        "softsign" => activation::softsign,
        "tanhshrink" => functional::tanhshrink,
        "logsigmoid" => functional::log_sigmoid,
        "det" => linalg::det,
        "inverse" => linalg::inv,
        "trace" => linalg::trace,
        _ => return None,
    })
}

/// Functions of two tensors without arguments, and the name of the second one.
fn binary<T: Real>(op: &str) -> Option<(&'static str, Binary<T>)> {
    Some(match op {
        "mul" => ("other", arithmetic::mul),
        "floor_divide" => ("other", arithmetic::floor_divide),
        "remainder" => ("other", arithmetic::remainder),
        "fmod" => ("other", arithmetic::fmod),
        "atan2" => ("other", transcendental::atan2),
        "hypot" => ("other", transcendental::hypot),
        "copysign" => ("other", transcendental::copysign),
        "nextafter" => ("other", transcendental::nextafter),
        "xlogy" => ("other", special::xlogy),
        "matmul" => ("other", Tensor::matmul),
        "bmm" => ("mat2", Tensor::bmm),
        "mv" => ("vec", Tensor::mv_t),
        "dot" => ("tensor", Tensor::dot_t),
        "outer" => ("vec2", linalg::outer),
        "kron" => ("other", linalg::kron),
        "prelu" => ("weight", activation::prelu),
        _ => return None,
    })
}

fn compare<T: Real>(op: &str) -> Option<Compare<T>> {
    Some(match op {
        "eq" => BoolTensor::eq_t,
        "ne" => BoolTensor::ne,
        "lt" => BoolTensor::lt,
        "le" => BoolTensor::le,
        "gt" => BoolTensor::gt,
        "ge" => BoolTensor::ge,
        _ => return None,
    })
}

fn on_floats<T: Real>(call: &Call) -> Result<Outputs> {
    let op = call.op.as_str();
    let tensor = |name: &str| floats::<T>(call, name);
    let number = |name: &str, default: f64| number(call, name, default);
    if let Some(function) = unary(op) {
        return out(function(&tensor("input")?)?);
    }
    if let Some((other, function)) = binary(op) {
        return out(function(&tensor("input")?, &tensor(other)?)?);
    }
    if let Some(function) = compare(op) {
        return out(function(&tensor("input")?, &tensor("other")?)?);
    }
    match op {
        "round" => {
            fixed(call, "decimals", call.int("decimals")?, 0)?;
            out(transcendental::round(&tensor("input")?)?)
        }
        "signbit" => out(transcendental::signbit(&tensor("input")?)?),
        "add" | "sub" => {
            let (input, other) = (tensor("input")?, tensor("other")?);
            out(match (op, call.float("alpha")?) {
                ("add", None) => arithmetic::add(&input, &other)?,
                ("add", Some(alpha)) => arithmetic::add_scaled(&input, &other, alpha)?,
                (_, None) => arithmetic::sub(&input, &other)?,
                (_, Some(alpha)) => arithmetic::sub_scaled(&input, &other, alpha)?,
            })
        }
        "div" => {
            let (input, other) = (tensor("input")?, tensor("other")?);
            match call.text("rounding_mode")? {
                None => out(arithmetic::div(&input, &other)?),
                // Rounded in place alone.
                Some(mode) => out(input.div_rounding_(&other, mode)?.clone()),
            }
        }
        "pow" => {
            let exponent = tensor("exponent")?;
            if exponent.ndim() > 0 {
                return not_supported("pow with a tensor of exponents");
            }
            let exponent = exponent.to_dtype::<f64>()?.item()?;
            out(arithmetic::pow(&tensor("input")?, exponent)?)
        }
        "where" => out(indexing::where_cond_bcast(
            &bools(call, "condition")?,
            &tensor("input")?,
            &tensor("other")?,
        )?),
        "clamp" => {
            if call.has_input("min") || call.has_input("max") {
                return not_supported("clamp with tensors for bounds");
            }
            let input = tensor("input")?;
            let bounds = (call.float("min")?.map(T::of), call.float("max")?.map(T::of));
            match bounds {
                (Some(min), Some(max)) => out(transcendental::clamp(&input, min, max)?),
                // One bound in place alone.
                (min, max) => out(input.clamp_opt_(min, max)?.clone()),
            }
        }
        "addcmul" | "addcdiv" => {
            let function = if op == "addcmul" { arithmetic::addcmul } else { arithmetic::addcdiv };
            let (first, second) = (tensor("tensor1")?, tensor("tensor2")?);
            out(function(&tensor("input")?, &first, &second, number("value", 1.0)?)?)
        }
        "masked_fill" => out(indexing::masked_fill_bcast(
            &tensor("input")?,
            &bools(call, "mask")?,
            T::of(stated(call, "value", call.float("value")?)?),
        )?),

        "sum" | "mean" | "amax" | "amin" | "prod" | "var" | "std" | "norm" | "argmax"
        | "argmin" | "all" | "any" | "max" | "min" | "median" | "logsumexp" | "count_nonzero"
        | "nansum" | "nanmean" => reductions(call, &tensor("input")?),

        "cumsum" | "cumprod" | "logcumsumexp" => {
            let function = match op {
                "cumsum" => cumulative::cumsum,
                "cumprod" => cumulative::cumprod,
                _ => cumulative::logcumsumexp,
            };
            out(function(&tensor("input")?, stated(call, "dim", dim(call)?)?)?)
        }
        "cummax" | "cummin" => {
            let function = if op == "cummax" { cumulative::cummax } else { cumulative::cummin };
            let found = function(&tensor("input")?, stated(call, "dim", dim(call)?)?)?;
            let shape = found.values.shape().to_vec();
            pair(("values", found.values), ("indices", Indices(found.indices, shape)))
        }

        "topk" => {
            let input = tensor("input")?;
            if dim_of(call, "dim", input.ndim(), -1)? + 1 != input.ndim() {
                return not_supported("topk of another axis than the last one");
            }
            let largest = call.bool("largest")?.unwrap_or(true);
            let (values, indices) = search::topk(&input, size(call, "k")?, largest)?;
            let shape = values.shape().to_vec();
            pair(("values", values), ("indices", Indices(indices, shape)))
        }
        "unique" | "unique_consecutive" => {
            let input = tensor("input")?;
            let function = if op == "unique" { search::unique } else { search::unique_consecutive };
            let (values, inverse, counts) = function(&input)?;
            let mut outputs = out(values)?;
            if call.bool("return_inverse")? == Some(true) {
                let inverse = Indices(inverse, input.shape().to_vec());
                outputs.push(("inverse_indices".to_owned(), inverse.give()?));
            }
            if call.bool("return_counts")? == Some(true) {
                let length = vec![counts.len()];
                outputs.push(("counts".to_owned(), Indices(counts, length).give()?));
            }
            Ok(outputs)
        }
        "searchsorted" | "bucketize" => {
            let (input, right) = (tensor("input")?, call.bool("right")?.unwrap_or(false));
            let found = match op {
                "bucketize" => search::bucketize(&input, &tensor("boundaries")?, right)?,
                _ => search::searchsorted(&tensor("sorted_sequence")?, &input, right)?,
            };
            out(Indices(found, input.shape().to_vec()))
        }
        "histc" => {
            let bins = to_usize(call, "bins", call.int("bins")?.unwrap_or(100))?;
            let (min, max) = (number("min", 0.0)?, number("max", 0.0)?);
            out(search::histc(&tensor("input")?, bins, min, max)?)
        }

        "gather" | "scatter" | "scatter_add" | "index_select" | "index_add" | "index_fill"
        | "take" | "masked_select" | "narrow" | "select" | "roll" | "flip"
        | "repeat_interleave" => index(call, &tensor("input")?),

        "reshape" | "transpose" | "permute" | "squeeze" | "unsqueeze" | "broadcast_to"
        | "flatten" | "cat" | "stack" | "chunk" | "split" | "tile" | "movedim" | "diagonal"
        | "tril" | "triu" | "pad" | "meshgrid" => shapes::<T>(call),

        "addmm" | "baddbmm" => {
            let names = if op == "addmm" { ["mat1", "mat2"] } else { ["batch1", "batch2"] };
            let function = if op == "addmm" { linalg::addmm } else { linalg::baddbmm };
            let (first, second) = (tensor(names[0])?, tensor(names[1])?);
            let (beta, alpha) = (T::of(number("beta", 1.0)?), T::of(number("alpha", 1.0)?));
            out(function(&tensor("input")?, &first, &second, beta, alpha)?)
        }
        "einsum" => {
            let operands = tensors::<T>(call, "operands")?;
            let operands: Vec<&Tensor<T>> = operands.iter().collect();
            let equation = stated(call, "equation", call.text("equation")?)?;
            out(core::einsum(equation, &operands)?)
        }
        "slogdet" => {
            let (sign, logabsdet) = linalg::slogdet(&tensor("input")?)?;
            pair(("sign", sign), ("logabsdet", logabsdet))
        }
        "cholesky" => {
            fixed(call, "upper", call.bool("upper")?, false)?;
            out(linalg::cholesky(&tensor("input")?)?)
        }
        "matrix_power" => {
            let power = stated(call, "n", call.int("n")?)?;
            out(linalg::matrix_power(&tensor("input")?, power)?)
        }
        "solve" => out(linalg::solve(&tensor("A")?, &tensor("B")?)?),
        "triangular_solve" => {
            fixed(call, "left", call.bool("left")?, true)?;
            let upper = stated(call, "upper", call.bool("upper")?)?;
            let unit = call.bool("unitriangular")?.unwrap_or(false);
            out(linalg::solve_triangular(&tensor("A")?, &tensor("B")?, upper, false, unit)?)
        }
        "cross" => {
            let dim = call.int("dim")?.unwrap_or(-1);
            out(linalg::cross(&tensor("input")?, &tensor("other")?, dim)?)
        }
        "cdist" => out(core::cdist(&tensor("x1")?, &tensor("x2")?, number("p", 2.0)?)?),

        "conv1d" | "conv2d" | "conv3d" | "conv_transpose1d" | "conv_transpose2d" => {
            convolution::<T>(call)
        }
        "max_pool1d"
        | "max_pool2d"
        | "avg_pool1d"
        | "avg_pool2d"
        | "adaptive_avg_pool2d"
        | "im2col" => pool(call, &tensor("input")?),
        "layer_norm" | "group_norm" | "batch_norm" | "instance_norm" | "rms_norm" | "normalize" => {
            normalise(call, &tensor("input")?)
        }

        "leaky_relu" | "elu" | "celu" | "gelu" | "softplus" | "hardtanh" | "softshrink"
        | "hardshrink" | "threshold" | "softmax" | "log_softmax" | "glu" => {
            activate(call, &tensor("input")?)
        }
        "mse_loss"
        | "l1_loss"
        | "smooth_l1_loss"
        | "huber_loss"
        | "cross_entropy"
        | "nll_loss"
        | "binary_cross_entropy"
        | "binary_cross_entropy_with_logits"
        | "kl_div" => measure(call, &tensor("input")?),
        "cosine_similarity" => {
            let (dim, eps) = (call.int("dim")?.unwrap_or(1), number("eps", 1e-8)?);
            out(functional::cosine_similarity(&tensor("x1")?, &tensor("x2")?, dim, eps)?)
        }

        "interpolate" | "grid_sample" | "pixel_shuffle" | "pixel_unshuffle" => {
            resample(call, &tensor("input")?)
        }
        "cast" => {
            let (input, dtype) = (tensor("input")?, call.text("dtype")?);
            match dtype.and_then(dtype_name) {
                Some("F32") => out(input.to_dtype::<f32>()?),
                Some("F64") => out(input.to_dtype::<f64>()?),
                Some("F16") => out(input.to_dtype::<half::f16>()?),
                Some("BF16") => out(input.to_dtype::<half::bf16>()?),
                Some("I32") => out(input.to_int::<i32>()?),
                Some("I64") => out(input.to_int::<i64>()?),
                _ => not_supported(format!("cast of {} to {dtype:?}", T::NAME)),
            }
        }
        "fft" | "ifft" | "rfft" | "irfft" | "fft2" | "fftshift" | "ifftshift" => {
            transform(call, &tensor("input")?)
        }
        "embedding" => {
            // The port takes indices as floats.
            let indices = integers::<i64>(call, "input")?.to_float::<T>()?;
            out(functional::embedding(&indices, &tensor("weight")?, None)?)
        }
        _ => not_supported(op),
    }
}

fn tensors<T: Real>(call: &Call, prefix: &str) -> Result<Vec<Tensor<T>>> {
    let names = call.names(prefix);
    names.iter().map(|name| floats(call, name)).collect()
}

fn reductions<T: Real>(call: &Call, input: &Tensor<T>) -> Result<Outputs> {
    macro_rules! reduce {
        ($whole:ident, $along:ident) => {
            reduce(call, || reduction::$whole(input), |d, k| reduction::$along(input, d, k))
        };
    }
    let correction = || number(call, "correction", 1.0);
    match call.op.as_str() {
        "sum" => reduce!(sum, sum_dim),
        "mean" => reduce!(mean, mean_dim),
        "prod" => reduce!(prod, prod_dim),
        "amax" => reduce!(amax, amax_dim),
        "amin" => reduce!(amin, amin_dim),
        "argmax" => reduce!(argmax, argmax_dim),
        "argmin" => reduce!(argmin, argmin_dim),
        "all" => reduce!(all, all_dim),
        "any" => reduce!(any, any_dim),
        "logsumexp" => reduce!(logsumexp, logsumexp_dim),
        "count_nonzero" => {
            let along = |d, _| reduction::count_nonzero_dim(input, d);
            reduce(call, || reduction::count_nonzero(input), along)
        }
        "var" => {
            let by = correction()?;
            let along = |d, k| reduction::var_dim(input, d, by, k);
            reduce(call, || reduction::var_with_correction(input, by), along)
        }
        "std" => {
            let by = correction()?;
            let along = |d, k| reduction::std_dim(input, d, by, k);
            reduce(call, || reduction::std_with_correction(input, by), along)
        }
        "norm" => {
            let p = number(call, "p", 2.0)?;
            let along = |d, k| reduction::norm_with_dim(input, p, d, k);
            reduce(call, || linalg::vector_norm(input, p), along)
        }
        "nansum" => reduce_whole(call, || elementwise::nansum(input)),
        "nanmean" => reduce_whole(call, || elementwise::nanmean(input)),
        name => {
            let function = match name {
                "max" => reduction::max_with_dim,
                "min" => reduction::min_with_dim,
                _ => reduction::median_with_dim,
            };
            let dim = stated(call, "dim", dim(call)?)?;
            let (values, indices) = function(input, dim, keepdim(call)?)?;
            pair(("values", values), ("indices", indices))
        }
    }
}

fn index<T: Real>(call: &Call, input: &Tensor<T>) -> Result<Outputs> {
    let op = call.op.as_str();
    let along = || stated(call, "dim", call.int("dim")?);
    let value = || stated(call, "value", call.float("value")?);
    let index = || integers::<i64>(call, "index");
    match op {
        "gather" => out(input.gather(along()? as isize, &index()?)?),
        "index_select" => out(input.index_select(along()? as isize, &index()?)?),
        "scatter" | "scatter_add" => {
            let dim = along()? as isize;
            let (index, shape) = unsigned(call, "index")?;
            if call.has_arg("value") {
                let value = T::of(value()?);
                return out(core::ops::indexing::scatter_value(input, dim, &index, &shape, value)?);
            }
            let function = if op == "scatter" { core::scatter } else { core::scatter_add };
            out(function(input, dim, &index, &shape, &floats(call, "src")?)?)
        }
        "index_add" => {
            let (source, alpha) = (floats(call, "source")?, number(call, "alpha", 1.0)?);
            out(indexing::index_add(input, along()?, &index()?, &source, alpha)?)
        }
        "index_fill" => out(indexing::index_fill(input, along()?, &index()?, value()?)?),
        "take" => out(indexing::take(input, &index()?)?),
        "masked_select" => out(indexing::masked_select_bcast(input, &bools(call, "mask")?)?),
        "narrow" => {
            let dim = axis(along()?, input.ndim());
            let extent = input.shape().get(dim).copied().unwrap_or(0);
            let start = dim_of(call, "start", extent, 0)?;
            out(input.narrow(dim, start, size(call, "length")?)?)
        }
        "select" => {
            let dim = axis(along()?, input.ndim());
            let extent = input.shape().get(dim).copied().unwrap_or(0);
            out(core::select(input, dim, dim_of(call, "index", extent, 0)?)?)
        }
        "roll" => {
            let shifts = stated(call, "shifts", call.ints("shifts")?)?;
            match (shifts.as_slice(), call.ints("dims")?.as_deref()) {
                ([shift], Some([dim])) => out(core::roll(input, *shift, axis(*dim, input.ndim()))?),
                _ => not_supported("roll of several axes, or without one"),
            }
        }
        "flip" => {
            let dims = stated(call, "dims", signed(call, "dims")?)?;
            out(shape::flip(input, &dims)?)
        }
        _ => {
            let (repeats, dim) = (size(call, "repeats")?, along()? as isize);
            out(shape::repeat_interleave(input, repeats, dim)?)
        }
    }
}

fn shapes<T: Real>(call: &Call) -> Result<Outputs> {
    let op = call.op.as_str();
    if op == "cat" {
        let dim = call.int("dim")?.unwrap_or(0) as isize;
        return out(core::cat(&tensors::<T>(call, "tensors")?, dim)?);
    }
    if op == "stack" {
        let all = tensors::<T>(call, "tensors")?;
        let rank = all.first().map_or(0, Tensor::ndim);
        return out(core::stack(&all, dim_of(call, "dim", rank + 1, 0)?)?);
    }
    if op == "meshgrid" {
        let indexing = match call.text("indexing")? {
            None | Some("ij") => MeshIndexing::Ij,
            Some("xy") => MeshIndexing::Xy,
            Some(other) => return not_supported(format!("meshgrid with indexing {other}")),
        };
        return list(core::meshgrid_indexing(&tensors::<T>(call, "tensors")?, indexing)?);
    }
    let input = floats::<T>(call, "input")?;
    let rank = input.ndim();
    match op {
        "reshape" => {
            let sizes = stated(call, "shape", signed(call, "shape")?)?;
            out(shape::reshape(&input, &sizes)?)
        }
        "transpose" => {
            let dims = (dim_of(call, "dim0", rank, 0)?, dim_of(call, "dim1", rank, 1)?);
            out(input.transpose(dims.0, dims.1)?)
        }
        "permute" => {
            let dims = stated(call, "dims", call.ints("dims")?)?;
            let dims: Vec<usize> = dims.iter().map(|dim| axis(*dim, rank)).collect();
            out(input.permute(&dims)?)
        }
        "squeeze" | "unsqueeze" => {
            let dim = stated(call, "dim", call.int("dim")?)? as isize;
            let function = if op == "squeeze" { shape::squeeze } else { shape::unsqueeze };
            out(function(&input, dim)?)
        }
        "broadcast_to" => {
            let sizes = stated(call, "shape", sizes(call, "shape")?)?;
            out(core::broadcast_to(&input, &sizes)?)
        }
        "flatten" if rank == 0 => out(shape::flatten(&input)?),
        "flatten" => {
            let start = dim_of(call, "start_dim", rank, 0)?;
            let end = call.int("end_dim")?.unwrap_or(-1) as isize;
            out(nn::Flatten::new(start, end).forward(&input)?)
        }
        "chunk" => list(input.chunk(size(call, "chunks")?, dim_of(call, "dim", rank, 0)?)?),
        "split" => {
            if !call.is_list("split_size_or_sections") {
                return not_supported("split into parts of one size");
            }
            let sections = sizes(call, "split_size_or_sections")?.unwrap_or_default();
            list(input.split(&sections, dim_of(call, "dim", rank, 0)?)?)
        }
        "tile" => {
            let dims = stated(call, "dims", signed(call, "dims")?)?;
            out(core::tile(&input, &dims)?)
        }
        "movedim" => {
            let source = stated(call, "source", signed(call, "source")?)?;
            let destination = stated(call, "destination", signed(call, "destination")?)?;
            out(core::movedim(&input, &source, &destination)?)
        }
        "diagonal" => {
            fixed(call, "dim1", call.int("dim1")?, 0)?;
            fixed(call, "dim2", call.int("dim2")?, 1)?;
            out(linalg::diagonal(&input, call.int("offset")?.unwrap_or(0))?)
        }
        "tril" => out(core::tril(&input, call.int("diagonal")?.unwrap_or(0))?),
        "triu" => out(core::triu(&input, call.int("diagonal")?.unwrap_or(0))?),
        _ => pad(call, &input),
    }
}

fn pad<T: Real>(call: &Call, input: &Tensor<T>) -> Result<Outputs> {
    let mode = match call.text("mode")? {
        None | Some("constant") => padding::PaddingMode::Zeros,
        Some("reflect") => padding::PaddingMode::Reflect,
        Some("replicate") => padding::PaddingMode::Replicate,
        Some("circular") => padding::PaddingMode::Circular,
        Some(other) => return not_supported(format!("pad with mode {other}")),
    };
    let value = T::of(number(call, "value", 0.0)?);
    match *stated(call, "pad", signed(call, "pad")?)? {
        [left, right] => out(padding::functional_pad_1d_signed(input, left, right, mode, value)?),
        [left, right, top, bottom] => {
            out(padding::functional_pad_2d_signed(input, left, right, top, bottom, mode, value)?)
        }
        [left, right, top, bottom, front, back] => out(padding::functional_pad_3d_signed(
            input, left, right, top, bottom, front, back, mode, value,
        )?),
        _ => not_supported("pad of so many axes"),
    }
}

fn name_parameters<T: Real>(weight: Option<Tensor<T>>, bias: Option<Tensor<T>>) -> StateDict<T> {
    let named = [("weight", weight), ("bias", bias)].into_iter();
    named.filter_map(|(name, tensor)| Some((name.to_owned(), tensor?))).collect()
}

/// The module with these parameters, computed.
fn forward<T: Real>(
    mut module: impl Module<T>,
    parameters: StateDict<T>,
    input: &Tensor<T>,
) -> Result<Outputs> {
    module.load_state_dict(&parameters, false)?;
    module.eval();
    out(module.forward(input)?)
}

fn optional<T: Real>(call: &Call, name: &str) -> Result<Option<Tensor<T>>> {
    match call.has_input(name) {
        true => floats(call, name).map(Some),
        false => Ok(None),
    }
}

fn convolution<T: Real>(call: &Call) -> Result<Outputs> {
    let (input, weight) = (floats::<T>(call, "input")?, floats::<T>(call, "weight")?);
    let bias = optional::<T>(call, "bias")?;
    let groups = to_usize(call, "groups", call.int("groups")?.unwrap_or(1))?;
    let kernel = weight.shape().get(2..).unwrap_or_default().to_vec();
    let named = match call.text("padding") {
        Ok(Some("same")) => Some(nn::StringPadding::Same),
        Ok(Some("valid")) => Some(nn::StringPadding::Valid),
        // Numbers, or none.
        _ => None,
    };
    macro_rules! convolve {
        ($n:literal, $convert:expr, $function:path, $module:ty, $name:expr
         $(, $output_padding:ident)?) => {{
            let (convert, name_padding) = ($convert, $name);
            let Ok(kernel) = <[usize; $n]>::try_from(kernel) else {
                return not_supported(format!("{} with a kernel of other axes", call.op));
            };
            let argument = |name: &str, default| each::<$n>(call, name, [default; $n]).map(convert);
            let stride = argument("stride", 1)?;
            let padding = match named {
                Some(_) => convert([0; $n]),
                None => argument("padding", 0)?,
            };
            $(let $output_padding = argument("output_padding", 0)?;)?
            let dilation = each::<$n>(call, "dilation", [1; $n])?;
            if groups == 1 && dilation == [1; $n] && named.is_none() {
                let bias = bias.as_ref();
                let found = $function(&input, &weight, bias, stride, padding $(, $output_padding)?);
                return out(found?);
            }
            let is_transposed = call.op.starts_with("conv_transpose");
            let channels = (weight.shape()[0], weight.shape()[1] * groups);
            let (inner, outer) = match is_transposed {
                true => channels,
                false => (channels.1, channels.0),
            };
            let module = <$module>::new_full(
                inner, outer, convert(kernel), stride, padding $(, $output_padding)?,
                convert(dilation), groups, bias.is_some(),
            )?;
            let module = match named {
                Some(named) => name_padding(module, named)?,
                None => module,
            };
            forward(module, name_parameters(Some(weight), bias), &input)
        }};
    }
    match call.op.as_str() {
        "conv1d" => convolve!(
            1,
            |[n]: [usize; 1]| n,
            functional::conv1d,
            nn::Conv1d<T>,
            nn::Conv1d::with_string_padding
        ),
        "conv2d" => convolve!(
            2,
            |all: [usize; 2]| all.into(),
            functional::conv2d,
            nn::Conv2d<T>,
            nn::Conv2d::with_string_padding
        ),
        "conv3d" => convolve!(
            3,
            |all: [usize; 3]| all.into(),
            functional::conv3d,
            nn::Conv3d<T>,
            nn::Conv3d::with_string_padding
        ),
        // Their padding has no names.
        "conv_transpose1d" => convolve!(
            1,
            |[n]: [usize; 1]| n,
            functional::conv_transpose1d,
            nn::ConvTranspose1d<T>,
            |module, _| FerrotorchResult::Ok(module),
            output_padding
        ),
        _ => convolve!(
            2,
            |all: [usize; 2]| all.into(),
            functional::conv_transpose2d,
            nn::ConvTranspose2d<T>,
            |module, _| FerrotorchResult::Ok(module),
            output_padding
        ),
    }
}

fn pool<T: Real>(call: &Call, input: &Tensor<T>) -> Result<Outputs> {
    if call.op == "adaptive_avg_pool2d" {
        let size = each(call, "output_size", [1; 2])?;
        return out(pooling::adaptive_avg_pool2d(input, size.into())?);
    }
    if call.op == "im2col" {
        let kernel = each(call, "kernel_size", [1; 2])?;
        let (dilation, padding) = (each(call, "dilation", [1; 2])?, each(call, "padding", [0; 2])?);
        let stride = each(call, "stride", [1; 2])?;
        return out(functional::unfold(input, kernel, dilation, padding, stride)?);
    }
    fixed(call, "ceil_mode", call.bool("ceil_mode")?, false)?;
    fixed(call, "count_include_pad", call.bool("count_include_pad")?, true)?;
    if call.op.ends_with("1d") {
        let [kernel] = each(call, "kernel_size", [1])?;
        let ([stride], [padding]) = (each(call, "stride", [kernel])?, each(call, "padding", [0])?);
        fixed(call, "dilation", Some(each(call, "dilation", [1])?), [1])?;
        return out(match call.op.as_str() {
            "max_pool1d" => pooling::max_pool1d(input, kernel, stride, padding)?,
            _ => pooling::avg_pool1d(input, kernel, stride, padding)?,
        });
    }
    let kernel = each(call, "kernel_size", [1; 2])?;
    let (stride, padding) = (each(call, "stride", kernel)?, each(call, "padding", [0; 2])?);
    fixed(call, "dilation", Some(each(call, "dilation", [1; 2])?), [1; 2])?;
    out(match call.op.as_str() {
        "max_pool2d" => pooling::max_pool2d(input, kernel, stride, padding)?,
        _ => pooling::avg_pool2d(input, kernel, stride, padding)?,
    })
}

fn normalise<T: Real>(call: &Call, input: &Tensor<T>) -> Result<Outputs> {
    let eps = number(call, "eps", 1e-5)?;
    if call.op == "normalize" {
        let (p, dim) = (number(call, "p", 2.0)?, call.int("dim")?.unwrap_or(1));
        return out(functional::normalize(input, p, dim, number(call, "eps", 1e-12)?)?);
    }
    let (weight, bias) = (optional(call, "weight")?, optional(call, "bias")?);
    let is_affine = weight.is_some() || bias.is_some();
    let parameters = name_parameters(weight, bias);
    let channels = input.shape().get(1).copied().unwrap_or(0);
    let normalised = || stated(call, "normalized_shape", sizes(call, "normalized_shape")?);
    match (call.op.as_str(), input.ndim()) {
        ("layer_norm", _) => {
            forward(nn::LayerNorm::new(normalised()?, eps, is_affine)?, parameters, input)
        }
        ("rms_norm", _) => {
            let eps = match call.has_arg("eps") {
                true => eps,
                false => epsilon::<T>(),
            };
            forward(nn::RMSNorm::new(normalised()?, eps)?, parameters, input)
        }
        ("group_norm", _) => {
            let groups = size(call, "num_groups")?;
            forward(nn::GroupNorm::new(groups, channels, eps, is_affine)?, parameters, input)
        }
        ("instance_norm", 3) => {
            forward(nn::InstanceNorm1d::new(channels, eps, is_affine)?, parameters, input)
        }
        ("instance_norm", 4) => {
            forward(nn::InstanceNorm2d::new(channels, eps, is_affine)?, parameters, input)
        }
        ("batch_norm", rank) => {
            macro_rules! batch_norm {
                ($module:ident) => {{
                    let mut module = nn::$module::<T>::new(channels, eps, 0.1, is_affine)?;
                    module.load_state_dict(&parameters, false)?;
                    if let Some(mean) = optional::<T>(call, "running_mean")? {
                        module.set_running_mean(&mean.data_vec()?)?;
                    }
                    if let Some(variance) = optional::<T>(call, "running_var")? {
                        module.set_running_var(&variance.data_vec()?)?;
                    }
                    if call.bool("training")? != Some(true) {
                        module.eval();
                    }
                    out(module.forward(input)?)
                }};
            }
            match rank {
                4 => batch_norm!(BatchNorm2d),
                5 => batch_norm!(BatchNorm3d),
                _ => batch_norm!(BatchNorm1d),
            }
        }
        (op, rank) => not_supported(format!("{op} of {rank} axes")),
    }
}

/// The machine epsilon, which the port's caller must pass.
fn epsilon<T: Real>() -> f64 {
    match T::NAME {
        "F64" => f64::EPSILON,
        "F16" => half::f16::EPSILON.to_f64(),
        "BF16" => half::bf16::EPSILON.to_f64(),
        _ => f64::from(f32::EPSILON),
    }
}

fn activate<T: Real>(call: &Call, input: &Tensor<T>) -> Result<Outputs> {
    let number = |name: &str, default: f64| number(call, name, default);
    out(match call.op.as_str() {
        "leaky_relu" => activation::leaky_relu(input, number("negative_slope", 0.01)?)?,
        "elu" => activation::elu(input, number("alpha", 1.0)?)?,
        "celu" => activation::celu(input, number("alpha", 1.0)?)?,
        "gelu" => {
            let approximate = match call.text("approximate")? {
                None | Some("none") => GeluApproximate::None,
                Some("tanh") => GeluApproximate::Tanh,
                Some(other) => return not_supported(format!("gelu with approximate {other}")),
            };
            core::gelu_with(input, approximate)?
        }
        "softplus" => {
            let (beta, threshold) = (number("beta", 1.0)?, number("threshold", 20.0)?);
            activation::softplus(input, beta, threshold)?
        }
        "hardtanh" => {
            let (min, max) = (number("min_val", -1.0)?, number("max_val", 1.0)?);
            activation::hardtanh_with(input, min, max)?
        }
        "softshrink" => nn::Softshrink::new(number("lambd", 0.5)?).forward(input)?,
        "hardshrink" => nn::Hardshrink::new(number("lambd", 0.5)?).forward(input)?,
        "threshold" => {
            let (threshold, value) = (number("threshold", 0.0)?, number("value", 0.0)?);
            activation::threshold(input, threshold, value)?
        }
        "softmax" => {
            let dim = stated(call, "dim", call.int("dim")?)?;
            nn::Softmax::new(dim as isize).forward(input)?
        }
        "log_softmax" => {
            let dim = stated(call, "dim", call.int("dim")?)?;
            nn::LogSoftmax::new(dim as isize).forward(input)?
        }
        _ => activation::glu(input, call.int("dim")?.unwrap_or(-1))?,
    })
}

fn measure<T: Real>(call: &Call, input: &Tensor<T>) -> Result<Outputs> {
    let (reduction, target) = (reduction_of(call)?, classes::<T>(call, "target")?);
    let ignored = call.int("ignore_index");
    out(match call.op.as_str() {
        "mse_loss" => nn::MSELoss::new(reduction).forward(input, &target)?,
        "l1_loss" => functional::l1_loss(input, &target, reduction)?,
        "smooth_l1_loss" => {
            fixed(call, "beta", call.float("beta")?, 1.0)?;
            nn::SmoothL1Loss::new(reduction).forward(input, &target)?
        }
        "huber_loss" => {
            let delta = number(call, "delta", 1.0)?;
            nn::HuberLoss::new(reduction, delta).forward(input, &target)?
        }
        "cross_entropy" => {
            fixed(call, "ignore_index", ignored?, -100)?;
            let smoothing = number(call, "label_smoothing", 0.0)?;
            nn::CrossEntropyLoss::new(reduction, smoothing).forward(input, &target)?
        }
        "nll_loss" => {
            let ignored = ignored?.unwrap_or(-100) as isize;
            nn::NLLLoss::new(reduction, Some(ignored)).forward(input, &target)?
        }
        "binary_cross_entropy" => functional::binary_cross_entropy(input, &target, reduction)?,
        "binary_cross_entropy_with_logits" => {
            functional::binary_cross_entropy_with_logits(input, &target, reduction)?
        }
        _ => {
            fixed(call, "log_target", call.bool("log_target")?, false)?;
            functional::kl_div(input, &target, reduction)?
        }
    })
}

fn resample<T: Real>(call: &Call, input: &Tensor<T>) -> Result<Outputs> {
    use upsample::{GridSampleMode, GridSamplePaddingMode, InterpolateMode};
    let op = call.op.as_str();
    let align_corners = call.bool("align_corners")?.unwrap_or(false);
    let mode = call.text("mode")?;
    out(match op {
        "interpolate" => {
            let mode = match mode {
                None | Some("nearest") => InterpolateMode::Nearest,
                Some("bilinear") => InterpolateMode::Bilinear,
                Some("bicubic") => InterpolateMode::Bicubic,
                Some(other) => return not_supported(format!("interpolate with mode {other}")),
            };
            let axes = || not_supported(format!("interpolate of {} axes", input.ndim()));
            let size = match sizes(call, "size")?.map(<[usize; 2]>::try_from) {
                Some(Err(_)) => return axes(),
                size => size.and_then(std::result::Result::ok),
            };
            let scale = match call.floats("scale_factor")?.map(<[f64; 2]>::try_from) {
                Some(Err(_)) => return axes(),
                scale => scale.and_then(std::result::Result::ok),
            };
            functional::interpolate(input, size, scale, mode, align_corners)?
        }
        "grid_sample" => {
            let mode = match mode {
                None | Some("bilinear") => GridSampleMode::Bilinear,
                Some("nearest") => GridSampleMode::Nearest,
                Some(other) => return not_supported(format!("grid_sample with mode {other}")),
            };
            let outside = match call.text("padding_mode")? {
                Some("border") => GridSamplePaddingMode::Border,
                Some("reflection") => GridSamplePaddingMode::Reflection,
                _ => GridSamplePaddingMode::Zeros,
            };
            functional::grid_sample(input, &floats(call, "grid")?, mode, outside, align_corners)?
        }
        "pixel_shuffle" => functional::pixel_shuffle(input, size(call, "upscale_factor")?)?,
        _ => functional::pixel_unshuffle(input, size(call, "downscale_factor")?)?,
    })
}

fn transform<T: Real>(call: &Call, input: &Tensor<T>) -> Result<Outputs> {
    let op = call.op.as_str();
    if op.ends_with("shift") {
        let function = if op == "fftshift" { core::fftshift } else { core::ifftshift };
        return out(function(input, signed(call, "dim")?.as_deref())?);
    }
    let norm = fft_norm_from_str(call.text("norm")?, "fft")?;
    if op == "fft2" {
        return out(fft::fft2_norm(input, None, None, norm)?);
    }
    let n = match call.int("n")? {
        Some(n) => Some(to_usize(call, "n", n)?),
        None => None,
    };
    let dim = call.int("dim")?.map(|dim| dim as isize);
    out(match op {
        "fft" => fft::fft_norm(input, n, dim, norm)?,
        "ifft" => fft::ifft_norm(input, n, dim, norm)?,
        "rfft" => fft::rfft_norm(input, n, dim, norm)?,
        _ => fft::irfft_norm(input, n, dim, norm)?,
    })
}

fn create<T: Real>(call: &Call) -> Result<Outputs> {
    let number = |name: &str| stated(call, name, call.float(name)?).map(T::of);
    match call.op.as_str() {
        "arange" => out(core::arange(number("start")?, number("end")?, number("step")?)?),
        "linspace" => {
            let steps = size(call, "steps")?;
            out(core::linspace(number("start")?, number("end")?, steps)?)
        }
        "eye" => out(core::eye::<T>(size(call, "n")?)?),
        "full" => {
            let sizes = stated(call, "size", sizes(call, "size")?)?;
            out(core::full(&sizes, number("fill_value")?)?)
        }
        "hann_window" if T::NAME == "F64" => {
            fixed(call, "periodic", Some(call.bool("periodic")?.unwrap_or(true)), false)?;
            out(core::signal::windows::hann(size(call, "window_length")?)?)
        }
        op => not_supported(format!("{op} of {}", T::NAME)),
    }
}

fn create_integers<I: IntElement + Number>(call: &Call) -> Result<Outputs> {
    if call.op != "arange" {
        return not_supported(format!("{} of {}", call.op, I::NAME));
    }
    fixed(call, "start", call.float("start")?, 0.0)?;
    fixed(call, "step", call.float("step")?, 1.0)?;
    out(IntTensor::<I>::arange(size(call, "end")?)?)
}

/// Integers and booleans both have `to_float`, but no trait with it.
macro_rules! to_floats {
    ($dtype:expr, $input:expr, $from:expr) => {
        match $dtype.and_then(dtype_name) {
            Some("F32") => out($input.to_float::<f32>()?),
            Some("F64") => out($input.to_float::<f64>()?),
            Some("F16") => out($input.to_float::<half::f16>()?),
            Some("BF16") => out($input.to_float::<half::bf16>()?),
            _ => not_supported(format!("cast of {} to {:?}", $from, $dtype)),
        }
    };
}

fn on_integers<I: IntElement + Number>(call: &Call) -> Result<Outputs> {
    let op = call.op.as_str();
    if !call.has_input("input") {
        return not_supported(format!("{op} of {}", I::NAME));
    }
    let input = integers::<I>(call, "input")?;
    let other = || integers::<I>(call, "other");
    match op {
        "add" | "sub" => {
            fixed(call, "alpha", call.int("alpha")?, 1)?;
            let function = if op == "add" { IntTensor::add } else { IntTensor::sub };
            out(function(&input, &other()?)?)
        }
        "mul" => out(input.mul(&other()?)?),
        "neg" => out(input.neg()?),
        "floor_divide" => out(input.floor_div(&other()?)?),
        "remainder" => out(input.remainder(&other()?)?),
        "bitwise_and" => out(input.bitand(&other()?)?),
        "bitwise_or" => out(input.bitor(&other()?)?),
        "bitwise_xor" => out(input.bitxor(&other()?)?),
        "bitwise_not" => out(input.bitnot()?),
        "bitwise_left_shift" => out(input.shl(&other()?)?),
        "bitwise_right_shift" => out(input.shr(&other()?)?),
        "eq" => out(BoolTensor::eq_int(&input, &other()?)?),
        "ne" => out(BoolTensor::ne_int(&input, &other()?)?),
        "lt" => out(BoolTensor::lt_int(&input, &other()?)?),
        "le" => out(BoolTensor::le_int(&input, &other()?)?),
        "gt" => out(BoolTensor::gt_int(&input, &other()?)?),
        "ge" => out(BoolTensor::ge_int(&input, &other()?)?),
        "sum" => reduce_whole(call, || input.sum()),
        "prod" => reduce_whole(call, || input.prod()),
        "amax" => reduce_whole(call, || input.max()),
        "amin" => reduce_whole(call, || input.min()),
        "argmax" | "argmin" => {
            fixed(call, "keepdim", call.bool("keepdim")?, false)?;
            let function = if op == "argmax" { IntTensor::argmax } else { IntTensor::argmin };
            out(function(&input, dim(call)?.map(|dim| dim as isize))?)
        }
        "gather" | "index_select" => {
            let dim = stated(call, "dim", call.int("dim")?)? as isize;
            let index = integers::<i64>(call, "index")?;
            out(match op {
                "gather" => input.gather(dim, &index)?,
                _ => input.index_select(dim, &index)?,
            })
        }
        "reshape" => {
            let sizes = stated(call, "shape", sizes(call, "shape")?)?;
            out(input.reshape(&sizes)?)
        }
        "cast" => {
            let dtype = call.text("dtype")?;
            match dtype.and_then(dtype_name) {
                Some("I32") => out(input.cast::<i32>()?),
                Some("I64") => out(input.cast::<i64>()?),
                _ => to_floats!(dtype, input, I::NAME),
            }
        }
        _ => not_supported(format!("{op} of {}", I::NAME)),
    }
}

fn on_bools(call: &Call) -> Result<Outputs> {
    let input = bools(call, "input")?;
    let other = || bools(call, "other");
    let scalar = |value: bool| BoolTensor::from_vec(vec![value], Vec::new());
    match call.op.as_str() {
        "logical_and" | "bitwise_and" => out(input.and(&other()?)?),
        "logical_or" | "bitwise_or" => out(input.or(&other()?)?),
        "logical_xor" | "bitwise_xor" => out(input.xor(&other()?)?),
        "logical_not" | "bitwise_not" => out(input.not()),
        "all" => reduce_whole(call, || scalar(input.all()?)),
        "any" => reduce_whole(call, || scalar(input.any()?)),
        "count_nonzero" if dim(call)?.is_none() => {
            out(Indices(vec![input.count_true()?], Vec::new()))
        }
        "reshape" => {
            let sizes = stated(call, "shape", sizes(call, "shape")?)?;
            out(input.reshape(&sizes)?)
        }
        "cast" => to_floats!(call.text("dtype")?, input, "BOOL"),
        op => not_supported(format!("{op} of BOOL")),
    }
}
