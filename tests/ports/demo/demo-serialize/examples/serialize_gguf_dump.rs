//! Dumps the dequantised tensors of a GGUF checkpoint.

use std::process::ExitCode;

fn main() -> ExitCode {
    demo_serialize::cli::run(Some(demo_serialize::dump::Target::Gguf))
}
