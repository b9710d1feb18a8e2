//! candle-core's writers of safetensors, .npy and GGUF.

use candle_core::quantized::gguf_file::{self, Content, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{pickle, safetensors, DType, Device, Tensor};
use program::Stop;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::ExitCode;

#[path = "../../program.rs"]
mod program;

fn main() -> ExitCode {
    program::run(write)
}

fn write(format: &str, input: &Path, output: &Path) -> Result<(), Stop> {
    match format {
        "safetensors" => Ok(safetensors::save(&read(input)?, output)?),
        "npy" => {
            for (name, tensor) in read(input)? {
                tensor.write_npy(output.join(format!("{name}.npy")))?;
            }
            Ok(())
        }
        "gguf" => write_gguf(input, output),
        _ => Err(Stop::NotSupported(format!("a writer of .{format}"))),
    }
}

fn read(path: &Path) -> Result<HashMap<String, Tensor>, Stop> {
    Ok(match path.extension().and_then(|suffix| suffix.to_str()) {
        Some("npy") => {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            HashMap::from([(stem.into_owned(), Tensor::read_npy(path)?)])
        }
        Some("pth") => pickle::read_all(path)?.into_iter().collect(),
        _ => safetensors::load(path, &Device::Cpu)?,
    })
}

/// Writes tensors in the order of their names; blocks of a GGUF stay as they are.
fn write_gguf(input: &Path, output: &Path) -> Result<(), Stop> {
    let mut tensors = BTreeMap::new();
    let mut metadata = BTreeMap::new();
    if input.extension().is_some_and(|suffix| suffix == "gguf") {
        let mut file = std::fs::File::open(input)?;
        let content = Content::read(&mut file)?;
        for name in content.tensor_infos.keys() {
            let tensor = content.tensor(&mut file, name, &Device::Cpu)?;
            tensors.insert(name.clone(), tensor);
        }
        metadata.extend(content.metadata);
    } else {
        for (name, tensor) in read(input)? {
            let dtype = match tensor.dtype() {
                DType::F32 => GgmlDType::F32,
                DType::F16 => GgmlDType::F16,
                DType::BF16 => GgmlDType::BF16,
                other => return Err(Stop::NotSupported(format!("GGUF with {other:?}"))),
            };
            tensors.insert(name, QTensor::quantize(&tensor, dtype)?);
        }
        for (key, text) in program::read_header(input)?.1 {
            metadata.insert(key, value(text.as_str().unwrap_or_default()));
        }
    }
    let pairs: Vec<_> = metadata.iter().map(|(key, one)| (key.as_str(), one)).collect();
    let named: Vec<_> = tensors.iter().map(|(name, one)| (name.as_str(), one)).collect();
    let mut file = std::fs::File::create(output)?;
    Ok(gguf_file::write(&mut file, &pairs, &named)?)
}

/// A value of the metadata: text, or `TYPE JSON` such as `uint32 7`.
fn value(text: &str) -> Value {
    let (kind, rest) = text.split_once(' ').unwrap_or_default();
    let Ok(json) = serde_json::from_str::<serde_json::Value>(rest) else {
        return Value::String(text.to_owned());
    };
    if let (Some(inner), Some(items)) = (kind.strip_suffix("[]"), json.as_array()) {
        return Value::Array(items.iter().map(|one| scalar(inner, one)).collect());
    }
    scalar(kind, &json)
}

fn scalar(kind: &str, json: &serde_json::Value) -> Value {
    let (signed, unsigned) = (json.as_i64().unwrap_or(0), json.as_u64().unwrap_or(0));
    let float = json.as_f64().unwrap_or(0.0);
    match kind {
        "uint8" => Value::U8(unsigned as u8),
        "int8" => Value::I8(signed as i8),
        "uint16" => Value::U16(unsigned as u16),
        "int16" => Value::I16(signed as i16),
        "uint32" => Value::U32(unsigned as u32),
        "int32" => Value::I32(signed as i32),
        "uint64" => Value::U64(unsigned),
        "int64" => Value::I64(signed),
        "float32" => Value::F32(float as f32),
        "float64" => Value::F64(float),
        "bool" => Value::Bool(json.as_bool().unwrap_or(false)),
        _ => Value::String(json.as_str().unwrap_or_default().to_owned()),
    }
}

