//! The dump program is the example `op_dump`.
