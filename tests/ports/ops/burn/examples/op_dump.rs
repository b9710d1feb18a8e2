//! burn's operators, each by its own function of that name or the one its documentation names.
//!
//! burn has no 0-d tensor, and broadcasts tensors of one rank alone: inputs of a lower rank get
//! leading axes of size 1, and a reduced axis, which it leaves with size 1, is dropped from the
//! shape that is written. Values are written as burn returns them.

use burn_core::module::Param;
use burn_linalg as linalg;
use burn_nn::loss::{
    BinaryCrossEntropyLossConfig, CrossEntropyLossConfig, HuberLossConfig, KLDivLossConfig,
    LpLossConfig, MseLoss, Reduction, SmoothL1LossConfig,
};
use burn_nn::modules::interpolate::{Interpolate1dConfig, InterpolateMode as Mode1d};
use burn_nn::{
    GroupNormConfig, InstanceNormConfig, PixelShuffleConfig, PixelUnshuffleConfig, RmsNormConfig,
};
use burn_tensor::grid::{meshgrid, GridIndexing};
use burn_tensor::kind::Basic;
use burn_tensor::ops::{
    AvgPoolOptions, ConvOptions, ConvTransposeOptions, GridSampleOptions, GridSamplePaddingMode,
    InterpolateMode, InterpolateOptions, MaxPoolOptions, PadMode, UnfoldOptions,
};
use burn_tensor::{activation, module, Device, IndexingUpdateOp, Shape, Tensor};
use harness::{axis, not_supported, refused, Call, Outputs, Result};
use std::process::ExitCode;
use tensors::*;

#[path = "../../harness.rs"]
mod harness;
#[path = "../tensors.rs"]
mod tensors;

/// The body with the rank as a constant.
macro_rules! with_rank {
    ($rank:expr, $D:ident => $body:expr) => {
        match $rank {
            1 => {
                const $D: usize = 1;
                $body
            }
            2 => {
                const $D: usize = 2;
                $body
            }
            3 => {
                const $D: usize = 3;
                $body
            }
            4 => {
                const $D: usize = 4;
                $body
            }
            5 => {
                const $D: usize = 5;
                $body
            }
            rank => not_supported(format!("{rank}-d tensors")),
        }
    };
}

/// The body for an input of one of these kinds.
macro_rules! of {
    ($call:ident, $name:expr, $any:expr, $($kind:ident)|+, $x:ident => $body:expr) => {
        match $any {
            $(Any::$kind($x) => $body,)+
            #[allow(unreachable_patterns)]
            _ => other_kind($call, $name),
        }
    };
}

/// The body for two inputs of one of these kinds.
macro_rules! both {
    ($call:ident, $first:expr, $second:expr, $($kind:ident)|+, $a:ident, $b:ident => $body:expr) => {
        match two::<D>($call, $first, $second)? {
            $((Any::$kind($a), Any::$kind($b)) => $body,)+
            _ => other_kind($call, $second),
        }
    };
}

/// The body for a number as the element type of a kind.
macro_rules! scalar {
    ($call:ident, $name:expr, Float, $value:ident => $body:expr) => {{
        let $value = needed($call, $name, $call.float($name)?)?;
        $body
    }};
    ($call:ident, $name:expr, Int, $value:ident => $body:expr) => {{
        let $value = needed($call, $name, $call.int($name)?)?;
        $body
    }};
}

fn main() -> ExitCode {
    harness::run(compute)
}

fn compute(call: &Call) -> Result<Outputs> {
    match fixed(call)? {
        Some(outputs) => Ok(outputs),
        None => with_rank!(largest_rank(call)?, D => ranked::<D>(call)),
    }
}

fn largest_rank(call: &Call) -> Result<usize> {
    const NAMES: [&str; 16] = [
        "input",
        "other",
        "exponent",
        "condition",
        "mask",
        "index",
        "src",
        "source",
        "indices",
        "target",
        "x1",
        "x2",
        "weight",
        "values",
        "end",
        "tensors.0",
    ];
    let present = NAMES.iter().filter(|name| call.has_input(name));
    let ranks: Result<Vec<usize>> = present.map(|name| rank(call, name)).collect();
    match ranks?.into_iter().max() {
        Some(rank) => Ok(rank),
        None => not_supported(call.op.clone()),
    }
}

/// Two inputs of one dtype: burn promotes none.
fn two<const D: usize>(call: &Call, first: &str, second: &str) -> Result<(Any<D>, Any<D>)> {
    let dtypes = [first, second].map(|name| call.input(name).map(|raw| raw.dtype.clone()));
    let [a, b] = dtypes;
    match (a?, b?) {
        (a, b) if a == b => Ok((any(call, first)?, any(call, second)?)),
        (a, b) => not_supported(format!("{} of {a} and {b}", call.op)),
    }
}

fn needed<T>(call: &Call, name: &str, value: Option<T>) -> Result<T> {
    match value {
        Some(value) => Ok(value),
        None => not_supported(format!("{} without {name}", call.op)),
    }
}

fn dim(call: &Call, default: Option<i64>) -> Result<i64> {
    needed(call, "dim", call.int("dim")?.or(default))
}

fn float_or(call: &Call, name: &str, default: f64) -> Result<f64> {
    Ok(call.float(name)?.unwrap_or(default))
}

fn flag(call: &Call, name: &str, default: bool) -> Result<bool> {
    Ok(call.bool(name)?.unwrap_or(default))
}

/// An option that burn does not have is not supported, unless it states the default.
fn only(call: &Call, name: &str, default: f64) -> Result<()> {
    match call.float(name)? {
        Some(value) if value != default => {
            not_supported(format!("{} with {name} {value}", call.op))
        }
        _ => Ok(()),
    }
}

fn absent(call: &Call, name: &str) -> Result<()> {
    match call.has_arg(name) || call.has_input(name) {
        true => not_supported(format!("{} with {name}", call.op)),
        false => Ok(()),
    }
}

fn not(call: &Call, name: &str, value: bool) -> Result<()> {
    match call.bool(name)? == Some(value) {
        true => not_supported(format!("{} with {name} {value}", call.op)),
        false => Ok(()),
    }
}

/// A number for each of N axes; burn takes no negative one.
fn sizes<const N: usize>(call: &Call, name: &str, default: &[i64]) -> Result<[usize; N]> {
    let given = call.ints(name)?.unwrap_or_else(|| default.to_vec());
    let all = if given.len() == 1 {
        vec![given[0]; N]
    } else {
        given
    };
    let Ok(all) = <[i64; N]>::try_from(all) else {
        return not_supported(format!("{} with that many numbers in {name}", call.op));
    };
    unsigned(call, name, all)
}

fn unsigned<const N: usize>(call: &Call, name: &str, all: [i64; N]) -> Result<[usize; N]> {
    match all.iter().find(|size| **size < 0) {
        Some(size) => refused(format!("{}: {name} {size} is no usize", call.op)),
        None => Ok(all.map(|size| size as usize)),
    }
}

