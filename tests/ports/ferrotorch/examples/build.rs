//! Copy the dump examples out of the published packages that cargo has unpacked.

use std::{env, fs, path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=Cargo.toml");
    let target = format!("--filter-platform={}", env::var("TARGET").unwrap());
    let args = ["metadata", "--format-version=1", "--offline", &target];
    let found = Command::new(env::var("CARGO").unwrap())
        .args(args)
        .output()
        .unwrap();
    assert!(
        found.status.success(),
        "{}",
        String::from_utf8_lossy(&found.stderr)
    );
    let metadata = String::from_utf8(found.stdout).unwrap();
    let paths = metadata
        .split("\"src_path\":\"")
        .skip(1)
        .map(|rest| rest.split('"').next());
    for path in paths
        .flatten()
        .filter(|path| path.ends_with("_dump.rs"))
        .map(Path::new)
    {
        // An included file cannot begin with documentation of the file around it.
        let text = fs::read_to_string(path).unwrap().replace("//!", "//");
        let copy = Path::new(&env::var("OUT_DIR").unwrap()).join(path.file_name().unwrap());
        fs::write(copy, text).unwrap();
    }
}
