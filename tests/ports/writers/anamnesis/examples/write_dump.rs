//! anamnesis' writers of safetensors and GGUF, behind its function that converts a file.

use anamnesis::{convert, ConvertOptions, ConvertTarget, GgufMetadataArray, GgufMetadataValue};
use program::Stop;
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;

#[path = "../../program.rs"]
mod program;

fn main() -> ExitCode {
    program::run(write)
}

fn write(format: &str, input: &Path, output: &Path) -> Result<(), Stop> {
    let target = match format {
        "safetensors" => ConvertTarget::Safetensors,
        "gguf" => ConvertTarget::Gguf,
        _ => return Err(Stop::NotSupported(format!("a writer of .{format}"))),
    };
    let mut options = ConvertOptions::new();
    if format == "gguf" && input.extension().is_some_and(|suffix| suffix == "safetensors") {
        let mut metadata = HashMap::new();
        for (key, text) in program::read_header(input)?.1 {
            metadata.insert(key, value(text.as_str().unwrap_or_default()));
        }
        options = options.with_gguf_metadata(metadata);
    }
    convert(input, target, output, &options)?;
    Ok(())
}

/// A value of the metadata: text, or `TYPE JSON` such as `uint32 7`.
fn value(text: &str) -> GgufMetadataValue {
    let (kind, rest) = text.split_once(' ').unwrap_or_default();
    let Ok(json) = serde_json::from_str::<Value>(rest) else {
        return GgufMetadataValue::String(text.to_owned());
    };
    if let (Some(inner), Some(items)) = (kind.strip_suffix("[]"), json.as_array()) {
        return GgufMetadataValue::Array(Box::new(array(inner, items)));
    }
    scalar(kind, &json)
}

fn signed(json: &Value) -> i64 {
    json.as_i64().unwrap_or(0)
}

fn unsigned(json: &Value) -> u64 {
    json.as_u64().unwrap_or(0)
}

fn float(json: &Value) -> f64 {
    json.as_f64().unwrap_or(0.0)
}

fn text(json: &Value) -> String {
    json.as_str().unwrap_or_default().to_owned()
}

fn scalar(kind: &str, json: &Value) -> GgufMetadataValue {
    match kind {
        "uint8" => GgufMetadataValue::U8(unsigned(json) as u8),
        "int8" => GgufMetadataValue::I8(signed(json) as i8),
        "uint16" => GgufMetadataValue::U16(unsigned(json) as u16),
        "int16" => GgufMetadataValue::I16(signed(json) as i16),
        "uint32" => GgufMetadataValue::U32(unsigned(json) as u32),
        "int32" => GgufMetadataValue::I32(signed(json) as i32),
        "uint64" => GgufMetadataValue::U64(unsigned(json)),
        "int64" => GgufMetadataValue::I64(signed(json)),
        "float32" => GgufMetadataValue::F32(float(json) as f32),
        "float64" => GgufMetadataValue::F64(float(json)),
        "bool" => GgufMetadataValue::Bool(json.as_bool().unwrap_or(false)),
        _ => GgufMetadataValue::String(text(json)),
    }
}

fn array(kind: &str, items: &[Value]) -> GgufMetadataArray {
    let all = items.iter();
    match kind {
        "uint8" => GgufMetadataArray::U8(all.map(|one| unsigned(one) as u8).collect()),
        "int8" => GgufMetadataArray::I8(all.map(|one| signed(one) as i8).collect()),
        "uint16" => GgufMetadataArray::U16(all.map(|one| unsigned(one) as u16).collect()),
        "int16" => GgufMetadataArray::I16(all.map(|one| signed(one) as i16).collect()),
        "uint32" => GgufMetadataArray::U32(all.map(|one| unsigned(one) as u32).collect()),
        "int32" => GgufMetadataArray::I32(all.map(|one| signed(one) as i32).collect()),
        "uint64" => GgufMetadataArray::U64(all.map(unsigned).collect()),
        "int64" => GgufMetadataArray::I64(all.map(signed).collect()),
        "float32" => GgufMetadataArray::F32(all.map(|one| float(one) as f32).collect()),
        "float64" => GgufMetadataArray::F64(all.map(float).collect()),
        "bool" => GgufMetadataArray::Bool(all.map(|one| one.as_bool().unwrap_or(false)).collect()),
        _ => GgufMetadataArray::String(all.map(text).collect()),
    }
}
