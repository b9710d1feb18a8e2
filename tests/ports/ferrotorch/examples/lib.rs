//! The examples are the package's content.
