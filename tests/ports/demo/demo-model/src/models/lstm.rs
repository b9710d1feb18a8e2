//! An LSTM from a state of zeros, a linear layer on its outputs, and the mean of absolute errors.

use super::run_linear;
use crate::loss::l1_loss;
use crate::recur::{lstm, LstmWeights};
use crate::run::Run;
use demo_serialize::error::Result;

pub(super) fn forward(run: &mut Run) -> Result<()> {
    let (x, target) = (run.get("x")?, run.get("target")?);
    let weights = LstmWeights {
        input: &run.get("lstm.weight_ih_l0")?,
        hidden: &run.get("lstm.weight_hh_l0")?,
        input_bias: &run.get("lstm.bias_ih_l0")?,
        hidden_bias: &run.get("lstm.bias_hh_l0")?,
    };
    let hidden = run.keep("lstm/lstm", lstm(&x, &weights));
    let output = run_linear(run, "fc", &hidden)?;
    run.keep("l1_loss", l1_loss(&output, &target));
    Ok(())
}
