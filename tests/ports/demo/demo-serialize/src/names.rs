//! Which tensor names may become file names, on every system that a dump may be read on.

use crate::error::{refuse, Result};

/// Longest name in bytes; leaves room for `.bin` and for archives that add a folder.
const MAX_BYTES: usize = 200;

/// Names of devices that Windows reserves whatever follows the first dot.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// The file name of a tensor.
///
/// # Errors
/// For a name that is no portable file name: it is refused, never changed.
pub fn file_name(name: &str) -> Result<String> {
    match trouble(name) {
        None => Ok(format!("{name}.bin")),
        Some(reason) => {
            let shown: String = name.chars().take(60).collect();
            refuse(format!("tensor name {shown:?} is no file name: {reason}"))
        }
    }
}

fn trouble(name: &str) -> Option<&'static str> {
    let forbidden = |c: char| c.is_control() || "/\\:<>\"|?*".contains(c);
    if name.is_empty() {
        Some("it is empty")
    } else if name == "." || name == ".." {
        Some("it names a folder")
    } else if name.len() > MAX_BYTES {
        Some("it is longer than 200 bytes")
    } else if name.contains(forbidden) {
        Some("it holds a character that not every file system takes")
    } else if is_device(name) {
        Some("Windows reserves it for a device")
    } else {
        None
    }
}

/// `con`, `AUX.weight`, `com1.x`: the part before the first dot decides, in any case.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name).trim_end();
    let stem = stem.to_ascii_lowercase();
    let port = |stem: &str| {
        let digit = stem.strip_prefix("com").or(stem.strip_prefix("lpt"));
        digit.is_some_and(|digit| digit.chars().count() == 1 && "123456789¹²³".contains(digit))
    };
    DEVICES.contains(&stem.as_str()) || port(&stem)
}

/// Refuses two names that one file would hold where the file system folds case.
///
/// # Errors
/// For the first such pair.
pub fn distinct<'a>(names: impl IntoIterator<Item = &'a str>, folds_case: bool) -> Result<()> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        let key = if folds_case {
            name.to_lowercase()
        } else {
            name.to_owned()
        };
        if !seen.insert(key) {
            return refuse(format!(
                "two tensors would be written to one file, {name:?}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_pass() {
        let long = "x".repeat(200);
        for name in [
            "w",
            "fc1.weight",
            "a b",
            "größe.重み",
            "x.",
            ".w",
            "console",
            "com10",
            &long,
        ] {
            assert_eq!(file_name(name), Ok(format!("{name}.bin")));
        }
    }

    #[test]
    fn names_that_are_no_file_names_are_refused() {
        let long = "x".repeat(201);
        let refused = [
            "",
            ".",
            "..",
            "a/b",
            "a\\b",
            "a:b",
            "a\0b",
            "a\nb",
            "aux",
            "CON.weight",
            "nul .x",
            "lpt9",
            "a*b",
            &long,
        ];
        for name in refused {
            assert!(file_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn case_twins_share_a_file_only_where_case_is_folded() {
        assert!(distinct(["w", "W"], false).is_ok());
        assert!(distinct(["w", "W"], true).is_err());
        assert!(distinct(["w", "w"], false).is_err());
    }
}
