//! The dump program is the example `trace_dump`.
