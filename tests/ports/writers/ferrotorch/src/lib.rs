//! A dump program; see `examples`.
