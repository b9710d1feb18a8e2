//! The one error type of the crate.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Everything that can go wrong, with what a reader needs to put it right.
#[derive(Debug)]
pub enum Error {
    /// The command line cannot be understood; the text says which part.
    Usage(String),
    /// A batch of zero items would never get to the end of the data.
    ZeroBatchSize,
    /// An item was asked for that the data set does not have.
    IndexOutOfRange {
        /// The index asked for.
        index: usize,
        /// The number of items there are.
        len: usize,
    },
    /// A tensor's shape does not hold as many values as were given.
    ShapeMismatch {
        /// The shape, outermost dimension first.
        shape: Vec<usize>,
        /// The number of values given.
        values: usize,
    },
    /// A count, size or identifier has no exact place in the format.
    Unrepresentable(String),
    /// The columns of a record set contradict each other.
    InvalidRecords(String),
    /// A cursor was taken from another data set or with other settings.
    CursorMismatch {
        /// The property that differs.
        property: &'static str,
        /// What the cursor holds.
        cursor: String,
        /// What the pipeline has.
        pipeline: String,
    },
    /// A saved state cannot be read.
    BadState(String),
    /// A cursor points at no batch border of the epoch.
    BadPosition(String),
    /// A file or folder could not be read or written.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The reason that the system gave.
        source: io::Error,
    },
}

impl Error {
    /// Wraps an I/O error with the path it is about.
    #[must_use]
    pub fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        Self::Io { path, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text)
            | Self::Unrepresentable(text)
            | Self::InvalidRecords(text)
            | Self::BadState(text)
            | Self::BadPosition(text) => f.write_str(text),
            Self::ZeroBatchSize => f.write_str("the batch size must be at least 1"),
            Self::IndexOutOfRange { index, len } => {
                write!(f, "item {index} is out of range: there are {len}")
            }
            Self::ShapeMismatch { shape, values } => {
                write!(f, "shape {shape:?} does not hold {values} values")
            }
            Self::CursorMismatch {
                property,
                cursor,
                pipeline,
            } => write!(
                f,
                "the cursor's {property} is {cursor}, the pipeline's is {pipeline}"
            ),
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
