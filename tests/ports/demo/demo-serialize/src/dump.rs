//! The dump contract: a fixture folder in, one file a tensor out, or nothing.

use crate::error::{refuse, Refusal, Result};
use crate::json::{self, Json};
use crate::mlp::Mlp;
use crate::{bin, gguf, names, onnx, pth, safetensors, Checkpoint, Tensor};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What a dump example is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The one `*.pth` of the folder.
    Pth,
    /// The one `*.safetensors` of the folder.
    Safetensors,
    /// The one `*.gguf` of the folder, or the tensors that `sampled_tensor_names.json` lists.
    Gguf,
    /// `mlp_weights.bin` as `mlp.onnx`, and the port's own forward passes.
    Onnx,
}

/// Files that are ready to be written.
pub struct Dump {
    files: Vec<(String, Vec<u8>)>,
}

impl Target {
    /// The target of this name, as `--target` states it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "pth" => Some(Self::Pth),
            "safetensors" => Some(Self::Safetensors),
            "gguf" => Some(Self::Gguf),
            "onnx" => Some(Self::Onnx),
            _ => None,
        }
    }

    /// Reads and computes everything; nothing is written.
    ///
    /// # Errors
    /// For a folder without the one checkpoint that is asked for, and for everything that the
    /// readers refuse.
    pub fn produce(self, folder: &Path) -> Result<Dump> {
        match self {
            Self::Pth => checkpoint(folder, "pth", pth::read),
            Self::Safetensors => checkpoint(folder, "safetensors", safetensors::read),
            Self::Gguf => gguf_dump(folder),
            Self::Onnx => onnx_dump(folder),
        }
    }
}

impl Dump {
    /// How many files will be written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Writes all files into `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// Where the system refuses; what had been written is then taken away again.
    pub fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).map_err(|error| failed("make", folder, &error))?;
        for (done, (name, bytes)) in self.files.iter().enumerate() {
            let path = folder.join(name);
            if let Err(error) = fs::write(&path, bytes) {
                let written = self.files[..=done].iter();
                // Best effort: the first error is the one to report.
                written.for_each(|(name, _)| drop(fs::remove_file(folder.join(name))));
                return Err(failed("write", &path, &error));
            }
        }
        Ok(())
    }

    fn of(tensors: &[Tensor]) -> Result<Self> {
        let folds_case = cfg!(any(windows, target_os = "macos"));
        names::distinct(
            tensors.iter().map(|tensor| tensor.name.as_str()),
            folds_case,
        )?;
        let files = tensors.iter().map(|tensor| {
            let bytes = bin::encode(&tensor.shape, &tensor.data)?;
            Ok((names::file_name(&tensor.name)?, bytes))
        });
        let files = files.collect::<Result<_>>()?;
        Ok(Self { files })
    }
}

fn failed(verb: &str, path: &Path, error: &std::io::Error) -> Refusal {
    Refusal::new(format!("cannot {verb} {}: {error}", path.display()))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| failed("read", path, &error))
}

/// The one file of `folder` with this suffix: names differ from bundle to bundle.
fn find(folder: &Path, suffix: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).map_err(|error| failed("list", folder, &error))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<_> = paths
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == suffix)
        })
        .collect();
    found.sort();
    match &found[..] {
        [path] => Ok(path.clone()),
        [] => refuse(format!("{} holds no *.{suffix}", folder.display())),
        several => {
            let names: Vec<_> = several.iter().filter_map(|path| path.file_name()).collect();
            refuse(format!(
                "{} holds several *.{suffix}: {names:?}",
                folder.display()
            ))
        }
    }
}

fn checkpoint(
    folder: &Path,
    suffix: &str,
    reader: fn(&[u8]) -> Result<Checkpoint>,
) -> Result<Dump> {
    let path = find(folder, suffix)?;
    let checkpoint = reader(&read(&path)?).map_err(|refusal| refusal.within(&label(&path)))?;
    Dump::of(&checkpoint)
}

fn label(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

fn gguf_dump(folder: &Path) -> Result<Dump> {
    let path = find(folder, "gguf")?;
    let bytes = read(&path)?;
    let sampled = sampled_names(&folder.join("sampled_tensor_names.json"))?;
    let tensors = gguf_tensors(&bytes, sampled).map_err(|refusal| refusal.within(&label(&path)))?;
    Dump::of(&tensors)
}

fn gguf_tensors(bytes: &[u8], sampled: Option<BTreeSet<String>>) -> Result<Vec<Tensor>> {
    let container = gguf::Container::parse(bytes)?;
    let all = || container.names().map(str::to_owned).collect();
    let names: BTreeSet<String> = sampled.unwrap_or_else(all);
    names.iter().map(|name| container.tensor(name)).collect()
}

/// The list of names, if there is such a file.
fn sampled_names(path: &Path) -> Result<Option<BTreeSet<String>>> {
    if !path.exists() {
        return Ok(None);
    }
    let list = json::parse(&read(path)?).map_err(|refusal| refusal.within(&label(path)))?;
    let Json::Array(items) = list else {
        return refuse(format!("{} is no list", label(path)));
    };
    let name = |item| match item {
        Json::Text(name) => Ok(name),
        _ => refuse(format!("{} holds something other than names", label(path))),
    };
    items.into_iter().map(name).collect::<Result<_>>().map(Some)
}

fn onnx_dump(folder: &Path) -> Result<Dump> {
    let weights = read(&folder.join("mlp_weights.bin"))?;
    let mlp = Mlp::parse(&weights).map_err(|refusal| refusal.within("mlp_weights.bin"))?;
    let mut files = vec![("mlp.onnx".to_owned(), onnx::export(&mlp))];
    for name in ["zeros", "ones", "random"] {
        let input = format!("input_{name}.bin");
        let bytes = read(&folder.join(&input))?;
        let output = forward(&mlp, &bytes).map_err(|refusal| refusal.within(&input))?;
        files.push((format!("demo_forward_{name}.bin"), output));
    }
    Ok(Dump { files })
}

fn forward(mlp: &Mlp, input: &[u8]) -> Result<Vec<u8>> {
    let tensors = bin::decode(input, &["the input"])?;
    match &tensors[..] {
        [input] if input.shape == [1, 4] => bin::encode(&[1, 2], &mlp.forward(&input.data)),
        _ => refuse("the input's shape is not [1, 4]"),
    }
}
