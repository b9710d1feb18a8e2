//! Copy the dump examples out of the published packages that cargo has unpacked.

use std::{env, fs, path::Path, process::Command};

const EXAMPLES: [(&str, &str); 9] = [
    ("ferrotorch-bert", "text_embedding_dump"),
    ("ferrotorch-diffusion", "clip_text_encode_dump"),
    ("ferrotorch-diffusion", "unet_predict_dump"),
    ("ferrotorch-diffusion", "vae_decode_dump"),
    ("ferrotorch-graph", "gcn_inference_dump"),
    ("ferrotorch-jit", "jit_trace_dump"),
    ("ferrotorch-llama", "llm_inference_dump"),
    ("ferrotorch-rl", "ppo_policy_dump"),
    ("ferrotorch-whisper", "whisper_encoder_dump"),
];

fn main() {
    println!("cargo::rerun-if-changed=Cargo.toml");
    let target = format!("--filter-platform={}", env::var("TARGET").unwrap());
    let args = ["metadata", "--format-version=1", "--offline", &target];
    let found = Command::new(env::var("CARGO").unwrap()).args(args).output().unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    let metadata = String::from_utf8(found.stdout).unwrap();
    for (package, example) in EXAMPLES {
        let folder = find_folder(&metadata, package);
        let source = fs::read_to_string(format!("{folder}/examples/{example}.rs")).unwrap();
        // An included file cannot begin with documentation of the file around it.
        let text = source.replace("//!", "//");
        fs::write(Path::new(&env::var("OUT_DIR").unwrap()).join(format!("{example}.rs")), text)
            .unwrap();
    }
}

/// Return the folder of version 0.6.2 of `package`, from its manifest's path.
fn find_folder(metadata: &str, package: &str) -> String {
    let end = format!("{package}-0.6.2/Cargo.toml\"");
    let at = metadata.find(&end).unwrap_or_else(|| panic!("{package} 0.6.2 is not there"));
    let start = metadata[..at].rfind('"').unwrap() + 1;
    format!("{}{package}-0.6.2", &metadata[start..at])
}
