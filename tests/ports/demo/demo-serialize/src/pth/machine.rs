//! The pickle machine: a stack, marks, a memo, and nothing that runs code.
//!
//! Source of the opcodes' meaning: `Lib/pickletools.py` of `CPython`. Each opcode makes at
//! most one object, so the memory is bounded by the pickle's length.

use super::globals::{self, Called};
use super::value::{Heap, Value};
use super::{literal, op};
use crate::cursor::Cursor;
use crate::error::{refuse, Refusal, Result};
use std::collections::HashMap;
use std::rc::Rc;

struct Machine<'a> {
    cursor: Cursor<'a>,
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: HashMap<usize, Value>,
    heap: Heap,
}

/// Runs one pickle: its value, the heap of its containers, and how many bytes follow it.
pub(super) fn run(bytes: &[u8]) -> Result<(Value, Heap, usize)> {
    let mut machine = Machine {
        cursor: Cursor::new(bytes),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        heap: Heap::default(),
    };
    machine.protocol()?;
    loop {
        let at = machine.cursor.position();
        let code = machine.cursor.u8("a pickle opcode")?;
        if code == op::STOP {
            return machine.finish();
        }
        let step = machine.step(code);
        step.map_err(|refusal| refusal.within(&format!("pickle opcode {code:#04x} at byte {at}")))?;
    }
}

