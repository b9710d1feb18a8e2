//! From a tensor's description and its storage's bytes to its elements.

use super::flatten::Named;
use super::value::{StorageRef, TensorRef};
use super::Records;
use crate::bin::element_count;
use crate::error::{refuse, Refusal, Result};
use crate::{Checkpoint, Tensor};

/// Most dimensions; torch itself stops at 64.
const MAX_DIMS: usize = 64;

/// Elements that a small file may expand to (a stride of zero repeats what is stored once).
const FREE_ELEMENTS: usize = 1 << 24;

/// Persistent ids have a view in the legacy stream, and in a zip none.
pub(super) fn check_ids(named: &Named, have_view: bool) -> Result<()> {
    match named.values().find(|one| one.storage.has_view != have_view) {
        Some(_) => refuse("a persistent id has another number of parts than its container's"),
        None => Ok(()),
    }
}

/// Decodes all tensors.
pub(super) fn collect(named: &Named, records: &Records, file: usize) -> Result<Checkpoint> {
    let mut budget = file.saturating_mul(4).saturating_add(FREE_ELEMENTS);
    let decoded = named.iter().map(|(name, tensor)| {
        let data = elements(tensor, records, &mut budget);
        let data = data.map_err(|refusal| refusal.within(&format!("tensor {name:?}")))?;
        let (name, shape) = (name.clone(), tensor.shape.clone());
        Ok(Tensor { name, shape, data })
    });
    decoded.collect()
}

/// The elements in row-major order of the tensor's axes, whatever order they are stored in.
fn elements(tensor: &TensorRef, records: &Records, budget: &mut usize) -> Result<Vec<f32>> {
    let bytes = record(&tensor.storage, records)?;
    let size = tensor.dtype.size();
    let count = check_view(tensor, bytes.len() / size)?;
    let left = budget.checked_sub(count);
    *budget = left.ok_or_else(|| Refusal::new("it expands to far more than the file holds"))?;
    let element = |index: usize| {
        let at = index * size;
        tensor.dtype.widen(&bytes[at..at + size], records.big)
    };
    Ok(indices(tensor, count).into_iter().map(element).collect())
}

/// The storage's bytes, which have to be as many as the pickle declares.
fn record<'a>(storage: &StorageRef, records: &Records<'a>) -> Result<&'a [u8]> {
    let key = &*storage.key;
    let Some(&bytes) = records.bytes.get(key) else {
        return refuse(format!("its storage {key:?} is missing"));
    };
    let size = storage.dtype.map_or(1, crate::scalar::Dtype::size);
    if storage.length.checked_mul(size) != Some(bytes.len()) {
        let (length, found) = (storage.length, bytes.len());
        return refuse(format!(
            "its storage {key:?} of {length} elements has {found} bytes"
        ));
    }
    Ok(bytes)
}

/// How many elements the view has; refused if one of them lies beyond the storage.
fn check_view(tensor: &TensorRef, stored: usize) -> Result<usize> {
    if tensor.shape.len() > MAX_DIMS {
        return refuse(format!("it has {} dimensions", tensor.shape.len()));
    }
    let count = element_count(&tensor.shape)?;
    // Nothing is read of an empty tensor, and torch lets its offset lie anywhere.
    if count == 0 {
        return Ok(0);
    }
    let steps = tensor.shape.iter().zip(&tensor.strides);
    let mut lengths = steps.map(|(dim, stride)| (dim - 1).checked_mul(*stride));
    let last = lengths.try_fold(tensor.offset, |sum, length| sum.checked_add(length?));
    if last.is_some_and(|last| last < stored) {
        return Ok(count);
    }
    let TensorRef {
        offset,
        shape,
        strides,
        ..
    } = tensor;
    refuse(format!(
        "shape {shape:?}, strides {strides:?}, offset {offset} reach beyond {stored} elements"
    ))
}

/// Where each element lies in the storage: one axis after the other, the first outermost.
fn indices(tensor: &TensorRef, count: usize) -> Vec<usize> {
    if count == 0 {
        return Vec::new();
    }
    let mut starts = vec![tensor.offset];
    for (&dim, &stride) in tensor.shape.iter().zip(&tensor.strides) {
        let steps = |start: usize| (0..dim).map(move |step| start + step * stride);
        starts = starts.into_iter().flat_map(steps).collect();
    }
    starts
}
