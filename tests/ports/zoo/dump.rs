//! What the dump programs of this folder share: their arguments, how they write and end.
//!
//! `zoo_dump GROUP CHECKPOINT OUTPUT_DIR` reads one checkpoint and writes what it holds: one
//! `.safetensors` with each tensor in its own dtype, or a `.bin` of f32 a tensor. What cannot be
//! read is refused: a line on stderr, exit code 1, and no file.

use std::path::Path;
use std::process::ExitCode;

/// A tensor as a port read it, row-major.
pub struct Tensor {
    pub name: String,
    /// safetensors' name of the dtype.
    pub dtype: &'static str,
    pub shape: Vec<usize>,
    pub data: Vec<u8>,
}

/// What is written; each program uses one form.
#[allow(dead_code)]
pub enum Form {
    /// One `tensors.safetensors`.
    Whole,
    /// `<name>.bin` a tensor, each of which must be F32.
    Bins,
}

type Read = fn(&str, &Path) -> Result<Vec<Tensor>, String>;

/// Reads with `read` what the command line names, and writes it in this form.
pub fn run(read: Read, form: Form) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [group, checkpoint, output] = &words[..] else {
        eprintln!("usage: zoo_dump GROUP CHECKPOINT OUTPUT_DIR");
        return ExitCode::from(2);
    };
    let tensors = read(group, Path::new(checkpoint));
    let write = match form {
        Form::Whole => write_whole,
        Form::Bins => write_bins,
    };
    match tensors.and_then(|tensors| write(&tensors, Path::new(output))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("FAILED: {message}");
            ExitCode::FAILURE
        }
    }
}

fn write_whole(tensors: &[Tensor], folder: &Path) -> Result<(), String> {
    let mut header = String::from("{");
    let mut data: Vec<u8> = Vec::new();
    for tensor in tensors {
        let (start, end) = (data.len(), data.len() + tensor.data.len());
        data.extend(&tensor.data);
        let comma = if start == 0 && header.len() == 1 {
            ""
        } else {
            ","
        };
        header.push_str(&format!(
            "{comma}{}:{{\"dtype\":\"{}\",\"shape\":{:?},\"data_offsets\":[{start},{end}]}}",
            quoted(&tensor.name),
            tensor.dtype,
            tensor.shape
        ));
    }
    header.push('}');
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    std::fs::write(folder.join("tensors.safetensors"), file).map_err(|error| error.to_string())
}

fn write_bins(tensors: &[Tensor], folder: &Path) -> Result<(), String> {
    // A name with a slash would lead elsewhere; nothing is written until all are known.
    if let Some(odd) = tensors
        .iter()
        .find(|one| one.name.contains('/') || one.name.len() > 200)
    {
        return Err(format!("{:?} is no file name", odd.name));
    }
    for tensor in tensors {
        let numbers = std::iter::once(tensor.shape.len()).chain(tensor.shape.clone());
        // A dimension beyond 32 bits is no file's: the largest one shows that it came.
        let words = numbers.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        let mut file: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        file.extend(&tensor.data);
        let path = folder.join(format!("{}.bin", tensor.name));
        std::fs::write(path, file).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn quoted(name: &str) -> String {
    let mut text = String::from("\"");
    for char in name.chars() {
        match char {
            '"' | '\\' => text.extend(['\\', char]),
            char if char < ' ' => text.push_str(&format!("\\u{:04x}", char as u32)),
            char => text.push(char),
        }
    }
    text + "\""
}