impl Machine<'_> {
    fn protocol(&mut self) -> Result<()> {
        let [code, version] = self.cursor.array("the pickle's protocol")?;
        if code != op::PROTO || !(2..=5).contains(&version) {
            return refuse("the pickle's protocol is not one of 2 to 5");
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(Value, Heap, usize)> {
        let top = self.pop()?;
        if !self.stack.is_empty() || !self.marks.is_empty() {
            return refuse("the pickle ends with more than one value");
        }
        Ok((top, self.heap, self.cursor.remaining()))
    }

    /// Opcodes that change something; all others push one value.
    fn step(&mut self, code: u8) -> Result<()> {
        match code {
            op::FRAME => self.frame(),
            op::BINPUT | op::LONG_BINPUT | op::MEMOIZE => self.put(code),
            op::MARK | op::POP | op::POP_MARK => self.drop(code),
            op::APPEND | op::APPENDS | op::ADDITEMS => self.append(code),
            op::SETITEM | op::SETITEMS => self.set(code),
            op::BUILD => self.build(),
            _ => {
                let value = self.value(code)?;
                self.stack.push(value);
                Ok(())
            }
        }
    }

    fn value(&mut self, code: u8) -> Result<Value> {
        let cursor = &mut self.cursor;
        match code {
            op::NONE | op::NEWTRUE | op::NEWFALSE | op::BINFLOAT => literal::constant(code, cursor),
            op::BININT | op::BININT1 | op::BININT2 | op::LONG1 | op::LONG4 => {
                literal::integer(code, cursor)
            }
            op::BINUNICODE | op::SHORT_BINUNICODE | op::BINUNICODE8 => literal::text(code, cursor),
            op::BINSTRING | op::SHORT_BINSTRING => literal::old_string(code, cursor),
            op::BINBYTES | op::SHORT_BINBYTES | op::BINBYTES8 | op::BYTEARRAY8 => {
                literal::bytes(code, cursor)
            }
            op::DUP => self.top().cloned(),
            op::BINGET | op::LONG_BINGET => self.get(code),
            op::EMPTY_TUPLE | op::TUPLE1 | op::TUPLE2 | op::TUPLE3 | op::TUPLE => self.tuple(code),
            op::EMPTY_LIST | op::EMPTY_SET | op::LIST | op::FROZENSET => self.list(code),
            op::EMPTY_DICT | op::DICT => self.dict(code),
            op::GLOBAL | op::STACK_GLOBAL => self.global(code),
            op::REDUCE => self.reduce(),
            op::BINPERSID => self.persistent(),
            _ => refuse("torch.save emits no such opcode: the pickle is damaged or not torch's"),
        }
    }

    /// What lies below the last mark belongs to whoever set the mark.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Result<Value> {
        let above = self.stack.len() > self.floor();
        let popped = if above { self.stack.pop() } else { None };
        popped.ok_or_else(|| Refusal::new("the stack is empty"))
    }

    fn top(&self) -> Result<&Value> {
        let above = self.stack.get(self.floor()..).unwrap_or_default();
        above
            .last()
            .ok_or_else(|| Refusal::new("the stack is empty"))
    }

    /// Everything above the last mark, which is taken away.
    fn pop_mark(&mut self) -> Result<Vec<Value>> {
        let mark = self.marks.pop();
        let mark = mark.ok_or_else(|| Refusal::new("no mark is set"))?;
        Ok(self.stack.split_off(mark))
    }

    /// A frame says only how far to read ahead; it has to end within the pickle.
    fn frame(&mut self) -> Result<()> {
        self.cursor.count(1, "a frame").map(|_| ())
    }

    fn put(&mut self, code: u8) -> Result<()> {
        let index = match code {
            op::BINPUT => self.cursor.u8("a memo index")?.into(),
            op::LONG_BINPUT => self.cursor.u32("a memo index")? as usize,
            _ => self.memo.len(),
        };
        let value = self.top()?.clone();
        self.memo.insert(index, value);
        Ok(())
    }

    fn get(&mut self, code: u8) -> Result<Value> {
        let index = match code {
            op::BINGET => self.cursor.u8("a memo index")?.into(),
            _ => self.cursor.u32("a memo index")? as usize,
        };
        let value = self.memo.get(&index).cloned();
        value.ok_or_else(|| Refusal::new(format!("memo {index} was never set")))
    }

    fn drop(&mut self, code: u8) -> Result<()> {
        match code {
            op::MARK => self.marks.push(self.stack.len()),
            op::POP_MARK => drop(self.pop_mark()?),
            // A pop right after a mark takes the mark.
            _ if self.marks.last() == Some(&self.stack.len()) => drop(self.marks.pop()),
            _ => drop(self.pop()?),
        }
        Ok(())
    }

    fn tuple(&mut self, code: u8) -> Result<Value> {
        let items = match code {
            op::EMPTY_TUPLE => Vec::new(),
            op::TUPLE => self.pop_mark()?,
            _ => self.pop_last(usize::from(code - op::TUPLE1) + 1)?,
        };
        Ok(Value::Tuple(self.heap.new_items(items)))
    }

    /// The last `count` values, the topmost last.
    fn pop_last(&mut self, count: usize) -> Result<Vec<Value>> {
        let items = (0..count).map(|_| self.pop());
        let mut items = items.collect::<Result<Vec<_>>>()?;
        items.reverse();
        Ok(items)
    }

    /// Sets are kept as lists: their items' order is of no account here.
    fn list(&mut self, code: u8) -> Result<Value> {
        let items = match code {
            op::LIST | op::FROZENSET => self.pop_mark()?,
            _ => Vec::new(),
        };
        Ok(Value::List(self.heap.new_items(items)))
    }

    fn dict(&mut self, code: u8) -> Result<Value> {
        let items = match code {
            op::DICT => self.pop_mark()?,
            _ => Vec::new(),
        };
        self.new_dict(items)
    }

    fn new_dict(&mut self, items: Vec<Value>) -> Result<Value> {
        let place = self.heap.new_pairs();
        self.heap.insert(place, items)?;
        Ok(Value::Dict(place))
    }

    fn append(&mut self, code: u8) -> Result<()> {
        let items = match code {
            op::APPEND => self.pop_last(1)?,
            _ => self.pop_mark()?,
        };
        let Value::List(place) = *self.top()? else {
            return refuse("items are added to something that is no list");
        };
        self.heap.extend(place, items);
        Ok(())
    }

    fn set(&mut self, code: u8) -> Result<()> {
        let items = match code {
            op::SETITEM => self.pop_last(2)?,
            _ => self.pop_mark()?,
        };
        let Value::Dict(place) = *self.top()? else {
            return refuse("a key is set in something that is no dict");
        };
        self.heap.insert(place, items)
    }

    fn global(&mut self, code: u8) -> Result<Value> {
        let found = if code == op::GLOBAL {
            let (module, name) = (self.cursor.line("a module")?, self.cursor.line("a name")?);
            globals::find(
                &String::from_utf8_lossy(module),
                &String::from_utf8_lossy(name),
            )
        } else {
            let (name, module) = (self.pop()?, self.pop()?);
            globals::find(&module.text("a module")?, &name.text("a name")?)
        };
        found.map(Value::Global)
    }

    fn reduce(&mut self) -> Result<Value> {
        let (args, function) = (self.pop()?, self.pop()?);
        let args = self.heap.tuple(&args, "the arguments of a call")?;
        match globals::call(&function, args, &self.heap)? {
            Called::Value(value) => Ok(value),
            Called::Dict(items) => self.new_dict(items),
        }
    }

    fn persistent(&mut self) -> Result<Value> {
        let id = self.pop()?;
        let storage = globals::persistent(self.heap.tuple(&id, "a persistent id")?)?;
        Ok(Value::Storage(Rc::new(storage)))
    }

    /// The attributes of a state dict (`_metadata`): no tensors, and not shown by a dump.
    fn build(&mut self) -> Result<()> {
        let state = self.pop()?;
        match (self.top()?, state) {
            (Value::Dict(_), Value::Dict(_)) => Ok(()),
            _ => refuse("attributes are set on something that is no state dict"),
        }
    }
}

/// Whether a value is torch's magic number (see `legacy`).
pub(super) fn is_long(value: &Value, bytes: &[u8]) -> bool {
    matches!(value, Value::Long(long) if **long == *bytes)
}
