//! Makes one call of one operator: `OP ARGS INPUTS OUT`.
//!
//! ARGS is a JSON object with torch's names, INPUTS a safetensors file, OUT the one to write. A
//! call that the port rejects ends with code 1 and the reason; what it does not have ends with
//! code 3 and `not supported: WHAT` as the last line.

use demo_op::call::{Call, Stop};
use demo_op::ops;
use demo_op::tensor;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [op, args, inputs, out] = &words[..] else {
        eprintln!("usage: op_dump OP ARGS INPUTS OUT");
        return ExitCode::from(2);
    };
    match dump(op, args, inputs, out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Rejected(reason)) => {
            eprintln!("FAILED: {reason}");
            ExitCode::FAILURE
        }
        Err(Stop::NotSupported(what)) => {
            eprintln!("not supported: {what}");
            ExitCode::from(3)
        }
    }
}

fn dump(op: &str, args: &str, inputs: &str, out: &str) -> Result<(), Stop> {
    let mut call = Call::read(op, args, std::path::Path::new(inputs))?;
    let output = ops::compute(&mut call)?;
    call.check_used()?;
    std::fs::write(out, tensor::encode("out", &output)).map_err(Stop::rejected)
}
