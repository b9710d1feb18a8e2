//! What the dump examples share: flags, folders, and how a run ends.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use crate::error::Error;

/// The flags of a command line: `--name value` pairs and nothing else.
#[derive(Clone, Debug)]
pub struct Flags {
    values: BTreeMap<String, OsString>,
}

impl Flags {
    /// Reads `args` (without the program's name); `known` are the flags there
    /// are, with their two dashes.
    ///
    /// # Errors
    /// [`Error::Usage`] for an unknown or repeated flag, or one without value.
    pub fn parse(args: impl Iterator<Item = OsString>, known: &[&str]) -> Result<Self, Error> {
        let mut args = args;
        let mut values = BTreeMap::new();
        while let Some(flag) = args.next() {
            let name = known_flag(&flag, known)?;
            let Some(value) = args.next() else {
                return Err(Error::Usage(format!("{name} needs a value")));
            };
            if values.insert(name.clone(), value).is_some() {
                return Err(Error::Usage(format!("{name} is given twice")));
            }
        }
        Ok(Self { values })
    }

    /// The value of a flag that must be there, as text.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is missing or is not UTF-8.
    pub fn text(&self, name: &str) -> Result<&str, Error> {
        let value = self.required(name)?;
        value
            .to_str()
            .ok_or_else(|| Error::Usage(format!("{name} is not UTF-8")))
    }

    /// The value of a flag that must be there, as a path.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is missing.
    pub fn path(&self, name: &str) -> Result<PathBuf, Error> {
        self.required(name).map(PathBuf::from)
    }

    /// The value of a flag as a path, if it is there.
    #[must_use]
    pub fn path_if(&self, name: &str) -> Option<PathBuf> {
        self.values.get(name).map(PathBuf::from)
    }

    /// The value of a flag that must be there, as a number.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is missing or is no number of the wanted type.
    pub fn number<T: FromStr>(&self, name: &str) -> Result<T, Error> {
        let text = self.text(name)?;
        decimal(text).ok_or_else(|| Error::Usage(format!("{name} {text}: not a number in range")))
    }

    /// As [`Flags::number`], but a missing flag gives `default`.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is there and is no number of the wanted type.
    pub fn number_or<T: FromStr>(&self, name: &str, default: T) -> Result<T, Error> {
        if self.values.contains_key(name) {
            self.number(name)
        } else {
            Ok(default)
        }
    }

    fn required(&self, name: &str) -> Result<&OsStr, Error> {
        self.values
            .get(name)
            .map(OsString::as_os_str)
            .ok_or_else(|| Error::Usage(format!("{name} is missing")))
    }
}

fn known_flag(flag: &OsStr, known: &[&str]) -> Result<String, Error> {
    match flag.to_str() {
        Some(name) if known.contains(&name) => Ok(name.to_owned()),
        _ => Err(Error::Usage(format!(
            "unknown argument {flag:?}; there are {}",
            known.join(", ")
        ))),
    }
}

/// A number written in decimal digits only: no sign, no spaces.
#[must_use]
pub fn decimal<T: FromStr>(text: &str) -> Option<T> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

/// Makes a folder and those above it, unless they are there.
///
/// # Errors
/// [`Error::Io`] if that is not possible.
pub fn make_folder(folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|source| Error::io(folder, source))
}

/// Ends a run: the line of a good one goes to stdout, the error of a bad one
/// to stderr. The code is 0, 2 for a usage error, 1 for any other.
#[must_use]
pub fn finish(outcome: Result<String, Error>) -> ExitCode {
    match outcome.and_then(|line| print_line(&line)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell when stderr itself is closed.
            drop(writeln!(io::stderr(), "error: {error}"));
            ExitCode::from(exit_code(&error))
        }
    }
}

/// Unlike `println!`, this does not panic when the reader has gone away.
fn print_line(line: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|source| Error::io(Path::new("stdout"), source))
}

fn exit_code(error: &Error) -> u8 {
    match error {
        Error::Usage(_) => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Flags, Error> {
        Flags::parse(args.iter().map(OsString::from), &["--a", "--b"])
    }

    #[test]
    fn values_come_back_by_name_in_any_order() {
        let flags = parse(&["--b", "7", "--a", "x y"]).unwrap();
        assert_eq!(flags.text("--a").unwrap(), "x y");
        assert_eq!(flags.number::<u8>("--b").unwrap(), 7);
        assert_eq!(flags.path("--a").unwrap(), Path::new("x y"));
        assert_eq!(flags.number_or("--c", 5_u8).unwrap(), 5);
        assert_eq!(flags.path_if("--a"), Some(PathBuf::from("x y")));
        assert_eq!(flags.path_if("--c"), None);
    }

    #[test]
    fn bad_command_lines_say_what_is_wrong() {
        for (args, part) in [
            (&["--c", "1"][..], "unknown argument \"--c\""),
            (&["word"], "unknown argument"),
            (&["--a"], "--a needs a value"),
            (&["--a", "1", "--a", "2"], "--a is given twice"),
        ] {
            let error = parse(args).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
            assert_eq!(exit_code(&error), 2);
        }
    }

    #[test]
    fn bad_numbers_are_usage_errors() {
        for value in ["", "-1", "+1", " 1", "256", "1.0", "x"] {
            let flags = parse(&["--a", value]).unwrap();
            let error = flags.number::<u8>("--a").unwrap_err();
            assert_eq!(exit_code(&error), 2, "{value:?}");
        }
        let error = parse(&[]).unwrap().number::<u8>("--a").unwrap_err();
        assert_eq!(error.to_string(), "--a is missing");
    }

    #[test]
    fn other_errors_end_with_one() {
        assert_eq!(exit_code(&Error::ZeroBatchSize), 1);
    }
}
