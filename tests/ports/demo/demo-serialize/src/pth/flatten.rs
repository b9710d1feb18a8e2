//! From nested dicts to tensors with one name each.

use super::value::{Heap, Place, TensorRef, Value};
use crate::error::{refuse, Result};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Deepest nesting of containers; also ends dicts that hold themselves.
const MAX_DEPTH: usize = 32;

/// Most values that are looked at: a dict may hold another one twice, at every level.
const MAX_VISITS: usize = 1 << 22;

/// Most tensors, and the most bytes of a name, which repeats what lies above it.
const MAX_TENSORS: usize = 1 << 17;
const MAX_NAME: usize = 1 << 10;

/// Tensors by name, in the names' order.
pub(super) type Named = BTreeMap<String, Rc<TensorRef>>;

struct Walk<'a> {
    heap: &'a Heap,
    path: String,
    visits: usize,
    found: Named,
}

/// All tensors below `top`: one under the keys `a`, then `b`, is named `a.b`. An integer key,
/// and a place in a list or tuple, counts as its digits. What is no tensor is passed over.
pub(super) fn tensors(top: &Value, heap: &Heap) -> Result<Named> {
    if !matches!(top, Value::Dict(_)) {
        return refuse("the checkpoint is no dict, so its tensors have no names");
    }
    let (path, found) = (String::new(), Named::new());
    let mut walk = Walk {
        heap,
        path,
        visits: 0,
        found,
    };
    walk.value(top, 0)?;
    Ok(walk.found)
}

impl Walk<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<()> {
        self.visits += 1;
        if depth > MAX_DEPTH || self.visits > MAX_VISITS {
            return refuse("the checkpoint's containers are nested too deep or too often");
        }
        match value {
            Value::Dict(place) => self.dict(*place, depth),
            Value::List(place) | Value::Tuple(place) => self.list(*place, depth),
            Value::Tensor(tensor) => self.tensor(tensor),
            Value::Storage(_) => refuse(format!("{:?} is a storage without a tensor", self.path)),
            _ => Ok(()),
        }
    }

    fn dict(&mut self, place: Place, depth: usize) -> Result<()> {
        let heap = self.heap;
        for (key, value) in heap.pairs(place) {
            match key {
                Value::Text(key) => self.below(key, value, depth)?,
                Value::Int(key) => self.below(&key.to_string(), value, depth)?,
                _ => self.unnamed(value, depth)?,
            }
        }
        Ok(())
    }

    fn list(&mut self, place: Place, depth: usize) -> Result<()> {
        let heap = self.heap;
        for (index, value) in heap.items(place).iter().enumerate() {
            self.below(&index.to_string(), value, depth)?;
        }
        Ok(())
    }

    fn below(&mut self, key: &str, value: &Value, depth: usize) -> Result<()> {
        let length = self.path.len();
        if length + key.len() > MAX_NAME {
            return self.unnamed(value, depth);
        }
        if depth > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        self.value(value, depth + 1)?;
        self.path.truncate(length);
        Ok(())
    }

    /// A key that cannot be part of a name is no matter unless a tensor lies below it.
    fn unnamed(&mut self, value: &Value, depth: usize) -> Result<()> {
        let before = self.found.len();
        self.value(value, depth + 1)?;
        if self.found.len() > before {
            return refuse(format!(
                "a key below {:?} makes no name for its tensor",
                self.path
            ));
        }
        Ok(())
    }

    fn tensor(&mut self, tensor: &Rc<TensorRef>) -> Result<()> {
        if self.found.len() == MAX_TENSORS {
            return refuse(format!(
                "the checkpoint holds more than {MAX_TENSORS} tensors"
            ));
        }
        let twin = self.found.insert(self.path.clone(), Rc::clone(tensor));
        match twin {
            None => Ok(()),
            Some(_) => refuse(format!("two tensors are named {:?}", self.path)),
        }
    }
}
