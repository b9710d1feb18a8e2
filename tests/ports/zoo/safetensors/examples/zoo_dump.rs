//! The format's own crate.

use dump::Tensor;
use safetensors::SafeTensors;
use std::path::Path;
use std::process::ExitCode;

#[path = "../../dump.rs"]
mod dump;

fn main() -> ExitCode {
    dump::run(read, dump::Form::Whole)
}

fn read(group: &str, path: &Path) -> Result<Vec<Tensor>, String> {
    if group != "safetensors" {
        return Err(format!("{group} is not a format of this crate"));
    }
    let content = std::fs::read(path).map_err(|error| error.to_string())?;
    let file = SafeTensors::deserialize(&content).map_err(|error| error.to_string())?;
    let tensors = file.tensors().into_iter().map(|(name, view)| Tensor {
        name,
        dtype: name_of(&view.dtype().to_string()),
        shape: view.shape().to_vec(),
        data: view.data().to_vec(),
    });
    Ok(tensors.collect())
}

/// The dtype's name, of a lifetime that the dump asks for.
fn name_of(found: &str) -> &'static str {
    Box::leak(found.to_owned().into_boxed_str())
}
