//! The dump program is the example `loader_dump`.
