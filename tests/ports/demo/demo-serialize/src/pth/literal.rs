//! Opcodes that carry their value with them: constants, integers, strings, bytes.

use super::op;
use super::value::Value;
use crate::cursor::Cursor;
use crate::error::{Refusal, Result};

/// `None`, bools and floats; a float's value is of no use here.
pub(super) fn constant(code: u8, cursor: &mut Cursor) -> Result<Value> {
    match code {
        op::NONE => Ok(Value::None),
        op::NEWTRUE => Ok(Value::True),
        op::NEWFALSE => Ok(Value::Other),
        _ => cursor.take(8, "a float").map(|_| Value::Other),
    }
}

/// Integers of one, two and four bytes, of which only the last have a sign; and long ones.
pub(super) fn integer(code: u8, cursor: &mut Cursor) -> Result<Value> {
    let what = "an integer";
    match code {
        op::BININT => cursor
            .array(what)
            .map(|bytes| Value::Int(i32::from_le_bytes(bytes).into())),
        op::BININT1 => cursor.u8(what).map(|number| Value::Int(number.into())),
        op::BININT2 => cursor.u16(what).map(|number| Value::Int(number.into())),
        op::LONG1 => {
            let length = cursor.u8(what)?.into();
            cursor.take(length, what).map(long)
        }
        _ => {
            let length = cursor.u32(what)?.into();
            let length = cursor.bounded(length, 1, what)?;
            cursor.take(length, what).map(long)
        }
    }
}

/// Two's complement, little-endian, of any length.
fn long(bytes: &[u8]) -> Value {
    if bytes.len() > 8 {
        return Value::Long(bytes.into());
    }
    let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut wide = [if negative { 0xff } else { 0 }; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    Value::Int(i64::from_le_bytes(wide))
}

/// UTF-8 text.
pub(super) fn text(code: u8, cursor: &mut Cursor) -> Result<Value> {
    let text = std::str::from_utf8(sized(code, cursor, "a string")?);
    let text = text.map_err(|_| Refusal::new("a string is not UTF-8"))?;
    Ok(Value::Text(text.into()))
}

/// Python 2's strings: text where they are ASCII, which keys and names are.
pub(super) fn old_string(code: u8, cursor: &mut Cursor) -> Result<Value> {
    let bytes = sized(code, cursor, "a string")?;
    let text = std::str::from_utf8(bytes).ok();
    let text = text.filter(|text| text.is_ascii());
    Ok(text.map_or(Value::Other, |text| Value::Text(text.into())))
}

/// Bytes and byte arrays, which no tensor needs.
pub(super) fn bytes(code: u8, cursor: &mut Cursor) -> Result<Value> {
    sized(code, cursor, "bytes").map(|_| Value::Other)
}

/// The bytes that follow a length of one, four or eight bytes.
fn sized<'a>(code: u8, cursor: &mut Cursor<'a>, what: &str) -> Result<&'a [u8]> {
    let length = match code {
        op::SHORT_BINUNICODE | op::SHORT_BINSTRING | op::SHORT_BINBYTES => cursor.u8(what)?.into(),
        op::BINUNICODE8 | op::BINBYTES8 | op::BYTEARRAY8 => cursor.u64(what)?,
        _ => cursor.u32(what)?.into(),
    };
    let length = cursor.bounded(length, 1, what)?;
    cursor.take(length, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(code: u8, bytes: &[u8]) -> Option<i64> {
        match integer(code, &mut Cursor::new(bytes)) {
            Ok(Value::Int(number)) => Some(number),
            _ => None,
        }
    }

    #[test]
    fn integers_have_the_sign_of_their_opcode() {
        assert_eq!(number(op::BININT, &[0xff; 4]), Some(-1));
        assert_eq!(number(op::BININT1, &[0xff]), Some(255));
        assert_eq!(number(op::BININT2, &[0xff; 2]), Some(65535));
        assert_eq!(number(op::LONG1, &[0]), Some(0));
        assert_eq!(number(op::LONG1, &[1, 0xff]), Some(-1));
        assert_eq!(number(op::LONG1, &[6, 0, 0, 0, 0, 0, 1]), Some(1 << 40));
        assert_eq!(number(op::LONG4, &[2, 0, 0, 0, 0xff, 0]), Some(255));
        assert_eq!(number(op::LONG1, &[9, 1, 2, 3, 4, 5, 6, 7, 8, 9]), None);
        assert_eq!(number(op::LONG4, &[255, 255, 255, 255, 1]), None);
    }

    #[test]
    fn lengths_beyond_the_pickle_are_refused() {
        let long = [0xff; 8];
        for code in [op::BINUNICODE, op::BINUNICODE8, op::SHORT_BINUNICODE] {
            assert!(text(code, &mut Cursor::new(&long)).is_err());
        }
        assert!(bytes(op::BINBYTES8, &mut Cursor::new(&long)).is_err());
        assert!(old_string(op::BINSTRING, &mut Cursor::new(&long)).is_err());
    }

    #[test]
    fn text_is_utf8_and_old_strings_are_ascii() {
        let bytes = [2, 0xc3, 0xa9];
        let new = text(op::SHORT_BINUNICODE, &mut Cursor::new(&bytes));
        assert!(matches!(new, Ok(Value::Text(text)) if &*text == "é"));
        let old = old_string(op::SHORT_BINSTRING, &mut Cursor::new(&bytes));
        assert!(matches!(old, Ok(Value::Other)));
        assert!(text(op::SHORT_BINUNICODE, &mut Cursor::new(&[1, 0xff])).is_err());
    }
}
