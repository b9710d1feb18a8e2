//! One run of a model: what the trace gives, and the stages that were computed.

use crate::array::Array;
use crate::npy;
use demo_serialize::error::{Refusal, Result};
use demo_serialize::safetensors;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Inputs, parameters and stages by name.
pub struct Run {
    given: BTreeMap<String, Array>,
    stages: Vec<(String, Array)>,
}

impl Run {
    /// Reads `model.safetensors` and `inputs/*.npy` of a trace's folder.
    ///
    /// # Errors
    /// Where a file cannot be read.
    pub fn read(folder: &Path) -> Result<Self> {
        let model = folder.join("model.safetensors");
        let parameters =
            safetensors::read(&read(&model)?).map_err(|refusal| at(&model, refusal))?;
        let named = parameters.into_iter();
        let mut given: BTreeMap<_, _> = named
            .map(|one| (one.name, Array::new(&one.shape, one.data)))
            .collect();
        let inputs = folder.join("inputs");
        let entries = fs::read_dir(&inputs).map_err(|error| failed(&inputs, &error))?;
        for entry in entries {
            let path = entry.map_err(|error| failed(&inputs, &error))?.path();
            let array = npy::read(&read(&path)?).map_err(|refusal| at(&path, refusal))?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            given.insert(name.into_owned(), array);
        }
        let stages = Vec::new();
        Ok(Self { given, stages })
    }

    /// Returns an input or a parameter.
    ///
    /// # Errors
    /// Where the trace has none of this name.
    pub fn get(&self, name: &str) -> Result<Array> {
        let found = self.given.get(name).cloned();
        found.ok_or_else(|| Refusal::new(format!("the trace has no {name}")))
    }

    /// Keeps the output of a stage under its name, and returns it.
    pub fn keep(&mut self, name: impl Into<String>, output: Array) -> Array {
        self.stages.push((name.into(), output.clone()));
        output
    }

    /// Writes all stages to one `.safetensors` file.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn write(&self, path: &Path) -> Result<()> {
        let (mut header, mut data) = (String::from("{"), Vec::new());
        for (name, array) in &self.stages {
            let (begin, shape) = (data.len(), &array.shape);
            data.extend(array.data.iter().flat_map(|value| value.to_le_bytes()));
            let comma = if begin == 0 { "" } else { "," };
            let end = data.len();
            // Names of stages are letters, digits and `._/#`; writing to a String never fails.
            let _ = write!(
                header,
                "{comma}\"{name}\":{{\"dtype\":\"F32\",\"shape\":{shape:?},\"data_offsets\":[{begin},{end}]}}"
            );
        }
        header.push('}');
        let length = (header.len() as u64).to_le_bytes();
        let file = [&length[..], header.as_bytes(), &data].concat();
        fs::write(path, file).map_err(|error| failed(path, &error))
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> Refusal {
    Refusal::new(format!("{}: {error}", path.display()))
}

fn at(path: &Path, refusal: Refusal) -> Refusal {
    refusal.within(&path.display().to_string())
}
