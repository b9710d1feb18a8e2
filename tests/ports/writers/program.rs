//! What the dump programs of this folder share: their arguments, a file's header, how they end.
//!
//! `write_dump FORMAT INPUT OUTPUT_DIR MODE` writes the tensors of INPUT as `out.FORMAT`, or as
//! `NAME.npy` each. MODE is `once`; `again`, where what was written is read, and written again
//! beside it; `over`, where it is written over the first; or `shards`. What the port does not
//! have ends with code 3, what it rejects with code 1.

use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Why nothing is written.
pub enum Stop {
    Rejected(String),
    NotSupported(String),
}

impl<E: std::error::Error> From<E> for Stop {
    fn from(error: E) -> Self {
        let text = error.to_string();
        Self::Rejected(text.lines().next().unwrap_or_default().to_owned())
    }
}

/// Reads a file and writes its tensors at a path, which for .npy is a folder.
type Write = fn(&str, &Path, &Path) -> Result<(), Stop>;

/// Writes with `write` what the command line names.
pub fn run(write: Write) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [format, input, output, mode] = &words[..] else {
        eprintln!("usage: write_dump FORMAT INPUT OUTPUT_DIR MODE");
        return ExitCode::from(2);
    };
    match convert(write, format, Path::new(input), Path::new(output), mode) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Rejected(reason)) => {
            eprintln!("FAILED: {reason}");
            ExitCode::FAILURE
        }
        Err(Stop::NotSupported(what)) => {
            eprintln!("not supported: {what}");
            ExitCode::from(3)
        }
    }
}

fn convert(write: Write, format: &str, input: &Path, output: &Path, mode: &str) -> Result<(), Stop> {
    if mode == "shards" {
        return Err(Stop::NotSupported("a writer of shards".to_owned()));
    }
    let is_npy = format == "npy";
    let place = |stem: &str| -> PathBuf {
        match (is_npy, stem) {
            (true, "out") => output.to_owned(),
            (true, _) => output.join(stem),
            _ => output.join(format!("{stem}.{format}")),
        }
    };
    write(format, input, &place("out"))?;
    let second = match mode {
        "again" => "again",
        "over" => "out",
        _ => return Ok(()),
    };
    let first = if is_npy { output.join("row.npy") } else { place("out") };
    if is_npy {
        std::fs::create_dir_all(place(second))?;
    }
    write(format, &first, &place(second))
}

/// The header of a safetensors file: its tensors' entries, and its metadata.
pub fn read_header(path: &Path) -> Result<(Map<String, Value>, Map<String, Value>), Stop> {
    let bytes = std::fs::read(path)?;
    let length = u64::from_le_bytes(bytes[..8].try_into()?) as usize;
    let mut header: Map<String, Value> = serde_json::from_slice(&bytes[8..8 + length])?;
    let metadata = match header.remove("__metadata__") {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    Ok((header, metadata))
}
