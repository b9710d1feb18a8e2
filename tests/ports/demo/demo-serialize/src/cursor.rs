//! Reading forward through bytes that may end too early; all integers are little-endian.

use crate::error::{Refusal, Result};

/// A place in a file's bytes.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// How many bytes have been read.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// How many bytes are left; bounds every count that the file states.
    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `count` bytes; refused when the file ends before.
    pub(crate) fn take(&mut self, count: usize, what: &str) -> Result<&'a [u8]> {
        if count > self.remaining() {
            return Err(self.too_short(count as u64, what));
        }
        let start = self.at;
        self.at += count;
        Ok(&self.bytes[start..self.at])
    }

    /// The next `N` bytes as an array.
    pub(crate) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N, what)?);
        Ok(out)
    }

    /// One byte.
    pub(crate) fn u8(&mut self, what: &str) -> Result<u8> {
        Ok(self.array::<1>(what)?[0])
    }

    /// Two bytes.
    pub(crate) fn u16(&mut self, what: &str) -> Result<u16> {
        self.array(what).map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub(crate) fn u32(&mut self, what: &str) -> Result<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub(crate) fn u64(&mut self, what: &str) -> Result<u64> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// An eight-byte count of things that take at least `each` bytes of what is left.
    pub(crate) fn count(&mut self, each: usize, what: &str) -> Result<usize> {
        let stated = self.u64(what)?;
        self.bounded(stated, each, what)
    }

    /// Refuses `stated` things of at least `each` bytes where the file has no room for them.
    pub(crate) fn bounded(&self, stated: u64, each: usize, what: &str) -> Result<usize> {
        usize::try_from(stated)
            .ok()
            .filter(|count| {
                count
                    .checked_mul(each)
                    .is_some_and(|n| n <= self.remaining())
            })
            .ok_or_else(|| self.too_short(stated.saturating_mul(each as u64), what))
    }

    /// The bytes up to the next line feed, which is read and left out.
    pub(crate) fn line(&mut self, what: &str) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|&byte| byte == b'\n');
        let length = length.ok_or_else(|| Refusal::new(format!("{what} does not end")))?;
        self.at += length + 1;
        Ok(&rest[..length])
    }

    fn too_short(&self, needed: u64, what: &str) -> Refusal {
        let (at, left) = (self.at, self.remaining());
        Refusal::new(format!(
            "{what} at byte {at} needs {needed} bytes, {left} are left"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_read_past_the_end() {
        let mut cursor = Cursor::new(&[1, 2, 3]);
        assert_eq!(cursor.u16("a pair"), Ok(0x0201));
        assert!(cursor.u32("a word").is_err());
        assert_eq!((cursor.position(), cursor.remaining()), (2, 1));
        assert!(cursor.take(usize::MAX, "all").is_err());
    }

    #[test]
    fn counts_are_held_against_what_is_left() {
        let cursor = Cursor::new(&[0; 16]);
        assert_eq!(cursor.bounded(2, 8, "things"), Ok(2));
        assert!(cursor.bounded(3, 8, "things").is_err());
        assert!(cursor.bounded(u64::MAX, 8, "things").is_err());
    }

    #[test]
    fn a_line_has_to_end() {
        let mut cursor = Cursor::new(b"torch\nFloat");
        assert_eq!(cursor.line("module"), Ok(&b"torch"[..]));
        assert!(cursor.line("name").is_err());
    }
}
