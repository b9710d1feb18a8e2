//! Writes the tensors of a file in another format: `FORMAT INPUT OUTPUT_DIR MODE`.
//!
//! MODE is `once`; `again`, where the file that was written is read, and written again beside it;
//! `over`, where it is written over the first; or `shards`.

use demo_serialize::error::{Refusal, Result};
use demo_write::{gguf, npy, pth, read, safetensors, Content};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [format, input, output, mode] = &words[..] else {
        eprintln!("usage: write_dump gguf|npy|pth|safetensors INPUT OUTPUT_DIR MODE");
        return ExitCode::from(2);
    };
    match dump(format, Path::new(input), Path::new(output), mode) {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            eprintln!("FAILED: {refusal}");
            ExitCode::FAILURE
        }
    }
}

fn dump(format: &str, input: &Path, output: &Path, mode: &str) -> Result<()> {
    let content = read::read(input)?;
    let first = write(format, &content, output, mode, "out")?;
    let stem = match mode {
        "again" => "again",
        "over" => "out",
        _ => return Ok(()),
    };
    for path in first {
        write(format, &read::read(&path)?, output, mode, stem)?;
    }
    Ok(())
}

/// Writes the files of a content; a `.npy` has the name of its tensor.
fn write(
    format: &str,
    content: &Content,
    folder: &Path,
    mode: &str,
    stem: &str,
) -> Result<Vec<std::path::PathBuf>> {
    let files = match (format, mode) {
        ("safetensors", "shards") => safetensors::encode_shards(content),
        ("safetensors", _) => vec![(format!("{stem}.safetensors"), safetensors::encode(content))],
        ("gguf", _) => vec![(format!("{stem}.gguf"), gguf::encode(content)?)],
        ("pth", _) => vec![(format!("{stem}.pth"), pth::encode(content)?)],
        ("npy", _) => {
            let below = if stem == "again" { "again/" } else { "" };
            let arrays = content.tensors.iter();
            let encoded =
                arrays.map(|raw| Ok((format!("{below}{}.npy", raw.name), npy::encode(raw)?)));
            encoded.collect::<Result<_>>()?
        }
        _ => return Err(Refusal::new(format!("{format} is not a format"))),
    };
    let mut paths = Vec::new();
    for (name, bytes) in files {
        let path = folder.join(name);
        let parent = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        parent
            .and_then(|()| std::fs::write(&path, bytes))
            .map_err(|error| Refusal::new(error.to_string()))?;
        paths.push(path);
    }
    Ok(paths)
}
