//! Just enough JSON to write one flat object.

use std::fmt::{Display, Write};

/// A JSON object under construction; keys keep the order they came in.
///
/// Keys are the caller's own and are not escaped.
#[derive(Clone, Debug, Default)]
pub struct Object {
    fields: Vec<String>,
}

impl Object {
    /// Adds a string.
    #[must_use]
    pub fn text(self, key: &str, value: &str) -> Self {
        self.raw(key, &quoted(value))
    }

    /// Adds a whole number of any size.
    #[must_use]
    pub fn integer(self, key: &str, value: impl Into<u128>) -> Self {
        self.raw(key, &value.into().to_string())
    }

    /// Adds a count. (`usize` has no conversion into `u128`.)
    #[must_use]
    pub fn count(self, key: &str, value: usize) -> Self {
        self.raw(key, &value.to_string())
    }

    /// Adds a number, or null for none and for what JSON cannot say.
    #[must_use]
    pub fn number(self, key: &str, value: Option<f64>) -> Self {
        match value.filter(|v| v.is_finite()) {
            Some(value) => self.raw(key, &format!("{value:?}")),
            None => self.raw(key, "null"),
        }
    }

    /// Adds a list of numbers whose display is a JSON number: integers.
    #[must_use]
    pub fn list<T: Display>(self, key: &str, values: &[T]) -> Self {
        let items: Vec<String> = values.iter().map(ToString::to_string).collect();
        self.raw(key, &format!("[{}]", items.join(", ")))
    }

    /// The object as one line without a line end.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{{{}}}", self.fields.join(", "))
    }

    fn raw(mut self, key: &str, value: &str) -> Self {
        self.fields.push(format!("\"{key}\": {value}"));
        self
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            // Writing to a String cannot fail.
            c if c < ' ' => drop(write!(out, "\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_out_in_order_on_one_line() {
        let object = Object::default()
            .text("name", "a")
            .integer("seed", u128::MAX)
            .count("n", 3)
            .list("sizes", &[4, 4, -1]);
        let expected = "{\"name\": \"a\", \"seed\": 340282366920938463463374607431768211455, \
                        \"n\": 3, \"sizes\": [4, 4, -1]}";
        assert_eq!(object.line(), expected);
        assert_eq!(
            Object::default().list::<i64>("x", &[]).line(),
            "{\"x\": []}"
        );
    }

    #[test]
    fn text_is_escaped() {
        let line = Object::default().text("t", "a\"b\\c\nü").line();
        assert_eq!(line, r#"{"t": "a\"b\\c\u000aü"}"#);
    }

    #[test]
    fn numbers_are_json_or_null() {
        for (value, text) in [
            (Some(-0.25), "-0.25"),
            (Some(1.0), "1.0"),
            (Some(1e-20), "1e-20"),
            (Some(f64::NAN), "null"),
            (None, "null"),
        ] {
            let line = Object::default().number("m", value).line();
            assert_eq!(line, format!("{{\"m\": {text}}}"));
        }
    }
}