/// What needs no rank, or has a rank of its own.
fn fixed(call: &Call) -> Result<Option<Outputs>> {
    let device = Device::default();
    let outputs =
        match call.op.as_str() {
            "mv" => {
                let (matrix, vector) = (float::<2>(call, "input")?, float::<1>(call, "vec")?);
                one(linalg::matvec(matrix, vector))
            }
            "dot" => match (exact::<1>(call, "input")?, exact::<1>(call, "tensor")?) {
                (Any::Float(a), Any::Float(b)) => scalar(a.dot(b)),
                (Any::Int(a), Any::Int(b)) => scalar(a.dot(b)),
                _ => other_kind(call, "tensor"),
            },
            "outer" => match (exact::<1>(call, "input")?, exact::<1>(call, "vec2")?) {
                (Any::Float(a), Any::Float(b)) => one(linalg::outer::<1, 2, _>(a, b)),
                (Any::Int(a), Any::Int(b)) => one(linalg::outer::<1, 2, _>(a, b)),
                _ => other_kind(call, "vec2"),
            },
            "bmm" => match (exact::<3>(call, "input")?, exact::<3>(call, "mat2")?) {
                (Any::Float(a), Any::Float(b)) => one(a.matmul(b)),
                (Any::Int(a), Any::Int(b)) => one(a.matmul(b)),
                _ => other_kind(call, "mat2"),
            },
            "trace" => scalar(linalg::trace::<2, 1>(float(call, "input")?)),
            "det" => match rank(call, "input")? {
                3 => one(linalg::det::<3, 2, 1>(float(call, "input")?)),
                4 => one(linalg::det::<4, 3, 2>(float(call, "input")?)),
                rank => not_supported(format!("det of {rank}-d tensors")),
            },
            "einsum" => einsum(call),
            "conv1d" => one(module::conv1d(
                float(call, "input")?,
                float(call, "weight")?,
                bias(call)?,
                conv::<1>(call)?,
            )),
            "conv2d" => one(module::conv2d(
                float(call, "input")?,
                float(call, "weight")?,
                bias(call)?,
                conv::<2>(call)?,
            )),
            "conv3d" => one(module::conv3d(
                float(call, "input")?,
                float(call, "weight")?,
                bias(call)?,
                conv::<3>(call)?,
            )),
            "conv_transpose1d" => one(module::conv_transpose1d(
                float(call, "input")?,
                float(call, "weight")?,
                bias(call)?,
                transposed::<1>(call)?,
            )),
            "conv_transpose2d" => one(module::conv_transpose2d(
                float(call, "input")?,
                float(call, "weight")?,
                bias(call)?,
                transposed::<2>(call)?,
            )),
            "max_pool1d" => one(module::max_pool1d(float(call, "input")?, max_pool(call)?)),
            "max_pool2d" => one(module::max_pool2d(float(call, "input")?, max_pool(call)?)),
            "avg_pool1d" => one(module::avg_pool1d(float(call, "input")?, avg_pool(call)?)),
            "avg_pool2d" => one(module::avg_pool2d(float(call, "input")?, avg_pool(call)?)),
            "adaptive_avg_pool2d" => one(module::adaptive_avg_pool2d(
                float(call, "input")?,
                sizes(call, "output_size", &[])?,
            )),
            "im2col" => one(module::unfold4d(
                float(call, "input")?,
                sizes(call, "kernel_size", &[])?,
                UnfoldOptions::new(
                    sizes(call, "stride", &[1])?,
                    sizes(call, "padding", &[0])?,
                    sizes(call, "dilation", &[1])?,
                ),
            )),
            "interpolate" => interpolate(call),
            "grid_sample" => one(float::<4>(call, "input")?
                .grid_sample_2d(float(call, "grid")?, grid_options(call)?)),
            "pixel_shuffle" => {
                let [factor] = sizes(call, "upscale_factor", &[])?;
                one(PixelShuffleConfig::new(factor)
                    .init()
                    .forward(float(call, "input")?))
            }
            "pixel_unshuffle" => {
                let [factor] = sizes(call, "downscale_factor", &[])?;
                one(PixelUnshuffleConfig::new(factor)
                    .init()
                    .forward(float(call, "input")?))
            }
            "cross_entropy" => cross_entropy(call),
            "arange" => arange(call),
            "eye" => {
                if call.has_arg("m") && call.int("m")? != call.int("n")? {
                    return not_supported("eye of another number of columns");
                }
                let [n] = sizes(call, "n", &[])?;
                match needed(call, "dtype", call.text("dtype")?)? {
                    "float32" => one(Floats::<2>::eye(n, &device)),
                    "int64" => one(Ints::<2>::eye(n, &device)),
                    other => not_supported(format!("eye of {other}")),
                }
            }
            "full" => full(call),
            "hann_window" => one(burn_signal::hann_window(
                sizes::<1>(call, "window_length", &[])?[0],
                flag(call, "periodic", true)?,
                (&device, dtype(needed(call, "dtype", call.text("dtype")?)?)?),
            )),
            "embedding" => {
                let weight = float::<2>(call, "weight")?;
                match rank(call, "input")? {
                    2 => one(module::embedding(weight, int::<2>(call, "input")?)),
                    rank => not_supported(format!("embedding of {rank}-d indices")),
                }
            }
            "meshgrid" => grids(call),
            "rfft" if cfg!(feature = "flex") => with_rank!(rank(call, "input")?, D => {
                let (real, imaginary) = burn_signal::rfft(
                    float::<D>(call, "input")?,
                    dim(call, Some(-1))?,
                    length(call)?,
                );
                complex(call, real, imaginary)
            }),
            _ => return Ok(None),
        };
    outputs.map(Some)
}

