//! Whole numbers as `f32`, without silent rounding.

use crate::error::Error;

/// The largest magnitude up to which every whole number is an `f32`: 2^24.
const LIMIT: i64 = 1 << 24;

/// Converts a whole number to the `f32` that equals it.
///
/// Batch files hold `f32` only, and an identifier that was rounded on the way
/// would name another record.
///
/// # Errors
/// [`Error::Unrepresentable`] beyond a magnitude of 2^24.
pub fn exact_f32(value: i64) -> Result<f32, Error> {
    if !(-LIMIT..=LIMIT).contains(&value) {
        let text = format!("{value} is too large to be exact as f32");
        return Err(Error::Unrepresentable(text));
    }
    #[allow(clippy::cast_precision_loss)] // exact within the limit
    Ok(value as f32)
}

/// Converts an index or a count to the `f32` that equals it.
///
/// # Errors
/// [`Error::Unrepresentable`] beyond 2^24.
pub fn exact_f32_index(value: usize) -> Result<f32, Error> {
    exact_f32(i64::try_from(value).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_kept_up_to_the_limit() {
        for (value, bits) in [
            (0, 0),
            (-1, 0xbf80_0000),
            (10, 0x4120_0000),
            (LIMIT, 0x4b80_0000),
        ] {
            assert_eq!(exact_f32(value).unwrap().to_bits(), bits, "{value}");
        }
    }

    #[test]
    fn numbers_that_would_be_rounded_are_refused() {
        for value in [LIMIT + 1, -LIMIT - 1, i64::MIN, i64::MAX] {
            assert!(exact_f32(value).is_err(), "{value}");
        }
        assert!(exact_f32_index(usize::MAX).is_err());
    }
}
