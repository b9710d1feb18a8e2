//! A strict JSON reader (RFC 8259) that refuses what two readers could read differently:
//! duplicate keys, lone surrogates, nesting beyond a small depth, anything after the value.

use crate::error::{Refusal, Result};
use std::collections::BTreeMap;

/// Deepest nesting: the formats read here need three levels.
const MAX_DEPTH: usize = 16;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number written as plain digits that fits in 64 bits.
    Integer(u64),
    /// Any other number, rounded: of no use as a count or an offset.
    Number(f64),
    /// A string, unescaped.
    Text(String),
    /// An array.
    Array(Vec<Json>),
    /// An object; its keys differ.
    Object(BTreeMap<String, Json>),
}

/// Reads the one value that `bytes` hold.
///
/// # Errors
/// For anything that is not strict JSON, with the byte where it goes wrong.
pub fn parse(bytes: &[u8]) -> Result<Json> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        Refusal::new(format!("JSON is not UTF-8 at byte {}", error.valid_up_to()))
    })?;
    let mut parser = Parser { text, at: 0 };
    let value = parser.value(0)?;
    parser.blanks();
    if parser.at == text.len() {
        Ok(value)
    } else {
        Err(parser.wrong("something follows the value"))
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn wrong(&self, what: &str) -> Refusal {
        Refusal::new(format!("JSON at byte {}: {what}", self.at))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, word: &str) -> bool {
        let found = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        self.blanks();
        if self.eat(word) {
            Ok(())
        } else {
            Err(self.wrong(&format!("{word:?} is missing")))
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json> {
        if depth > MAX_DEPTH {
            return Err(self.wrong("nested too deep"));
        }
        self.blanks();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Json::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<Json> {
        let words = [
            ("null", Json::Null),
            ("true", Json::Bool(true)),
            ("false", Json::Bool(false)),
        ];
        let found = words.into_iter().find(|(word, _)| self.eat(word));
        found
            .map(|(_, value)| value)
            .ok_or_else(|| self.wrong("a value is missing"))
    }

    fn object(&mut self, depth: usize) -> Result<Json> {
        let mut members = BTreeMap::new();
        self.expect("{")?;
        self.blanks();
        if self.eat("}") {
            return Ok(Json::Object(members));
        }
        loop {
            self.member(&mut members, depth)?;
            self.blanks();
            if self.eat("}") {
                return Ok(Json::Object(members));
            }
            self.expect(",")?;
        }
    }

    fn member(&mut self, members: &mut BTreeMap<String, Json>, depth: usize) -> Result<()> {
        self.blanks();
        let key = self.string()?;
        self.expect(":")?;
        let value = self.value(depth + 1)?;
        match members.insert(key, value) {
            None => Ok(()),
            Some(_) => Err(self.wrong("a key occurs twice in one object")),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Json> {
        let mut items = Vec::new();
        self.expect("[")?;
        self.blanks();
        if self.eat("]") {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.blanks();
            if self.eat("]") {
                return Ok(Json::Array(items));
            }
            self.expect(",")?;
        }
    }

    fn digits(&mut self) -> Result<()> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.wrong("a digit is missing"));
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Json> {
        let start = self.at;
        self.eat("-");
        // A leading zero stands alone: what follows it is then no number's continuation.
        if !self.eat("0") {
            self.digits()?;
        }
        if self.eat(".") {
            self.digits()?;
        }
        if self.eat("e") || self.eat("E") {
            let _ = self.eat("+") || self.eat("-");
            self.digits()?;
        }
        let text = &self.text[start..self.at];
        let number = text.parse().map(Json::Integer);
        number
            .or_else(|_| text.parse().map(Json::Number))
            .map_err(|_| self.wrong("a number is missing"))
    }

    fn string(&mut self) -> Result<String> {
        if !self.eat("\"") {
            return Err(self.wrong("a string is missing"));
        }
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.find(|c: char| c == '"' || c == '\\' || c < ' ');
            let plain = plain.ok_or_else(|| self.wrong("a string does not end"))?;
            out.push_str(&rest[..plain]);
            self.at += plain;
            if self.eat("\"") {
                return Ok(out);
            }
            out.push(self.escape()?);
        }
    }

    fn escape(&mut self) -> Result<char> {
        if !self.eat("\\") {
            return Err(self.wrong("a control character stands in a string"));
        }
        let code = self.peek().unwrap_or(0);
        self.at += 1;
        match code {
            b'"' | b'\\' | b'/' => Ok(char::from(code)),
            b'b' => Ok('\u{8}'),
            b'f' => Ok('\u{c}'),
            b'n' => Ok('\n'),
            b'r' => Ok('\r'),
            b't' => Ok('\t'),
            b'u' => self.unicode(),
            _ => Err(Refusal::new("JSON: a string holds an unknown escape")),
        }
    }

    /// `\uXXXX`, or two of them that make a surrogate pair.
    fn unicode(&mut self) -> Result<char> {
        let first = self.hex()?;
        let code = match first {
            0xd800..=0xdbff if self.eat("\\u") => {
                let low = self.hex()?.wrapping_sub(0xdc00);
                let pair = 0x10000 + ((first - 0xd800) << 10);
                if low < 0x400 {
                    pair + low
                } else {
                    first
                }
            }
            _ => first,
        };
        char::from_u32(code).ok_or_else(|| self.wrong("a surrogate stands alone"))
    }

    fn hex(&mut self) -> Result<u32> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4);
        let code = digits.and_then(|digits| {
            digits.iter().try_fold(0, |code, &digit| {
                Some(code << 4 | char::from(digit).to_digit(16)?)
            })
        });
        self.at += if code.is_some() { 4 } else { 0 };
        code.ok_or_else(|| self.wrong("four hexadecimal digits are missing"))
    }
}

#[cfg(test)]
mod tests;