/// What works on tensors of any rank.
fn ranked<const D: usize>(call: &Call) -> Result<Outputs> {
    let x = || float::<D>(call, "input");
    let input = || exact::<D>(call, "input");
    match call.op.as_str() {
        "abs" => of!(call, "input", input()?, Float | Int, x => one(x.abs())),
        "neg" => of!(call, "input", input()?, Float | Int, x => one(x.neg())),
        "sign" => of!(call, "input", input()?, Float | Int, x => one(x.sign())),
        "square" => of!(call, "input", input()?, Float | Int, x => one(x.square())),
        "exp" => one(x()?.exp()),
        "log" => one(x()?.log()),
        "log1p" => one(x()?.log1p()),
        "sqrt" => one(x()?.sqrt()),
        "reciprocal" => one(x()?.recip()),
        "sin" => one(x()?.sin()),
        "cos" => one(x()?.cos()),
        "tan" => one(x()?.tan()),
        "asin" => one(x()?.asin()),
        "acos" => one(x()?.acos()),
        "atan" => one(x()?.atan()),
        "sinh" => one(x()?.sinh()),
        "cosh" => one(x()?.cosh()),
        "tanh" => one(x()?.tanh()),
        "asinh" => one(x()?.asinh()),
        "acosh" => one(x()?.acosh()),
        "atanh" => one(x()?.atanh()),
        "ceil" => one(x()?.ceil()),
        "floor" => one(x()?.floor()),
        "trunc" => one(x()?.trunc()),
        "round" => {
            only(call, "decimals", 0.0)?;
            one(x()?.round())
        }
        "erf" => one(x()?.erf()),
        "deg2rad" => one(x()?.deg2rad()),
        "rad2deg" => one(x()?.rad2deg()),
        "isnan" => one(x()?.is_nan()),
        "isinf" => one(x()?.is_inf()),
        "isfinite" => one(x()?.is_finite()),
        "sigmoid" => one(activation::sigmoid(x()?)),

        "add" => {
            only(call, "alpha", 1.0)?;
            both!(call, "input", "other", Float | Int, a, b => one(a.add(b)))
        }
        "sub" => {
            only(call, "alpha", 1.0)?;
            both!(call, "input", "other", Float | Int, a, b => one(a.sub(b)))
        }
        "mul" => both!(call, "input", "other", Float | Int, a, b => one(a.mul(b))),
        "div" => match call.text("rounding_mode")? {
            None => both!(call, "input", "other", Float, a, b => one(a.div(b))),
            Some("trunc") => both!(call, "input", "other", Int, a, b => one(a.div(b))),
            Some(mode) => not_supported(format!("div with rounding_mode {mode}")),
        },
        "remainder" => both!(call, "input", "other", Float | Int, a, b => one(a.remainder(b))),
        "fmod" => both!(call, "input", "other", Float, a, b => one(a.fmod(b))),
        "pow" => match two::<D>(call, "input", "exponent")? {
            (Any::Float(a), Any::Float(b)) => one(a.powf(b)),
            (Any::Int(a), Any::Int(b)) => one(a.powi(b)),
            _ => other_kind(call, "exponent"),
        },
        "atan2" => both!(call, "input", "other", Float, a, b => one(a.atan2(b))),
        "hypot" => both!(call, "input", "other", Float, a, b => one(a.hypot(b))),
        "maximum" => both!(call, "input", "other", Float | Int, a, b => one(a.max_pair(b))),
        "minimum" => both!(call, "input", "other", Float | Int, a, b => one(a.min_pair(b))),
        "eq" => both!(call, "input", "other", Float | Int | Bool, a, b => one(a.equal(b))),
        "ne" => both!(call, "input", "other", Float | Int | Bool, a, b => one(a.not_equal(b))),
        "lt" => both!(call, "input", "other", Float | Int, a, b => one(a.lower(b))),
        "le" => both!(call, "input", "other", Float | Int, a, b => one(a.lower_equal(b))),
        "gt" => both!(call, "input", "other", Float | Int, a, b => one(a.greater(b))),
        "ge" => both!(call, "input", "other", Float | Int, a, b => one(a.greater_equal(b))),
        "isclose" => {
            not(call, "equal_nan", true)?;
            let (rtol, atol) = (float_or(call, "rtol", 1e-5)?, float_or(call, "atol", 1e-8)?);
            both!(call, "input", "other", Float, a, b => {
                one(a.is_close(b, Some(rtol), Some(atol)))
            })
        }

        "bitwise_and" => match two::<D>(call, "input", "other")? {
            (Any::Int(a), Any::Int(b)) => one(a.bitwise_and(b)),
            (Any::Bool(a), Any::Bool(b)) => one(a.bool_and(b)),
            _ => other_kind(call, "other"),
        },
        "bitwise_or" => match two::<D>(call, "input", "other")? {
            (Any::Int(a), Any::Int(b)) => one(a.bitwise_or(b)),
            (Any::Bool(a), Any::Bool(b)) => one(a.bool_or(b)),
            _ => other_kind(call, "other"),
        },
        "bitwise_xor" => match two::<D>(call, "input", "other")? {
            (Any::Int(a), Any::Int(b)) => one(a.bitwise_xor(b)),
            (Any::Bool(a), Any::Bool(b)) => one(a.bool_xor(b)),
            _ => other_kind(call, "other"),
        },
        "bitwise_not" => match input()? {
            Any::Int(x) => one(x.bitwise_not()),
            Any::Bool(x) => one(x.bool_not()),
            Any::Float(_) => other_kind(call, "input"),
        },
        "bitwise_left_shift" => {
            both!(call, "input", "other", Int, a, b => one(a.bitwise_left_shift(b)))
        }
        "bitwise_right_shift" => {
            both!(call, "input", "other", Int, a, b => one(a.bitwise_right_shift(b)))
        }
        "logical_and" => both!(call, "input", "other", Bool, a, b => one(a.bool_and(b))),
        "logical_or" => both!(call, "input", "other", Bool, a, b => one(a.bool_or(b))),
        "logical_xor" => both!(call, "input", "other", Bool, a, b => one(a.bool_xor(b))),
        "logical_not" => of!(call, "input", input()?, Bool, x => one(x.bool_not())),

        "where" => {
            let Any::Bool(condition) = any::<D>(call, "condition")? else {
                return other_kind(call, "condition");
            };
            both!(call, "input", "other", Float | Int | Bool, a, b => {
                one(b.mask_where(condition, a))
            })
        }
        "masked_fill" => {
            let Any::Bool(mask) = any::<D>(call, "mask")? else {
                return other_kind(call, "mask");
            };
            match any::<D>(call, "input")? {
                Any::Float(x) => {
                    scalar!(call, "value", Float, value => one(x.mask_fill(mask, value)))
                }
                Any::Int(x) => scalar!(call, "value", Int, value => one(x.mask_fill(mask, value))),
                Any::Bool(_) => other_kind(call, "input"),
            }
        }
        "clamp" => {
            if call.has_input("min") || call.has_input("max") {
                return not_supported("clamp with bounds in tensors");
            }
            match (input()?, call.has_arg("min"), call.has_arg("max")) {
                (Any::Float(x), true, true) => {
                    scalar!(call, "min", Float, min => {
                        scalar!(call, "max", Float, max => one(x.clamp(min, max)))
                    })
                }
                (Any::Float(x), true, _) => {
                    scalar!(call, "min", Float, min => one(x.clamp_min(min)))
                }
                (Any::Float(x), _, _) => scalar!(call, "max", Float, max => one(x.clamp_max(max))),
                (Any::Int(x), true, true) => {
                    scalar!(call, "min", Int, min => {
                        scalar!(call, "max", Int, max => one(x.clamp(min, max)))
                    })
                }
                (Any::Int(x), true, _) => scalar!(call, "min", Int, min => one(x.clamp_min(min))),
                (Any::Int(x), _, _) => scalar!(call, "max", Int, max => one(x.clamp_max(max))),
                (Any::Bool(_), _, _) => other_kind(call, "input"),
            }
        }

        "sum" | "mean" | "prod" | "amax" | "amin" => reduce::<D>(call),
        "var" => {
            let dims = needed(call, "dim", call.ints("dim")?)?;
            let (&[dim], correction) = (&dims[..], call.int("correction")?.unwrap_or(1)) else {
                return not_supported("var over several axes");
            };
            let out = match correction {
                1 => x()?.var(dim),
                0 => x()?.var_bias(dim),
                other => return not_supported(format!("var with correction {other}")),
            };
            drop_axes(call, &dims, one(out)?)
        }
        "argmax" => {
            let dim = dim(call, None)?;
            let out = of!(call, "input", input()?, Float | Int, x => one(x.argmax(dim)))?;
            drop_axes(call, &[dim], out)
        }
        "argmin" => {
            let dim = dim(call, None)?;
            let out = of!(call, "input", input()?, Float | Int, x => one(x.argmin(dim)))?;
            drop_axes(call, &[dim], out)
        }
        "max" => {
            let dim = dim(call, None)?;
            let out = of!(call, "input", input()?, Float | Int, x => {
                pair(x.max_dim_with_indices(dim))
            })?;
            drop_axes(call, &[dim], out)
        }
        "min" => {
            let dim = dim(call, None)?;
            let out = of!(call, "input", input()?, Float | Int, x => {
                pair(x.min_dim_with_indices(dim))
            })?;
            drop_axes(call, &[dim], out)
        }
        "median" => {
            let dim = dim(call, None)?;
            drop_axes(call, &[dim], pair(x()?.median_with_indices(dim))?)
        }
        "all" => match call.int("dim")? {
            None => of!(call, "input", input()?, Float | Int | Bool, x => scalar(x.all())),
            Some(dim) => {
                let out =
                    of!(call, "input", input()?, Float | Int | Bool, x => one(x.all_dim(dim)))?;
                drop_axes(call, &[dim], out)
            }
        },
        "any" => match call.int("dim")? {
            None => of!(call, "input", input()?, Float | Int | Bool, x => scalar(x.any())),
            Some(dim) => {
                let out =
                    of!(call, "input", input()?, Float | Int | Bool, x => one(x.any_dim(dim)))?;
                drop_axes(call, &[dim], out)
            }
        },
        "norm" => {
            let dims = call.ints("dim")?.unwrap_or_else(|| (0..D as i64).collect());
            let out = linalg::lp_norm_dims(x()?, float_or(call, "p", 2.0)?, &dims);
            drop_axes(call, &dims, one(out)?)
        }

        "cumsum" => {
            let dim = dim(call, None)?;
            of!(call, "input", input()?, Float | Int, x => one(x.cumsum(dim)))
        }
        "cumprod" => {
            let dim = dim(call, None)?;
            of!(call, "input", input()?, Float | Int, x => one(x.cumprod(dim)))
        }

        "sort" => {
            not(call, "stable", true)?;
            let dim = dim(call, Some(-1))?;
            match flag(call, "descending", false)? {
                true => of!(call, "input", input()?, Float | Int, x => {
                    pair(x.sort_descending_with_indices(dim))
                }),
                false => {
                    of!(call, "input", input()?, Float | Int, x => pair(x.sort_with_indices(dim)))
                }
            }
        }
        "argsort" => {
            not(call, "stable", true)?;
            let dim = dim(call, Some(-1))?;
            match flag(call, "descending", false)? {
                true => {
                    of!(call, "input", input()?, Float | Int, x => one(x.argsort_descending(dim)))
                }
                false => of!(call, "input", input()?, Float | Int, x => one(x.argsort(dim))),
            }
        }
        "topk" => {
            not(call, "largest", false)?;
            let ([k], dim) = (sizes(call, "k", &[])?, dim(call, Some(-1))?);
            of!(call, "input", input()?, Float | Int, x => pair(x.topk_with_indices(k, dim)))
        }

        "gather" => {
            let (dim, index) = (dim(call, None)?, int::<D>(call, "index")?);
            of!(call, "input", input()?, Float | Int | Bool, x => one(x.gather(dim, index)))
        }
        "scatter" | "scatter_add" => {
            let update = match call.op.as_str() {
                "scatter" => IndexingUpdateOp::Assign,
                _ => IndexingUpdateOp::Add,
            };
            absent(call, "value")?;
            let (dim, index) = (dim(call, None)?, int::<D>(call, "index")?);
            match (input()?, exact::<D>(call, "src")?) {
                (Any::Float(x), Any::Float(src)) => one(x.scatter(dim, index, src, update)),
                (Any::Int(x), Any::Int(src)) => one(x.scatter(dim, index, src, update)),
                (Any::Bool(x), Any::Bool(src)) => one(x.scatter(dim, index, src, update)),
                _ => other_kind(call, "src"),
            }
        }
        "index_select" => {
            let (dim, index) = (dim(call, None)?, int::<1>(call, "index")?);
            of!(call, "input", input()?, Float | Int | Bool, x => one(x.select(dim, index)))
        }
        "index_add" => {
            only(call, "alpha", 1.0)?;
            let (dim, index) = (dim(call, None)?, int::<1>(call, "index")?);
            match (input()?, exact::<D>(call, "source")?) {
                (Any::Float(x), Any::Float(source)) => {
                    one(x.select_assign(dim, index, source, IndexingUpdateOp::Add))
                }
                (Any::Int(x), Any::Int(source)) => {
                    one(x.select_assign(dim, index, source, IndexingUpdateOp::Add))
                }
                _ => other_kind(call, "source"),
            }
        }
        "masked_select" => {
            let Any::Bool(mask) = exact::<D>(call, "mask")? else {
                return other_kind(call, "mask");
            };
            of!(call, "input", input()?, Float | Int | Bool, x => match x.dims() == mask.dims() {
                true => one(x.mask_select(mask)),
                false => not_supported("masked_select with broadcasting"),
            })
        }
        "nonzero" => of!(call, "input", input()?, Bool, x => one(x.argwhere())),
        "narrow" => {
            let dim = dim(call, None)?;
            let ([start], [length]) = (sizes(call, "start", &[])?, sizes(call, "length", &[])?);
            of!(call, "input", input()?, Float | Int | Bool, x => one(x.narrow(dim, start, length)))
        }
        "roll" => {
            let shifts = needed(call, "shifts", call.ints("shifts")?)?;
            let dims = needed(call, "dims", call.ints("dims")?)?;
            of!(call, "input", input()?, Float | Int | Bool, x => one(x.roll(&shifts, &dims)))
        }
        "flip" => {
            let dims = needed(call, "dims", call.ints("dims")?)?;
            of!(call, "input", input()?, Float | Int | Bool, x => flip(x, &dims))
        }

        "reshape" | "squeeze" | "unsqueeze" | "flatten" | "stack" | "select" | "unfold"
        | "one_hot" => {
            let new = new_rank::<D>(call)?;
            with_rank!(new, N => reshaped::<D, N>(call))
        }
        "broadcast_to" => {
            let shape = needed(call, "shape", call.ints("shape")?)?;
            with_rank!(shape.len(), N => {
                let shape = <[i64; N]>::try_from(&shape[..]).expect("N sizes");
                of!(call, "input", input()?, Float | Int | Bool, x => one(x.expand(shape)))
            })
        }
        "transpose" => {
            let first = needed(call, "dim0", call.int("dim0")?)?;
            let second = needed(call, "dim1", call.int("dim1")?)?;
            of!(call, "input", input()?, Float | Int | Bool, x => one(x.swap_dims(first, second)))
        }
        "permute" => {
            let dims = needed(call, "dims", call.ints("dims")?)?;
            let Ok(dims) = <[i64; D]>::try_from(&dims[..]) else {
                return refused(format!("permute takes {D} axes: another type"));
            };
            of!(call, "input", input()?, Float | Int | Bool, x => one(x.permute(dims)))
        }
        "movedim" => {
            let source = needed(call, "source", call.ints("source")?)?;
            let to = needed(call, "destination", call.ints("destination")?)?;
            of!(call, "input", input()?, Float | Int | Bool, x => one(x.movedim(source, to)))
        }
        "cat" => {
            let dim = dim(call, Some(0))?;
            of!(call, "tensors.0", exact::<D>(call, "tensors.0")?, Float | Int | Bool, x => {
                one(Tensor::cat(others(call, x)?, dim))
            })
        }
        "chunk" => {
            let ([chunks], dim) = (sizes(call, "chunks", &[])?, dim(call, Some(0))?);
            of!(call, "input", input()?, Float | Int | Bool, x => list(x.chunk(chunks, dim)))
        }
        "split" => split::<D>(call),
        "tile" => {
            let dims: [usize; D] = match call.ints("dims")? {
                Some(dims) if dims.len() == D => sizes(call, "dims", &[])?,
                _ => return not_supported("tile with another number of axes"),
            };
            of!(call, "input", input()?, Float | Int | Bool, x => one(x.repeat(&dims)))
        }
        "diagonal" => {
            only(call, "offset", 0.0)?;
            let dims = [
                call.int("dim1")?.unwrap_or(0),
                call.int("dim2")?.unwrap_or(1),
            ];
            let last = dims.map(|dim| axis(dim, D)) == [D.wrapping_sub(2), D.wrapping_sub(1)];
            match (D, last) {
                (2, true) => {
                    of!(call, "input", exact::<2>(call, "input")?, Float | Int | Bool, x => {
                        one(linalg::diag::<2, 1, _>(x))
                    })
                }
                (3, true) => {
                    of!(call, "input", exact::<3>(call, "input")?, Float | Int | Bool, x => {
                        one(linalg::diag::<3, 2, _>(x))
                    })
                }
                _ => not_supported("the diagonal of other axes than the last two"),
            }
        }
        "tril" => {
            let diagonal = call.int("diagonal")?.unwrap_or(0);
            of!(call, "input", input()?, Float | Int, x => one(x.tril(diagonal)))
        }
        "triu" => {
            let diagonal = call.int("diagonal")?.unwrap_or(0);
            of!(call, "input", input()?, Float | Int, x => one(x.triu(diagonal)))
        }
        "pad" => pad::<D>(call),

        "matmul" => {
            if rank(call, "input")? < 2 || rank(call, "other")? < 2 {
                return not_supported("matmul of vectors");
            }
            both!(call, "input", "other", Float | Int, a, b => one(a.matmul(b)))
        }
        "cross" => {
            let dim = dim(call, Some(-1))?;
            both!(call, "input", "other", Float, a, b => one(a.cross(b, dim)))
        }

        "layer_norm" => {
            let [size] = sizes::<1>(call, "normalized_shape", &[])?;
            let x = x()?;
            let weight = channels(call, "weight", &x, size, true)?;
            let bias = match call.has_input("bias") {
                true => Some(channels(call, "bias", &x, size, false)?),
                false => None,
            };
            one(module::layer_norm(
                x,
                weight,
                bias,
                float_or(call, "eps", 1e-5)?,
            ))
        }
        "rms_norm" => {
            let [size] = sizes::<1>(call, "normalized_shape", &[])?;
            let eps = needed(call, "eps", call.float("eps")?)?;
            let mut norm = RmsNormConfig::new(size)
                .with_epsilon(eps)
                .init(&Device::default());
            let x = x()?;
            norm.gamma = Param::from_tensor(channels(call, "weight", &x, size, true)?);
            one(norm.forward(x))
        }
        "group_norm" => {
            let ([groups], x) = (sizes(call, "num_groups", &[])?, x()?);
            let channels_ = x.dims().get(1).copied().unwrap_or(0);
            let affine = call.has_input("weight") || call.has_input("bias");
            let mut norm = GroupNormConfig::new(groups, channels_)
                .with_epsilon(float_or(call, "eps", 1e-5)?)
                .with_affine(affine)
                .init(&Device::default());
            if affine {
                norm.gamma = Some(Param::from_tensor(channels(
                    call, "weight", &x, channels_, true,
                )?));
                norm.beta = Some(Param::from_tensor(channels(
                    call, "bias", &x, channels_, false,
                )?));
            }
            one(norm.forward(x))
        }
        "instance_norm" => {
            let x = x()?;
            let size = x.dims().get(1).copied().unwrap_or(0);
            let affine = call.has_input("weight") || call.has_input("bias");
            let mut norm = InstanceNormConfig::new(size)
                .with_epsilon(float_or(call, "eps", 1e-5)?)
                .with_affine(affine)
                .init(&Device::default());
            if affine {
                norm.gamma = Some(Param::from_tensor(channels(
                    call, "weight", &x, size, true,
                )?));
                norm.beta = Some(Param::from_tensor(channels(call, "bias", &x, size, false)?));
            }
            one(norm.forward(x))
        }
        "batch_norm" => {
            let (x, eps) = (x()?, float_or(call, "eps", 1e-5)?);
            let size = x.dims().get(1).copied().unwrap_or(0);
            let gamma = channels(call, "weight", &x, size, true)?;
            let beta = channels(call, "bias", &x, size, false)?;
            if flag(call, "training", false)? {
                call.optional("running_mean");
                call.optional("running_var");
                return one(module::batch_norm_train(x, gamma, beta, eps).output);
            }
            let (mean, var) = (
                float::<1>(call, "running_mean")?,
                float::<1>(call, "running_var")?,
            );
            one(module::batch_norm(x, gamma, beta, mean, var, eps))
        }
        "normalize" => {
            let (p, dim) = (float_or(call, "p", 2.0)?, dim(call, Some(1))?);
            one(linalg::vector_normalize(
                x()?,
                p,
                dim,
                float_or(call, "eps", 1e-12)?,
            ))
        }

        "relu" => one(activation::relu(x()?)),
        "relu6" => one(activation::relu6(x()?)),
        "leaky_relu" => one(activation::leaky_relu(
            x()?,
            float_or(call, "negative_slope", 0.01)?,
        )),
        "elu" => one(activation::elu(x()?, float_or(call, "alpha", 1.0)?)),
        "selu" => one(activation::selu(x()?)),
        "celu" => one(activation::celu(x()?, float_or(call, "alpha", 1.0)?)),
        "gelu" => match call.text("approximate")? {
            None | Some("none") => one(activation::gelu(x()?)),
            Some("tanh") => one(activation::gelu_approximate(x()?)),
            Some(other) => not_supported(format!("gelu with approximate {other}")),
        },
        "silu" => one(activation::silu(x()?)),
        "mish" => one(activation::mish(x()?)),
        "softplus" => {
            let (beta, threshold) = (
                float_or(call, "beta", 1.0)?,
                float_or(call, "threshold", 20.0)?,
            );
            one(activation::softplus_with_threshold(x()?, beta, threshold))
        }
        "softsign" => one(activation::softsign(x()?)),
        "hardtanh" => {
            let (low, high) = (
                float_or(call, "min_val", -1.0)?,
                float_or(call, "max_val", 1.0)?,
            );
            one(activation::hardtanh(x()?, low, high))
        }
        "hardsigmoid" => one(activation::hard_sigmoid(x()?, 1.0 / 6.0, 0.5)),
        "hardswish" => one(activation::hard_swish(x()?)),
        "softshrink" => one(activation::soft_shrink(x()?, float_or(call, "lambd", 0.5)?)),
        "hardshrink" => one(activation::hard_shrink(x()?, float_or(call, "lambd", 0.5)?)),
        "tanhshrink" => one(activation::tanhshrink(x()?)),
        "threshold" => {
            let threshold = needed(call, "threshold", call.float("threshold")?)?;
            one(activation::threshold(
                x()?,
                threshold,
                needed(call, "value", call.float("value")?)?,
            ))
        }
        "logsigmoid" => one(activation::log_sigmoid(x()?)),
        "softmax" => {
            absent(call, "dtype")?;
            one(activation::softmax(x()?, dim(call, None)?))
        }
        "log_softmax" => {
            absent(call, "dtype")?;
            one(activation::log_softmax(x()?, dim(call, None)?))
        }
        "glu" => one(activation::glu(x()?, dim(call, Some(-1))?)),
        "prelu" => one(activation::prelu(x()?, float(call, "weight")?)),

        "mse_loss" => {
            let (input, target) = (x()?, float(call, "target")?);
            match reduction(call)? {
                None => one(MseLoss::new().forward_no_reduction(input, target)),
                Some(how) => scalar(MseLoss::new().forward(input, target, how)),
            }
        }
        "l1_loss" => {
            let (input, target) = (x()?, float(call, "target")?);
            match reduction(call)? {
                None => one(LpLossConfig::l1().forward_no_reduction(input, target)),
                Some(how) => scalar(LpLossConfig::l1().forward(input, target, how)),
            }
        }
        "smooth_l1_loss" => {
            let beta = float_or(call, "beta", 1.0)? as f32;
            let loss = SmoothL1LossConfig::new().with_beta(beta).init();
            let (input, target) = (x()?, float(call, "target")?);
            match reduction(call)? {
                None => one(loss.forward(input, target)),
                Some(how) => scalar(loss.forward_with_reduction(input, target, how)),
            }
        }
        "huber_loss" => {
            let loss = HuberLossConfig::new(float_or(call, "delta", 1.0)? as f32).init();
            let (input, target) = (x()?, float(call, "target")?);
            match reduction(call)? {
                None => one(loss.forward_no_reduction(input, target)),
                Some(how) => scalar(loss.forward(input, target, how)),
            }
        }
        "kl_div" => {
            let loss = KLDivLossConfig::new()
                .with_log_target(flag(call, "log_target", false)?)
                .init();
            let (input, target) = (x()?, float(call, "target")?);
            match reduction(call)? {
                None => one(loss.forward_no_reduction(input, target)),
                Some(how) => scalar(loss.forward(input, target, how)),
            }
        }
        "binary_cross_entropy" => binary_cross_entropy::<D>(call, false),
        "binary_cross_entropy_with_logits" => binary_cross_entropy::<D>(call, true),
        "cosine_similarity" => {
            let (dim, eps) = (dim(call, Some(1))?, float_or(call, "eps", 1e-8)?);
            both!(call, "x1", "x2", Float, a, b => {
                drop_axes(call, &[dim], one(linalg::cosine_similarity(a, b, dim, Some(eps)))?)
            })
        }

        "cast" => cast::<D>(call),
        other => not_supported(other),
    }
}

