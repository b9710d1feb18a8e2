//! One call: its arguments, its inputs with their views, and why there is no result.

use crate::tensor::{self, Dtype, Tensor};
use demo_serialize::json::{self, Json};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

/// Why a call has no result.
#[derive(Debug, PartialEq)]
pub enum Stop {
    /// The port does not have the operator, the dtype or the argument.
    NotSupported(String),
    /// The port has the operator, and rejects the call.
    Rejected(String),
}

impl Stop {
    /// A rejection for this reason.
    pub fn rejected(reason: impl Display) -> Self {
        Self::Rejected(reason.to_string())
    }
}

/// What an operator returns.
pub type Result<T> = std::result::Result<T, Stop>;

/// An operator with what it is called with; each argument and input is taken once.
pub struct Call {
    /// Its name, torch's.
    pub op: String,
    args: BTreeMap<String, Json>,
    inputs: BTreeMap<String, Tensor>,
}

impl Call {
    /// Reads the arguments, and the inputs' file if there is one, and applies the views.
    ///
    /// # Errors
    /// For a file that is damaged, and for dtypes and views that are not supported.
    pub fn read(op: &str, args: &str, inputs: &Path) -> Result<Self> {
        let Json::Object(mut args) = json::parse(args.as_bytes()).map_err(Stop::rejected)? else {
            return Err(Stop::rejected("the arguments are not an object"));
        };
        let mut named = BTreeMap::new();
        if inputs.exists() {
            let bytes = std::fs::read(inputs).map_err(Stop::rejected)?;
            named = tensor::decode(&bytes, op)?;
        }
        if let Some(Json::Object(views)) = args.remove("views") {
            for (name, view) in &views {
                let viewed = named.get(name).map(|input| apply(input, view));
                let missing = || Stop::rejected(format!("{name} is missing"));
                named.insert(name.clone(), viewed.ok_or_else(missing)??);
            }
        }
        args.retain(|_, value| *value != Json::Null);
        let op = op.to_owned();
        Ok(Self {
            op,
            args,
            inputs: named,
        })
    }

    /// Takes an input.
    ///
    /// # Errors
    /// Where there is none of this name.
    pub fn input(&mut self, name: &str) -> Result<Tensor> {
        let missing = || Stop::rejected(format!("{name} is missing"));
        self.inputs.remove(name).ok_or_else(missing)
    }

    /// Takes an input that may be absent, or the number that is given in its place.
    ///
    /// # Errors
    /// Where the argument is not a number.
    pub fn input_or_number(&mut self, name: &str, dtype: Dtype) -> Result<Option<Tensor>> {
        if self.inputs.contains_key(name) {
            return self.input(name).map(Some);
        }
        let value = self.args.remove(name).map(|value| match &value {
            Json::Text(text) => text.parse().map_err(Stop::rejected),
            _ => number(&value).ok_or_else(|| self.reject(name)),
        });
        Ok(value
            .transpose()?
            .map(|value| Tensor::new(dtype, &[], vec![value])))
    }

    /// Takes an integer.
    ///
    /// # Errors
    /// Where the argument is something else.
    pub fn integer(&mut self, name: &str) -> Result<Option<i64>> {
        let value = self.args.remove(name);
        let value = value.map(|value| integer(&value).ok_or_else(|| self.reject(name)));
        value.transpose()
    }

    /// Takes a list of integers.
    ///
    /// # Errors
    /// Where the argument is something else.
    pub fn integers(&mut self, name: &str) -> Result<Option<Vec<i64>>> {
        let value = self.args.remove(name);
        let value = value.map(|value| integers(&value).ok_or_else(|| self.reject(name)));
        value.transpose()
    }

    /// Takes `true` or `false`, the default.
    ///
    /// # Errors
    /// Where the argument is something else.
    pub fn flag(&mut self, name: &str) -> Result<bool> {
        match self.args.remove(name) {
            None => Ok(false),
            Some(Json::Bool(value)) => Ok(value),
            Some(_) => Err(self.reject(name)),
        }
    }

    /// Takes the dtype of the result, by torch's name.
    ///
    /// # Errors
    /// For a dtype that is not supported.
    pub fn dtype(&mut self, default: Dtype) -> Result<Dtype> {
        match self.args.remove("dtype") {
            None => Ok(default),
            Some(Json::Text(name)) => Dtype::named(&name).ok_or_else(|| {
                let op = &self.op;
                Stop::NotSupported(format!("{op} with dtype {name}"))
            }),
            Some(_) => Err(self.reject("dtype")),
        }
    }

    /// Checks that the operator took all that it was given: nothing may be ignored in silence.
    ///
    /// # Errors
    /// For an argument or an input that is left.
    pub fn check_used(&self) -> Result<()> {
        match self.args.keys().chain(self.inputs.keys()).next() {
            None => Ok(()),
            Some(name) => Err(Stop::NotSupported(format!("{} with {name}", self.op))),
        }
    }

    fn reject(&self, name: &str) -> Stop {
        Stop::rejected(format!("{} does not take this {name}", self.op))
    }
}

/// Applies the one view that `view` states, without a copy.
fn apply(input: &Tensor, view: &Json) -> Result<Tensor> {
    let unknown = || Stop::NotSupported("a view of this kind".to_owned());
    let Json::Object(view) = view else {
        return Err(unknown());
    };
    let (kind, numbers) = view.iter().next().ok_or_else(unknown)?;
    let numbers = integers(numbers).ok_or_else(unknown)?;
    match (kind.as_str(), &numbers[..]) {
        ("transpose", &[first, second]) => input.transpose(first, second),
        ("step", &[axis, step]) => input.step(axis, step),
        ("narrow", &[axis, start, length]) => input.narrow(axis, start, length),
        ("expand", sizes) => input.expand_to(sizes),
        _ => Err(unknown()),
    }
}

// Integers of arguments are small.
#[allow(clippy::cast_precision_loss)]
fn number(value: &Json) -> Option<f64> {
    match value {
        Json::Integer(value) => Some(*value as f64),
        Json::Number(value) => Some(*value),
        _ => None,
    }
}

#[allow(clippy::cast_possible_truncation)]
fn integer(value: &Json) -> Option<i64> {
    number(value)
        .filter(|value| value.fract() == 0.0)
        .map(|value| value as i64)
}

fn integers(value: &Json) -> Option<Vec<i64>> {
    match value {
        Json::Array(items) => items.iter().map(integer).collect(),
        _ => None,
    }
}
