//! What the dump examples share: their arguments, and how they end.
//!
//! Exit codes: 0 when all was written, 1 when the input was refused, 2 for wrong arguments.

use crate::dump::Target;
use crate::error::Result;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "--fixture-dir DIR --output-dir DIR";

struct Arguments {
    target: Target,
    fixture_dir: PathBuf,
    output_dir: PathBuf,
}

/// Runs a dump example: `fixed` is its target, or `None` where `--target` has to state it.
#[must_use]
pub fn run(fixed: Option<Target>) -> ExitCode {
    match parse(std::env::args_os().skip(1), fixed) {
        Ok(arguments) => finish(dump(&arguments)),
        Err(message) => {
            let target = if fixed.is_none() {
                "--target pth|safetensors|gguf|onnx "
            } else {
                ""
            };
            eprintln!("{message}\nusage: {target}{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn finish(outcome: Result<String>) -> ExitCode {
    match outcome {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(refusal) => {
            eprintln!("FAILED: {refusal}");
            ExitCode::FAILURE
        }
    }
}

fn dump(arguments: &Arguments) -> Result<String> {
    let dump = arguments.target.produce(&arguments.fixture_dir)?;
    dump.write(&arguments.output_dir)?;
    Ok(format!("{} files written", dump.len()))
}

fn parse(
    words: impl Iterator<Item = OsString>,
    fixed: Option<Target>,
) -> std::result::Result<Arguments, String> {
    let [target, fixture_dir, output_dir] = options(words, fixed.is_some())?;
    let named = |word: OsString| word.to_str().and_then(Target::named);
    Ok(Arguments {
        target: fixed
            .or(target.and_then(named))
            .ok_or("no known --target")?,
        fixture_dir: fixture_dir.ok_or("--fixture-dir is missing")?.into(),
        output_dir: output_dir.ok_or("--output-dir is missing")?.into(),
    })
}

/// The values of `--target`, `--fixture-dir` and `--output-dir`.
fn options(
    mut words: impl Iterator<Item = OsString>,
    fixed: bool,
) -> std::result::Result<[Option<OsString>; 3], String> {
    let mut found = [None, None, None];
    while let Some(word) = words.next() {
        let place = match word.to_str() {
            Some("--target") if !fixed => 0,
            Some("--fixture-dir") => 1,
            Some("--output-dir") => 2,
            _ => return Err(format!("unknown argument {word:?}")),
        };
        let value = words
            .next()
            .ok_or_else(|| format!("{word:?} has no value"))?;
        if found[place].replace(value).is_some() {
            return Err(format!("{word:?} is given twice"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str, fixed: Option<Target>) -> std::result::Result<Target, String> {
        let words = line.split_whitespace().map(OsString::from);
        parse(words, fixed).map(|arguments| arguments.target)
    }

    #[test]
    fn the_target_is_stated_once_by_name_or_by_the_example() {
        let folders = "--fixture-dir f --output-dir o";
        assert_eq!(
            parsed(&format!("--target gguf {folders}"), None),
            Ok(Target::Gguf)
        );
        assert_eq!(parsed(folders, Some(Target::Pth)), Ok(Target::Pth));
        assert!(parsed(folders, None).is_err());
        assert!(parsed(&format!("--target gguf {folders}"), Some(Target::Pth)).is_err());
    }

    #[test]
    fn wrong_arguments_are_told_apart() {
        for line in [
            "--target zip --fixture-dir f --output-dir o",
            "--target pth --fixture-dir f",
            "--target pth --output-dir o",
            "--target pth --fixture-dir f --output-dir",
            "--target pth --fixture-dir f --output-dir o --output-dir p",
            "--target pth --fixture-dir f --output-dir o extra",
        ] {
            assert!(parsed(line, None).is_err(), "{line}");
        }
    }
}