/// The other tensors of the list after its first one, which are of that one's rank and kind.
fn others<const D: usize, K: Basic>(call: &Call, first: Tensor<D, K>) -> Result<Vec<Tensor<D, K>>>
where
    Tensor<D, K>: FromAny<D>,
{
    let mut all = vec![first];
    let dtype = &call.input("tensors.0")?.dtype;
    for name in &call.names("tensors")[1..] {
        if call.input(name)?.dtype != *dtype {
            return other_kind(call, name);
        }
        match <Tensor<D, K>>::from_any(exact::<D>(call, name)?) {
            Some(tensor) => all.push(tensor),
            None => return other_kind(call, name),
        }
    }
    Ok(all)
}

fn reduce<const D: usize>(call: &Call) -> Result<Outputs> {
    absent(call, "dtype")?;
    let input = exact::<D>(call, "input")?;
    let Some(dims) = call.ints("dim")? else {
        call.bool("keepdim")?;
        return of!(call, "input", input, Float | Int, x => scalar(match call.op.as_str() {
            "sum" => x.sum(),
            "mean" => x.mean(),
            "prod" => x.prod(),
            "amax" => x.max(),
            _ => x.min(),
        }));
    };
    let out = of!(call, "input", input, Float | Int, x => one(match call.op.as_str() {
        "sum" => x.sum_dims(&dims),
        "mean" => x.mean_dims(&dims),
        "prod" => x.prod_dims(&dims),
        "amax" => x.max_dims(&dims),
        _ => x.min_dims(&dims),
    }))?;
    drop_axes(call, &dims, out)
}

