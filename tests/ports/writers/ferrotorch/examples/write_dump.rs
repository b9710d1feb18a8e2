//! ferrotorch-serialize's writers of safetensors and .pth, whose tensors are of one float type.

use ferrotorch_core::Float;
use ferrotorch_nn::StateDict;
use ferrotorch_serialize::{load_pytorch_state_dict, load_safetensors, save_pytorch, save_safetensors};
use program::Stop;
use std::path::Path;
use std::process::ExitCode;

#[path = "../../program.rs"]
mod program;

fn main() -> ExitCode {
    program::run(write)
}

fn write(format: &str, input: &Path, output: &Path) -> Result<(), Stop> {
    if input.extension().is_some_and(|suffix| suffix == "pth") {
        return save(format, &load_pytorch_state_dict::<f32>(input)?, output);
    }
    let (header, _) = program::read_header(input)?;
    let mut dtypes = header.values().map(|entry| entry["dtype"].as_str().unwrap_or_default());
    let first = dtypes.next().unwrap_or_default();
    if dtypes.any(|other| other != first) {
        return Err(Stop::NotSupported("tensors of several dtypes".to_owned()));
    }
    match first {
        "F32" => convert::<f32>(format, input, output),
        "F64" => convert::<f64>(format, input, output),
        "BF16" => convert::<half::bf16>(format, input, output),
        "F16" => convert::<half::f16>(format, input, output),
        other => Err(Stop::NotSupported(format!("tensors of {other}"))),
    }
}

fn convert<T: Float>(format: &str, input: &Path, output: &Path) -> Result<(), Stop> {
    save(format, &load_safetensors::<T>(input)?, output)
}

fn save<T: Float>(format: &str, state: &StateDict<T>, output: &Path) -> Result<(), Stop> {
    match format {
        "safetensors" => Ok(save_safetensors(state, output)?),
        "pth" => Ok(save_pytorch(state, output)?),
        _ => Err(Stop::NotSupported(format!("a writer of .{format}"))),
    }
}
