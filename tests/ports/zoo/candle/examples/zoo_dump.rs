//! candle-core's readers of .pth, safetensors and GGUF.

use candle_core::quantized::gguf_file::Content;
use candle_core::{pickle, safetensors, DType, Device};
use dump::Tensor;
use std::path::Path;
use std::process::ExitCode;

#[path = "../../dump.rs"]
mod dump;

fn main() -> ExitCode {
    dump::run(read, dump::Form::Bins)
}

fn read(group: &str, path: &Path) -> Result<Vec<Tensor>, String> {
    let named = match group {
        "pth" => pickle::read_all(path),
        "safetensors" => {
            safetensors::load(path, &Device::Cpu).map(|found| found.into_iter().collect())
        }
        _ => gguf(path),
    };
    let named = named.map_err(reason)?;
    let described = named
        .into_iter()
        .map(|(name, tensor)| describe(name, &tensor));
    described
        .collect::<candle_core::Result<_>>()
        .map_err(reason)
}

/// The first line of what candle says; a backtrace may follow it.
fn reason(error: candle_core::Error) -> String {
    error
        .to_string()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn gguf(path: &Path) -> candle_core::Result<Vec<(String, candle_core::Tensor)>> {
    let mut file = std::fs::File::open(path)?;
    let content = Content::read(&mut file)?;
    let names: Vec<_> = content.tensor_infos.keys().cloned().collect();
    let read = names.into_iter().map(|name| {
        let tensor = content.tensor(&mut file, &name, &Device::Cpu)?;
        Ok((name, tensor.dequantize(&Device::Cpu)?))
    });
    read.collect()
}

/// A tensor as f32, by candle's own conversion.
fn describe(name: String, tensor: &candle_core::Tensor) -> candle_core::Result<Tensor> {
    let values = tensor
        .to_dtype(DType::F32)?
        .flatten_all()?
        .to_vec1::<f32>()?;
    let data = values.into_iter().flat_map(f32::to_le_bytes).collect();
    let shape = tensor.dims().to_vec();
    Ok(Tensor {
        name,
        dtype: "F32",
        shape,
        data,
    })
}