fn flip<const D: usize, K: Basic>(x: Tensor<D, K>, dims: &[i64]) -> Result<Outputs> {
    match *dims {
        [] => one(x.flip([0i64; 0])),
        [a] => one(x.flip([a])),
        [a, b] => one(x.flip([a, b])),
        [a, b, c] => one(x.flip([a, b, c])),
        _ => not_supported("flip of more than three axes"),
    }
}

fn split<const D: usize>(call: &Call) -> Result<Outputs> {
    let (name, dim) = ("split_size_or_sections", dim(call, Some(0))?);
    if !call.is_list(name) {
        let [size] = sizes(call, name, &[])?;
        return of!(call, "input", exact::<D>(call, "input")?, Float | Int | Bool, x => {
            list(x.split(size, dim))
        });
    }
    let sections = needed(call, name, call.ints(name)?)?;
    if sections.iter().any(|size| *size < 0) {
        return refused("split: a negative size is no usize");
    }
    let sections = sections.into_iter().map(|size| size as usize).collect();
    of!(call, "input", exact::<D>(call, "input")?, Float | Int | Bool, x => {
        list(x.split_with_sizes(sections, dim))
    })
}

fn pad<const D: usize>(call: &Call) -> Result<Outputs> {
    let flat = needed(call, "pad", call.ints("pad")?)?;
    if flat.iter().any(|size| *size < 0) {
        return not_supported("pad by negative sizes");
    }
    if flat.len() % 2 != 0 {
        return refused("pad takes pairs: another type");
    }
    let mut pairs: Vec<_> = flat
        .chunks(2)
        .map(|two| (two[0] as usize, two[1] as usize))
        .collect();
    pairs.reverse();
    let mode = match call.text("mode")?.unwrap_or("constant") {
        "constant" => PadMode::Constant(float_or(call, "value", 0.0)? as f32),
        "reflect" => PadMode::Reflect,
        "replicate" => PadMode::Edge,
        other => return not_supported(format!("pad with mode {other}")),
    };
    of!(call, "input", exact::<D>(call, "input")?, Float | Int, x => one(x.pad(pairs, mode)))
}

