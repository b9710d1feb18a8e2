//! What the loader programs of this folder share; it knows no port's types.
//!
//! Arguments and output are those of docs/pipeline.md. With `--items N` the data set is the ids 0 to
//! N - 1, and the ids of each batch are printed, a JSON list a line, in place of the files. A
//! rejection by the port is a line on stderr and exit code 1; what the port does not have is
//! `not supported: WHAT` and exit code 3. An argument that the program never asks for is not
//! supported, so that none is ignored.

// No program uses all of it.
#![allow(dead_code)]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;

/// Why there is no result.
#[derive(Debug)]
pub enum Failure {
    /// The port has no such setting.
    NotSupported(String),
    /// The port has it and rejects this call.
    Refused(String),
}

pub type Result<T> = std::result::Result<T, Failure>;

/// Any error of a port is a rejection.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Refused(error.to_string())
    }
}

pub fn not_supported<T>(what: impl Into<String>) -> Result<T> {
    Err(Failure::NotSupported(what.into()))
}

/// An item of the data set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    pub id: i64,
    pub x: f32,
    pub y: f32,
    /// What the port drew for it; 0 without draws.
    pub draw: f64,
}

/// The settings of a case. What a program reads is marked as used.
pub struct Settings {
    values: BTreeMap<String, String>,
    used: RefCell<BTreeSet<String>>,
}

impl Settings {
    fn parse(words: &[String]) -> Result<Self> {
        let mut values = BTreeMap::new();
        for pair in words.chunks(2) {
            let [name, value] = pair else {
                return not_supported(format!("{} without a value", pair[0]));
            };
            values.insert(name.clone(), value.clone());
        }
        let used = ["--config", "--output-dir", "--items"].map(String::from);
        let settings = Self { values, used: RefCell::new(used.into()) };
        Ok(settings)
    }

    /// An argument of the case, if it has it.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.used.borrow_mut().insert(name.to_owned());
        self.values.get(name).map(String::as_str)
    }

    /// A number, or `default` where the case does not have it.
    pub fn number<T: FromStr>(&self, name: &str, default: T) -> Result<T> {
        let Some(text) = self.text(name) else {
            return Ok(default);
        };
        text.parse().or_else(|_| not_supported(format!("{name} {text}")))
    }

    /// Whether the case has an argument.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    fn words(&self) -> Vec<&str> {
        self.values["--config"].split('-').collect()
    }

    /// `sequential`, `keep`, `drop` or `pad`.
    pub fn policy(&self) -> &str {
        self.words()[0]
    }

    /// Whether the items are shuffled.
    pub fn is_shuffled(&self) -> bool {
        self.policy() != "sequential"
    }

    /// Whether the case's name has a word, such as `fill`, `trim` and `uneven`.
    pub fn is_named(&self, word: &str) -> bool {
        self.words().contains(&word)
    }

    /// Items of a full batch.
    pub fn batch_size(&self) -> usize {
        let words = self.words();
        let found = words.windows(2).find(|pair| pair[0] == "batch");
        found.and_then(|pair| pair[1].parse().ok()).unwrap_or(4)
    }

    /// The data set, in its own order.
    pub fn records(&self) -> Vec<Record> {
        let count = self.values.get("--items").and_then(|text| text.parse().ok());
        let make = |id: i64| {
            let x = (id as f64 / 10.0) as f32;
            Record { id, x, y: 2.0 * x - 1.0, draw: 0.0 }
        };
        (0..count.unwrap_or(11)).map(make).collect()
    }

    fn find_unused(&self) -> Option<&String> {
        let used = self.used.borrow();
        self.values.keys().find(|name| !used.contains(*name))
    }
}

/// What a loader delivers.
#[derive(Default)]
pub struct Delivery {
    pub batches: Vec<Vec<Record>>,
    /// The number of batches that the loader itself states, if it does.
    pub stated: Option<usize>,
    /// Whether the records have draws.
    pub has_draws: bool,
}

/// Run a program: read its arguments, let it deliver, and write what it delivers.
pub fn run(deliver: fn(&Settings) -> Result<Delivery>) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match try_run(&words, deliver) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::NotSupported(what)) => {
            eprintln!("not supported: {what}");
            ExitCode::from(3)
        }
        Err(Failure::Refused(why)) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(words: &[String], deliver: fn(&Settings) -> Result<Delivery>) -> Result<()> {
    let settings = Settings::parse(words)?;
    let delivery = deliver(&settings)?;
    if let Some(name) = settings.find_unused() {
        return not_supported(name);
    }
    if settings.has("--items") {
        for batch in &delivery.batches {
            println!("{:?}", batch.iter().map(|record| record.id).collect::<Vec<_>>());
        }
        return Ok(());
    }
    let folder = Path::new(&settings.values["--output-dir"]);
    fs::create_dir_all(folder)?;
    for (number, batch) in delivery.batches.iter().enumerate() {
        fs::write(folder.join(format!("batch_{number:04}.bin")), encode(batch))?;
    }
    fs::write(folder.join("meta.json"), describe(&delivery))?;
    Ok(())
}

/// A batch file: four tensors of one axis, little-endian.
fn encode(batch: &[Record]) -> Vec<u8> {
    let columns: [fn(&Record) -> f32; 4] = [|r| r.id as f32, |r| r.x, |r| r.y, |_| 1.0];
    let mut bytes = 4_u32.to_le_bytes().to_vec();
    for column in columns {
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend((batch.len() as u32).to_le_bytes());
        bytes.extend(batch.iter().flat_map(|record| column(record).to_le_bytes()));
    }
    bytes
}

fn describe(delivery: &Delivery) -> String {
    let sizes: Vec<usize> = delivery.batches.iter().map(Vec::len).collect();
    let stated = delivery.stated.unwrap_or(sizes.len());
    let mut text = format!("{{\"num_batches\": {stated}, \"batch_sizes\": {sizes:?}");
    if delivery.has_draws {
        let draws: Vec<f64> = delivery.batches.iter().flatten().map(|r| r.draw).collect();
        text += &format!(", \"draws\": {draws:?}");
    }
    text + "}\n"
}
