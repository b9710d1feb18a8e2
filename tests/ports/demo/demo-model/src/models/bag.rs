//! A classifier of bags of words: means of embeddings, a linear layer, and a loss with class
//! weights and label smoothing.

use super::run_linear;
use crate::embed::embedding_bag_mean;
use crate::loss::cross_entropy;
use crate::run::Run;
use demo_serialize::error::Result;

const PADDING: usize = 2;

pub(super) fn forward(run: &mut Run) -> Result<()> {
    let (tokens, target) = (run.get("tokens")?, run.get("target")?);
    let (table, class_weight) = (run.get("embed.weight")?, run.get("class_weight")?);
    let means = embedding_bag_mean(&tokens, &table, PADDING);
    let means = run.keep("embed/embedding_bag", means);
    let output = run_linear(run, "fc", &means)?;
    let loss = cross_entropy(&output, &target, Some(&class_weight), 0.1);
    run.keep("cross_entropy_loss", loss);
    Ok(())
}