/// The rank of the result of an operator that changes it.
fn new_rank<const D: usize>(call: &Call) -> Result<usize> {
    Ok(match call.op.as_str() {
        "reshape" => needed(call, "shape", call.ints("shape")?)?.len(),
        "unsqueeze" | "stack" | "unfold" | "one_hot" => D + 1,
        "select" => D - 1,
        "flatten" => {
            let first = axis(call.int("start_dim")?.unwrap_or(0), D);
            let last = axis(call.int("end_dim")?.unwrap_or(-1), D);
            D.saturating_sub(last.saturating_sub(first)).max(1)
        }
        _ => {
            let shape = of!(call, "input", exact::<D>(call, "input")?, Float | Int | Bool, x => {
                Ok(x.dims())
            })?;
            match call.int("dim")? {
                None => shape.iter().filter(|size| **size != 1).count(),
                Some(dim) => D - usize::from(shape.get(axis(dim, D)) == Some(&1)),
            }
        }
    })
}

fn reshaped<const D: usize, const N: usize>(call: &Call) -> Result<Outputs> {
    if call.op == "stack" {
        let dim = dim(call, Some(0))?;
        return of!(call, "tensors.0", exact::<D>(call, "tensors.0")?, Float | Int | Bool, x => {
            one(Tensor::stack::<N>(others(call, x)?, dim))
        });
    }
    if call.op == "one_hot" {
        let [classes] = match call.int("num_classes")?.unwrap_or(-1) {
            -1 => return not_supported("one_hot without num_classes"),
            classes => unsigned(call, "num_classes", [classes])?,
        };
        return one(int::<D>(call, "input")?.one_hot::<N>(classes));
    }
    of!(call, "input", exact::<D>(call, "input")?, Float | Int | Bool, x => {
        let out: Tensor<N, _> = match call.op.as_str() {
            "reshape" => {
                let shape = needed(call, "shape", call.ints("shape")?)?;
                let shape = <[i64; N]>::try_from(shape).expect("N sizes");
                // In an array of integers, 0 means the old size; in a Shape, none.
                match (shape.contains(&0), shape.contains(&-1)) {
                    (true, true) => return not_supported("reshape with sizes 0 and -1"),
                    (true, false) => x.reshape(Shape::from(unsigned(call, "shape", shape)?)),
                    _ => x.reshape(shape),
                }
            }
            "unsqueeze" => x.unsqueeze_dim(dim(call, None)?),
            "unfold" => {
                let along = needed(call, "dimension", call.int("dimension")?)?;
                let ([size], [step]) = (sizes(call, "size", &[])?, sizes(call, "step", &[])?);
                x.unfold(along, size, step)
            }
            "select" => {
                let index = needed(call, "index", call.int("index")?)?;
                x.select_dim(dim(call, None)?, index)
            }
            "flatten" => {
                let first = call.int("start_dim")?.unwrap_or(0);
                x.flatten(first, call.int("end_dim")?.unwrap_or(-1))
            }
            _ => match call.int("dim")? {
                None => x.squeeze(),
                Some(dim) => x.squeeze_dims(&[dim]),
            },
        };
        one(out)
    })
}

