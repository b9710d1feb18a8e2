//! Writing protobuf: varints and length-delimited fields are all that ONNX needs here.
//!
//! Source: protobuf's document on its wire format.

/// A message in the making; fields come out in the order in which they are added.
#[derive(Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// A message without fields.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// An integer, wire type 0.
    pub(crate) fn int(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    /// Bytes, wire type 2.
    pub(crate) fn bytes(mut self, field: u32, value: &[u8]) -> Self {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
        self
    }

    /// A string, which is bytes on the wire.
    pub(crate) fn text(self, field: u32, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    /// Another message, which is bytes on the wire.
    pub(crate) fn message(self, field: u32, value: &Message) -> Self {
        self.bytes(field, &value.0)
    }

    /// What goes into a file.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Seven bits a byte, lowest first; the top bit says that more follow.
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_on_the_wire() {
        let inner = Message::new().int(1, 150);
        let outer = Message::new()
            .message(3, &inner)
            .text(2, "testing")
            .int(16, 0);
        let wire = [
            0x1a, 3, 0x08, 0x96, 0x01, 0x12, 7, b't', b'e', b's', b't', b'i', b'n', b'g', 0x80, 1,
            0,
        ];
        assert_eq!(outer.into_bytes(), wire);
    }

    #[test]
    fn the_largest_varint_has_ten_bytes() {
        let bytes = Message::new().int(1, u64::MAX).into_bytes();
        assert_eq!((bytes.len(), bytes[10]), (11, 1));
    }
}
