//! The one error of this crate: a file is refused, and why.

use std::fmt;

/// Why a file is refused, in one sentence without the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(String);

/// What every reader returns.
pub type Result<T> = std::result::Result<T, Refusal>;

impl Refusal {
    /// A refusal with this sentence.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// The same refusal, with the place where it arose put before it.
    #[must_use]
    pub fn within(self, place: &str) -> Self {
        Self(format!("{place}: {}", self.0))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// Shorthand for an `Err` with this sentence.
///
/// # Errors
/// Always.
pub fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(Refusal::new(message))
}
