//! The dump program is the example `zoo_dump`.
