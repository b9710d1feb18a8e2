//! Dumps the tensors of a safetensors checkpoint.

use std::process::ExitCode;

fn main() -> ExitCode {
    demo_serialize::cli::run(Some(demo_serialize::dump::Target::Safetensors))
}
