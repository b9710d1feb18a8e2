//! Computes a case of `model-traces-v1` and dumps its stages: `CASE FIXTURE_DIR OUTPUT_DIR`.

use demo_model::models;
use demo_model::run::Run;
use demo_serialize::error::Result;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [case, fixtures, output] = &words[..] else {
        eprintln!("usage: model_trace_dump CASE FIXTURE_DIR OUTPUT_DIR");
        return ExitCode::from(2);
    };
    match dump(case, Path::new(fixtures), Path::new(output)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            eprintln!("FAILED: {refusal}");
            ExitCode::FAILURE
        }
    }
}

fn dump(case: &str, fixtures: &Path, output: &Path) -> Result<()> {
    let mut run = Run::read(fixtures)?;
    models::compute(case, &mut run)?;
    run.write(&output.join("stages.safetensors"))
}
