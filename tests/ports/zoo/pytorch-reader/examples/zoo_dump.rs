//! Burn's reader of .pth files.

use dump::Tensor;
use pytorch_reader::{DType, PytorchReader};
use std::path::Path;
use std::process::ExitCode;

#[path = "../../dump.rs"]
mod dump;

fn main() -> ExitCode {
    dump::run(read, dump::Form::Whole)
}

fn read(group: &str, path: &Path) -> Result<Vec<Tensor>, String> {
    if group != "pth" {
        return Err(format!("{group} is not a format of this crate"));
    }
    let reader = PytorchReader::new(path).map_err(|error| error.to_string())?;
    let tensors = reader.tensors().values().map(|tensor| {
        Ok(Tensor {
            name: tensor.name.clone(),
            dtype: dtype(tensor.dtype()),
            shape: tensor.shape().to_vec(),
            data: tensor.read().map_err(|error| error.to_string())?,
        })
    });
    tensors.collect()
}

fn dtype(found: DType) -> &'static str {
    match found {
        DType::F64 => "F64",
        DType::F32 => "F32",
        DType::F16 => "F16",
        DType::BF16 => "BF16",
        DType::I64 => "I64",
        DType::I32 => "I32",
        DType::I16 => "I16",
        DType::I8 => "I8",
        DType::U64 => "U64",
        DType::U32 => "U32",
        DType::U16 => "U16",
        DType::U8 => "U8",
        DType::Bool => "BOOL",
    }
}
