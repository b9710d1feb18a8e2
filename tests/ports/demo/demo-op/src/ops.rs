//! The operators, one match over their names.

use crate::call::{Call, Result, Stop};
use crate::tensor::{broadcast, round_half_even, Tensor};

/// Computes a call.
///
/// # Errors
/// For an operator that is not here, and for a call that the operator rejects.
pub fn compute(call: &mut Call) -> Result<Tensor> {
    match call.op.as_str() {
        "abs" => map(call, f64::abs),
        "neg" => map(call, |x| -x),
        "sqrt" => map(call, f64::sqrt),
        "exp" => map(call, f64::exp),
        "sigmoid" => map(call, |x| 1.0 / (1.0 + (-x).exp())),
        "relu" => map(call, |x| if x < 0.0 { 0.0 } else { x }),
        "round" => round(call),
        "maximum" => combine(call, larger),
        "minimum" => combine(call, smaller),
        "clamp" => clamp(call),
        "sum" => sum(call),
        "amax" => amax(call),
        "softmax" => softmax(call),
        "transpose" => transpose(call),
        "matmul" => matmul(call),
        name => Err(Stop::NotSupported(name.to_owned())),
    }
}

/// The larger of two numbers, NaN if either is.
fn larger(x: f64, y: f64) -> f64 {
    if x.is_nan() || x > y {
        x
    } else {
        y
    }
}

fn smaller(x: f64, y: f64) -> f64 {
    -larger(-x, -y)
}

fn map(call: &mut Call, function: impl Fn(f64) -> f64) -> Result<Tensor> {
    let input = call.input("input")?;
    let values = input.elements().into_iter().map(function).collect();
    Ok(input.with(&input.shape, values))
}

fn round(call: &mut Call) -> Result<Tensor> {
    let decimals = call.integer("decimals")?.unwrap_or(0);
    let input = call.input("input")?;
    let digits = i32::try_from(decimals).map_err(Stop::rejected)?;
    let (scale, dtype) = (10_f64.powi(digits.abs()), input.dtype);
    let values = input.elements().into_iter().map(|x| match digits {
        0 => round_half_even(x),
        1.. => round_half_even(dtype.round(x * scale)) / scale,
        _ => round_half_even(dtype.round(x / scale)) * scale,
    });
    Ok(input.with(&input.shape, values.collect()))
}

fn zip(one: &Tensor, other: &Tensor, function: impl Fn(f64, f64) -> f64) -> Result<Tensor> {
    if one.dtype != other.dtype {
        return Err(Stop::NotSupported("a call of mixed dtypes".to_owned()));
    }
    let shape = broadcast(&one.shape, &other.shape)?;
    let (first, second) = (one.expand(&shape)?, other.expand(&shape)?);
    let pairs = first.elements().into_iter().zip(second.elements());
    Ok(one.with(&shape, pairs.map(|(x, y)| function(x, y)).collect()))
}

fn combine(call: &mut Call, function: impl Fn(f64, f64) -> f64) -> Result<Tensor> {
    zip(&call.input("input")?, &call.input("other")?, function)
}

fn clamp(call: &mut Call) -> Result<Tensor> {
    let input = call.input("input")?;
    let least = call.input_or_number("min", input.dtype)?;
    let most = call.input_or_number("max", input.dtype)?;
    if least.is_none() && most.is_none() {
        return Err(Stop::rejected("clamp needs min or max"));
    }
    let raised = least.map_or_else(|| Ok(input.clone()), |least| zip(&input, &least, larger))?;
    most.map_or_else(|| Ok(raised.clone()), |most| zip(&raised, &most, smaller))
}

fn sum(call: &mut Call) -> Result<Tensor> {
    let mut input = call.input("input")?;
    input.dtype = call.dtype(input.dtype)?;
    let wide = input.dtype.accumulator();
    let total = |values: &[f64]| values.iter().fold(0.0, |sum, x| wide.round(sum + x));
    reduce(call, &input, |values| Ok(total(values)))
}

fn amax(call: &mut Call) -> Result<Tensor> {
    let input = call.input("input")?;
    reduce(call, &input, |values| {
        let largest = values.iter().copied().reduce(larger);
        largest.ok_or_else(|| Stop::rejected("the largest of no elements"))
    })
}