fn cast<const D: usize>(call: &Call) -> Result<Outputs> {
    let to = dtype(needed(call, "dtype", call.text("dtype")?)?)?;
    let input = exact::<D>(call, "input")?;
    if to.is_bool() {
        return of!(call, "input", input, Float | Int, x => one(x.bool()));
    }
    if to.is_float() {
        let to: burn_tensor::FloatDType = to.into();
        return of!(call, "input", input, Float | Int | Bool, x => one(x.cast(to)));
    }
    let to: burn_tensor::IntDType = to.into();
    of!(call, "input", input, Float | Int | Bool, x => one(x.cast(to)))
}

fn einsum(call: &Call) -> Result<Outputs> {
    let equation = needed(call, "equation", call.text("equation")?)?;
    let mut operands = Vec::new();
    let mut batch = 0;
    let (inputs, output) = match equation.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (equation, None),
    };
    let letters = |text: &str| text.chars().filter(|c| c.is_alphabetic()).count();
    let terms: Vec<&str> = inputs.split(',').collect();
    for (index, name) in call.names("operands").iter().enumerate() {
        let rank = rank(call, name)?;
        if let Some(term) = terms.get(index).filter(|term| term.contains('.')) {
            batch = batch.max(rank.saturating_sub(letters(term)));
        }
        operands.push(with_rank!(rank, D => Ok(float::<D>(call, name)?.into()))?);
    }
    let count = match output {
        Some(output) => letters(output) + if output.contains('.') { batch } else { 0 },
        None => {
            let once = |c: &char| c.is_alphabetic() && inputs.matches(*c).count() == 1;
            batch + inputs.chars().filter(once).count()
        }
    };
    match count {
        0 => scalar(Tensor::<1>::einsum(equation, operands)),
        count => with_rank!(count, D => one(Tensor::<D>::einsum(equation, operands))),
    }
}

fn bias(call: &Call) -> Result<Option<Floats<1>>> {
    call.has_input("bias")
        .then(|| float(call, "bias"))
        .transpose()
}

fn conv<const N: usize>(call: &Call) -> Result<ConvOptions<N>> {
    let [groups] = sizes(call, "groups", &[1])?;
    Ok(ConvOptions::new(
        sizes(call, "stride", &[1])?,
        sizes(call, "padding", &[0])?,
        sizes(call, "dilation", &[1])?,
        groups,
    ))
}

fn transposed<const N: usize>(call: &Call) -> Result<ConvTransposeOptions<N>> {
    let [groups] = sizes(call, "groups", &[1])?;
    Ok(ConvTransposeOptions::new(
        sizes(call, "stride", &[1])?,
        sizes(call, "padding", &[0])?,
        sizes(call, "output_padding", &[0])?,
        sizes(call, "dilation", &[1])?,
        groups,
    ))
}

fn max_pool<const N: usize>(call: &Call) -> Result<MaxPoolOptions<N>> {
    let options = MaxPoolOptions::new(sizes(call, "kernel_size", &[])?)
        .with_padding(sizes(call, "padding", &[0])?)
        .with_dilation(sizes(call, "dilation", &[1])?)
        .with_ceil_mode(flag(call, "ceil_mode", false)?);
    Ok(match call.has_arg("stride") {
        true => options.with_stride(sizes(call, "stride", &[])?),
        false => options,
    })
}

fn avg_pool<const N: usize>(call: &Call) -> Result<AvgPoolOptions<N>> {
    absent(call, "divisor_override")?;
    let options = AvgPoolOptions::new(sizes(call, "kernel_size", &[])?)
        .with_padding(sizes(call, "padding", &[0])?)
        .with_count_include_pad(flag(call, "count_include_pad", true)?)
        .with_ceil_mode(flag(call, "ceil_mode", false)?);
    Ok(match call.has_arg("stride") {
        true => options.with_stride(sizes(call, "stride", &[])?),
        false => options,
    })
}

fn interpolate(call: &Call) -> Result<Outputs> {
    let mode = call.text("mode")?.unwrap_or("nearest");
    let corners = flag(call, "align_corners", false)?;
    let factors = call.floats("scale_factor")?.unwrap_or_default();
    match rank(call, "input")? {
        3 => {
            let mode = match mode {
                "nearest" => Mode1d::Nearest,
                "nearest-exact" => Mode1d::NearestExact,
                "linear" => Mode1d::Linear,
                other => return not_supported(format!("interpolate with mode {other}")),
            };
            let mut config = Interpolate1dConfig::new()
                .with_mode(mode)
                .with_align_corners(corners);
            match factors[..] {
                [factor] => config = config.with_scale_factor(Some(factor as f32)),
                _ => config = config.with_output_size(Some(sizes::<1>(call, "size", &[])?[0])),
            }
            one(config.init().forward(float(call, "input")?))
        }
        4 => {
            let mode = match mode {
                "nearest" => InterpolateMode::Nearest,
                "nearest-exact" => InterpolateMode::NearestExact,
                "bilinear" => InterpolateMode::Bilinear,
                "bicubic" => InterpolateMode::Bicubic,
                other => return not_supported(format!("interpolate with mode {other}")),
            };
            let options = InterpolateOptions::new(mode).with_align_corners(corners);
            let options = match factors[..] {
                [factor] => options.with_scale_factor([factor as f32; 2]),
                [high, wide] => options.with_scale_factor([high as f32, wide as f32]),
                _ => options.with_output_size(sizes(call, "size", &[])?),
            };
            one(module::interpolate(float(call, "input")?, options))
        }
        rank => not_supported(format!("interpolate of {rank}-d tensors")),
    }
}

