//! What a pickle of a checkpoint can hold.

use super::globals::Global;
use crate::error::{refuse, Refusal, Result};
use crate::scalar::Dtype;
use std::rc::Rc;

/// A value on the machine's stack. Containers are places on the heap: a copy is cheap, a list
/// may hold itself, and dropping a deep nest does not recurse.
#[derive(Debug, Clone)]
pub(super) enum Value {
    None,
    /// A float, false, bytes: of no use for a tensor beyond being there.
    Other,
    /// Kept apart for the flags in a tensor's metadata.
    True,
    Int(i64),
    /// An integer beyond 64 bits, as its little-endian bytes.
    Long(Rc<[u8]>),
    Text(Rc<str>),
    Tuple(Place),
    List(Place),
    Dict(Place),
    Global(Global),
    Storage(Rc<StorageRef>),
    Tensor(Rc<TensorRef>),
}

/// Which object of the heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(usize);

/// A persistent id: one raw storage, and how its elements are typed.
#[derive(Debug, Clone)]
pub(super) struct StorageRef {
    pub(super) key: Rc<str>,
    /// `None` for an untyped storage, whose length counts bytes.
    pub(super) dtype: Option<Dtype>,
    pub(super) length: usize,
    /// The id has a sixth part, as in the legacy stream alone.
    pub(super) has_view: bool,
}

/// A tensor as the pickle describes it: not yet compared with its storage.
#[derive(Debug)]
pub(super) struct TensorRef {
    pub(super) storage: Rc<StorageRef>,
    pub(super) dtype: Dtype,
    /// In elements, like the strides.
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Vec<usize>,
}

enum Object {
    Items(Vec<Value>),
    Pairs(Vec<(Value, Value)>),
}

/// All containers of one pickle.
#[derive(Default)]
pub(super) struct Heap(Vec<Object>);

impl Heap {
    pub(super) fn new_items(&mut self, items: Vec<Value>) -> Place {
        self.0.push(Object::Items(items));
        Place(self.0.len() - 1)
    }

    pub(super) fn new_pairs(&mut self) -> Place {
        self.0.push(Object::Pairs(Vec::new()));
        Place(self.0.len() - 1)
    }

    /// The items of a list, tuple or set; nothing for a dict.
    pub(super) fn items(&self, place: Place) -> &[Value] {
        match &self.0[place.0] {
            Object::Items(items) => items,
            Object::Pairs(_) => &[],
        }
    }

    /// The pairs of a dict; nothing for the others.
    pub(super) fn pairs(&self, place: Place) -> &[(Value, Value)] {
        match &self.0[place.0] {
            Object::Pairs(pairs) => pairs,
            Object::Items(_) => &[],
        }
    }

    pub(super) fn extend(&mut self, place: Place, more: Vec<Value>) {
        if let Object::Items(items) = &mut self.0[place.0] {
            items.extend(more);
        }
    }

    /// Adds keys and values that take turns.
    pub(super) fn insert(&mut self, place: Place, more: Vec<Value>) -> Result<()> {
        if more.len() % 2 != 0 {
            return refuse("a dict is given a key without a value");
        }
        if let Object::Pairs(pairs) = &mut self.0[place.0] {
            let mut more = more.into_iter();
            while let (Some(key), Some(value)) = (more.next(), more.next()) {
                pairs.push((key, value));
            }
        }
        Ok(())
    }

    /// The items of a value that has to be a tuple.
    pub(super) fn tuple(&self, value: &Value, what: &str) -> Result<&[Value]> {
        match value {
            Value::Tuple(place) => Ok(self.items(*place)),
            _ => refuse(format!("{what} is no tuple")),
        }
    }

    /// A value that has to be a tuple of counts: shape or strides.
    pub(super) fn counts(&self, value: &Value, what: &str) -> Result<Vec<usize>> {
        let items = self.tuple(value, what)?;
        items.iter().map(|item| item.count(what)).collect()
    }
}

impl Value {
    /// A value that has to be an integer of at least zero.
    pub(super) fn count(&self, what: &str) -> Result<usize> {
        match self {
            Self::Int(number) => usize::try_from(*number)
                .map_err(|_| Refusal::new(format!("{what} holds {number}, which is no count"))),
            _ => refuse(format!("{what} is no integer in range")),
        }
    }

    /// A value that has to be a string.
    pub(super) fn text(&self, what: &str) -> Result<Rc<str>> {
        match self {
            Self::Text(text) => Ok(Rc::clone(text)),
            _ => refuse(format!("{what} is no string")),
        }
    }
}
