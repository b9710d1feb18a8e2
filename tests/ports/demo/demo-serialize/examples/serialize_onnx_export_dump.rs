//! Exports the perceptron to ONNX, and dumps the port's own forward passes.

use std::process::ExitCode;

fn main() -> ExitCode {
    demo_serialize::cli::run(Some(demo_serialize::dump::Target::Onnx))
}
