//! Dumps any of the four targets: `--target pth|safetensors|gguf|onnx`.

use std::process::ExitCode;

fn main() -> ExitCode {
    demo_serialize::cli::run(None)
}