/// Reduces the axes `dim`, all where none is stated; `keepdim` leaves them with size 1.
fn reduce(
    call: &mut Call,
    input: &Tensor,
    function: impl Fn(&[f64]) -> Result<f64>,
) -> Result<Tensor> {
    let (dims, keep) = (
        call.integers("dim")?.unwrap_or_default(),
        call.flag("keepdim")?,
    );
    let mut is_reduced = vec![dims.is_empty(); input.shape.len()];
    for dim in dims {
        let axis = input.axis(dim)?;
        if is_reduced.get(axis) == Some(&true) {
            return Err(Stop::rejected(format!("axis {dim} is stated twice")));
        }
        // A scalar has no axis to reduce.
        if let Some(one) = is_reduced.get_mut(axis) {
            *one = true;
        }
    }
    let (reduced, kept): (Vec<_>, Vec<_>) =
        (0..is_reduced.len()).partition(|axis| is_reduced[*axis]);
    let multiply = |axes: &[usize]| {
        axes.iter()
            .map(|axis| input.shape[*axis])
            .product::<usize>()
    };
    let (count, length) = (multiply(&kept), multiply(&reduced));
    let elements = input.permute(&[kept, reduced].concat()).elements();
    let lanes = (0..count).map(|at| function(&elements[at * length..][..length]));
    let shape = (0..is_reduced.len()).filter(|axis| keep || !is_reduced[*axis]);
    let shape: Vec<_> = shape
        .map(|axis| {
            if is_reduced[axis] {
                1
            } else {
                input.shape[axis]
            }
        })
        .collect();
    Ok(input.with(&shape, lanes.collect::<Result<_>>()?))
}

fn softmax(call: &mut Call) -> Result<Tensor> {
    let mut input = call.input("input")?;
    input.dtype = call.dtype(input.dtype)?;
    let missing = || Stop::rejected("softmax needs an axis");
    let axis = call.integer("dim")?.ok_or_else(missing)?;
    let moved = input.transpose(axis, -1)?;
    let length = moved.shape.last().copied().unwrap_or(1);
    let mut values = moved.elements();
    for lane in values.chunks_mut(length.max(1)) {
        let largest = lane.iter().copied().fold(f64::NEG_INFINITY, larger);
        for x in lane.iter_mut() {
            *x = (*x - largest).exp();
        }
        let total: f64 = lane.iter().sum();
        for x in lane.iter_mut() {
            *x /= total;
        }
    }
    moved.with(&moved.shape, values).transpose(axis, -1)
}

fn transpose(call: &mut Call) -> Result<Tensor> {
    let missing = || Stop::rejected("transpose needs two axes");
    let first = call.integer("dim0")?.ok_or_else(missing)?;
    let second = call.integer("dim1")?.ok_or_else(missing)?;
    call.input("input")?.transpose(first, second)
}

fn matmul(call: &mut Call) -> Result<Tensor> {
    let (first, second) = (call.input("input")?, call.input("other")?);
    if first.dtype != second.dtype || first.shape.is_empty() || second.shape.is_empty() {
        return Err(Stop::rejected(
            "matmul needs two tensors of one dtype with axes",
        ));
    }
    let is_vector = [&first, &second].map(|one| one.shape.len() == 1);
    let second = if is_vector[1] {
        second
    } else {
        second.transpose(-1, -2)?
    };
    let [first_batch, second_batch] = [&first, &second].map(|one| {
        let axes = one.shape.len().saturating_sub(2);
        &one.shape[..axes]
    });
    let batch = broadcast(first_batch, second_batch)?;
    let [(rows, inner), (columns, other)] = [&first, &second].map(|one| match one.shape[..] {
        [.., rows, inner] => (rows, inner),
        [inner] => (1, inner),
        [] => (1, 1),
    });
    if inner != other {
        return Err(Stop::rejected(format!("{inner} columns for {other} rows")));
    }
    let left = first
        .expand(&[&batch[..], &[rows, inner]].concat())?
        .elements();
    let right = second
        .expand(&[&batch[..], &[columns, inner]].concat())?
        .elements();
    let mut values = Vec::new();
    for at in 0..batch.iter().product::<usize>() {
        for row in at * rows..(at + 1) * rows {
            for column in at * columns..(at + 1) * columns {
                let (x, y) = (&left[row * inner..], &right[column * inner..]);
                values.push(x.iter().zip(y).take(inner).map(|(x, y)| x * y).sum());
            }
        }
    }
    let sizes = [(rows, is_vector[0]), (columns, is_vector[1])];
    let kept = sizes.into_iter().filter(|(_, is_vector)| !is_vector);
    let shape: Vec<_> = batch.iter().copied().chain(kept.map(|one| one.0)).collect();
    Ok(first.with(&shape, values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn what_is_not_here_is_not_supported() {
        for (op, args) in [("erfinv", "{}"), ("abs", "{\"dim\":1}")] {
            let mut call = Call::read(op, args, Path::new("absent")).unwrap();
            let found = compute(&mut call);
            assert!(matches!(
                (op, found),
                ("erfinv", Err(Stop::NotSupported(_))) | ("abs", Err(Stop::Rejected(_)))
            ));
            assert_eq!(call.check_used().is_err(), op == "abs");
        }
    }

    #[test]
    fn nan_is_the_larger_and_the_smaller() {
        assert!(larger(f64::NAN, 1.0).is_nan() && larger(1.0, f64::NAN).is_nan());
        assert!(smaller(f64::NAN, 1.0).is_nan() && smaller(1.0, f64::NAN).is_nan());
        assert_eq!((larger(1.0, 2.0), smaller(1.0, 2.0)), (2.0, 1.0));
    }
}