fn grid_options(call: &Call) -> Result<GridSampleOptions> {
    let mode = match call.text("mode")?.unwrap_or("bilinear") {
        "bilinear" => InterpolateMode::Bilinear,
        "nearest" => InterpolateMode::Nearest,
        other => return not_supported(format!("grid_sample with mode {other}")),
    };
    let padding = match call.text("padding_mode")?.unwrap_or("zeros") {
        "zeros" => GridSamplePaddingMode::Zeros,
        "border" => GridSamplePaddingMode::Border,
        "reflection" => GridSamplePaddingMode::Reflection,
        other => return not_supported(format!("grid_sample with padding_mode {other}")),
    };
    Ok(GridSampleOptions::new(mode)
        .with_padding_mode(padding)
        .with_align_corners(flag(call, "align_corners", false)?))
}

/// A vector of parameters; absent ones are ones or zeros, as burn's modules begin.
fn channels<const D: usize>(
    call: &Call,
    name: &str,
    like: &Floats<D>,
    size: usize,
    ones: bool,
) -> Result<Floats<1>> {
    let options = (&Device::default(), like.dtype());
    match (call.has_input(name), ones) {
        (true, _) => float(call, name),
        (false, true) => Ok(Tensor::ones([size], options)),
        (false, false) => Ok(Tensor::zeros([size], options)),
    }
}

/// None is no reduction.
fn reduction(call: &Call) -> Result<Option<Reduction>> {
    match call.text("reduction")?.unwrap_or("mean") {
        "none" => Ok(None),
        "mean" => Ok(Some(Reduction::Mean)),
        "sum" => Ok(Some(Reduction::Sum)),
        "batchmean" => Ok(Some(Reduction::BatchMean)),
        other => not_supported(format!("{} with reduction {other}", call.op)),
    }
}

fn mean_alone(call: &Call) -> Result<()> {
    match reduction(call)? {
        Some(Reduction::Mean) => Ok(()),
        _ => not_supported(format!("{} with another reduction than mean", call.op)),
    }
}

fn cross_entropy(call: &Call) -> Result<Outputs> {
    mean_alone(call)?;
    if rank(call, "input")? != 2 || call.input("target")?.dtype != "I64" {
        return not_supported("cross_entropy of other than [batch, classes] and classes");
    }
    let target = int::<1>(call, "target")?;
    let classes: Vec<i64> = target.to_data().iter().collect();
    let mut config = CrossEntropyLossConfig::new();
    match call.int("ignore_index")?.unwrap_or(-100) {
        ignored if ignored >= 0 => config = config.with_pad_tokens(Some(vec![ignored as usize])),
        ignored if classes.contains(&ignored) => {
            return not_supported("cross_entropy with a negative ignore_index");
        }
        _ => {}
    }
    if call.has_input("weight") {
        let weights = float::<1>(call, "weight")?.to_data().iter().collect();
        config = config.with_weights(Some(weights));
    }
    let smoothing = float_or(call, "label_smoothing", 0.0)?;
    if smoothing != 0.0 {
        config = config.with_smoothing(Some(smoothing as f32));
    }
    scalar(
        config
            .init(&Device::default())
            .forward(float(call, "input")?, target),
    )
}

/// Its targets are integers: probabilities between 0 and 1 are not supported.
fn binary_cross_entropy<const D: usize>(call: &Call, logits: bool) -> Result<Outputs> {
    mean_alone(call)?;
    absent(call, "weight")?;
    absent(call, "pos_weight")?;
    let target = float::<D>(call, "target")?;
    let values: Vec<f64> = target.to_data().iter().collect();
    if values.iter().any(|value| *value != 0.0 && *value != 1.0) {
        return not_supported("binary_cross_entropy with targets between 0 and 1");
    }
    let config = BinaryCrossEntropyLossConfig::new().with_logits(logits);
    let loss = config.init(&Device::default());
    scalar(loss.forward(float::<D>(call, "input")?, target.int()))
}

fn arange(call: &Call) -> Result<Outputs> {
    let dtype = dtype(needed(call, "dtype", call.text("dtype")?)?)?;
    if !dtype.is_int() && !dtype.is_uint() {
        return not_supported("arange of floats");
    }
    let start = needed(call, "start", call.int("start")?)?;
    let end = needed(call, "end", call.int("end")?)?;
    let step = needed(call, "step", call.int("step")?)?;
    if step < 0 {
        return not_supported("arange with a negative step");
    }
    let options = (&Device::default(), dtype);
    one(Ints::<1>::arange_step(start..end, step as usize, options))
}

fn full(call: &Call) -> Result<Outputs> {
    let shape = needed(call, "size", call.ints("size")?)?;
    let dtype = dtype(needed(call, "dtype", call.text("dtype")?)?)?;
    let options = (&Device::default(), dtype);
    with_rank!(shape.len(), D => {
        let shape = <[i64; D]>::try_from(&shape[..]).expect("D sizes");
        let shape = unsigned(call, "size", shape)?;
        if dtype.is_float() {
            return scalar!(call, "fill_value", Float, value => {
                one(Floats::<D>::full(shape, value, options))
            });
        }
        if dtype.is_bool() {
            let value = needed(call, "fill_value", call.int("fill_value")?)?;
            return one(Bool::<D>::full(shape, value != 0, options));
        }
        scalar!(call, "fill_value", Int, value => one(Ints::<D>::full(shape, value, options)))
    })
}

fn grids(call: &Call) -> Result<Outputs> {
    let indexing = match call.text("indexing")?.unwrap_or("ij") {
        "ij" => GridIndexing::Matrix,
        "xy" => GridIndexing::Cartesian,
        other => return not_supported(format!("meshgrid with indexing {other}")),
    };
    let names = call.names("tensors");
    with_rank!(names.len(), N => {
        of!(call, "tensors.0", exact::<1>(call, "tensors.0")?, Float | Int, x => {
            let all = others(call, x)?;
            let all: [_; N] = all.try_into().expect("N vectors");
            list(meshgrid(&all, indexing).to_vec())
        })
    })
}

fn length(call: &Call) -> Result<Option<usize>> {
    match call.text("norm")? {
        None | Some("backward") => {}
        Some(other) => return not_supported(format!("{} with norm {other}", call.op)),
    }
    match call.int("n")? {
        None => Ok(None),
        Some(n) => Ok(Some(unsigned(call, "n", [n])?[0])),
    }
}

/// A complex tensor as it is in files: floats with a last axis of 2.
fn complex<const D: usize>(_call: &Call, real: Floats<D>, imaginary: Floats<D>) -> Result<Outputs> {
    let (mut out, imaginary) = (real.dump(), imaginary.dump());
    let size = harness::size_of(&out.dtype);
    let pairs = out.data.chunks(size).zip(imaginary.data.chunks(size));
    out.data = pairs.flat_map(|(a, b)| [a, b].concat()).collect();
    out.shape.push(2);
    Ok(vec![("out".to_owned(), out)])
}
