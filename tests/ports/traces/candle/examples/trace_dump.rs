//! candle-nn on the models of `model-traces-v1`: `trace_dump CASE FIXTURE_DIR OUTPUT_DIR`.

use candle_core::{safetensors, DType, Device, IndexOp, Result, Tensor, Var, D};
use candle_nn::ops::{leaky_relu, silu, softmax};
use candle_nn::rnn::{LSTMConfig, LSTM, RNN};
use candle_nn::rotary_emb::{rope, rope_i, rope_slow};
use candle_nn::{
    loss, AdamW, BatchNorm, Conv2d, Conv2dConfig, Embedding, LayerNorm, Linear, Module, ModuleT,
    Optimizer, ParamsAdamW, RmsNorm, VarBuilder,
};
use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;

const ADAMW: ParamsAdamW = ParamsAdamW {
    lr: 0.01,
    beta1: 0.8,
    beta2: 0.95,
    eps: 1e-3,
    weight_decay: 0.05,
};
const STEPS: usize = 3;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [case, fixtures, output] = &words[..] else {
        eprintln!("usage: trace_dump CASE FIXTURE_DIR OUTPUT_DIR");
        return ExitCode::from(2);
    };
    let output = Path::new(output).join("stages.safetensors");
    match dump(case, Path::new(fixtures), &output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = error.to_string();
            // A backtrace may follow the first line.
            eprintln!("FAILED: {}", text.lines().next().unwrap_or_default());
            ExitCode::FAILURE
        }
    }
}

fn dump(case: &str, fixtures: &Path, output: &Path) -> Result<()> {
    let mut run = Run::read(fixtures)?;
    match case.split_once("-train-") {
        None => drop(run.forward(case)?),
        Some((model, "adamw")) => run.train(model)?,
        Some((_, optimizer)) => candle_core::bail!("not supported: {optimizer} as in the trace"),
    }
    safetensors::save(&run.stages, output)
}

/// One run of a model: inputs, parameters, and the stages that it computed.
struct Run {
    inputs: HashMap<String, Tensor>,
    parameters: HashMap<String, Var>,
    stages: HashMap<String, Tensor>,
    is_training: bool,
}

impl Run {
    fn read(folder: &Path) -> Result<Self> {
        let mut inputs = HashMap::new();
        for entry in std::fs::read_dir(folder.join("inputs"))? {
            let path = entry?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            inputs.insert(name.into_owned(), Tensor::read_npy(&path)?);
        }
        let model = safetensors::load(folder.join("model.safetensors"), &Device::Cpu)?;
        let named = model
            .into_iter()
            .map(|(name, value)| Ok((name, Var::from_tensor(&value)?)));
        Ok(Self {
            inputs,
            parameters: named.collect::<Result<_>>()?,
            stages: HashMap::new(),
            is_training: false,
        })
    }

    /// Runs a model; returns its loss where it has one.
    fn forward(&mut self, model: &str) -> Result<Option<Tensor>> {
        match model {
            "mlp" => self.mlp().map(Some),
            "cnn" => self.cnn().map(Some),
            "encoder" => self.encoder().map(Some),
            "decoder" => self.decoder().map(Some),
            "lstm" => self.lstm().map(Some),
            "mixer" => self.mixer().map(|()| None),
            _ => candle_core::bail!("not supported: {model}"),
        }
    }

    /// Trains all parameters; keeps gradients, parameters and losses instead of stages.
    fn train(&mut self, model: &str) -> Result<()> {
        self.is_training = true;
        let mut optimizer = AdamW::new(self.parameters.values().cloned().collect(), ADAMW)?;
        let mut losses = Vec::new();
        let mut steps = HashMap::new();
        for step in 1..=STEPS {
            let Some(loss) = self.forward(model)? else {
                candle_core::bail!("not supported: training of {model}")
            };
            losses.push(loss.to_scalar::<f32>()?);
            let gradients = loss.backward()?;
            optimizer.step(&gradients)?;
            for (name, parameter) in &self.parameters {
                if let Some(gradient) = gradients.get(parameter) {
                    steps.insert(format!("step_{step}/grad/{name}"), gradient.contiguous()?);
                }
                steps.insert(format!("step_{step}/{name}"), parameter.copy()?);
            }
        }
        steps.insert("loss".to_owned(), Tensor::new(losses, &Device::Cpu)?);
        self.stages = steps;
        Ok(())
    }

    fn input(&self, name: &str) -> Result<Tensor> {
        let found = self.inputs.get(name).cloned();
        found.ok_or_else(|| candle_core::Error::Msg(format!("the trace has no input {name}")))
    }

    fn parameter(&self, name: &str) -> Result<Tensor> {
        let found = self.parameters.get(name).map(|one| one.as_tensor().clone());
        found.ok_or_else(|| candle_core::Error::Msg(format!("the trace has no parameter {name}")))
    }

    fn keep(&mut self, name: impl Into<String>, output: Tensor) -> Result<Tensor> {
        self.stages.insert(name.into(), output.contiguous()?);
        Ok(output)
    }

    fn linear(&mut self, name: &str, x: &Tensor) -> Result<Tensor> {
        let bias = self.parameter(&format!("{name}.bias")).ok();
        let layer = Linear::new(self.parameter(&format!("{name}.weight"))?, bias);
        self.keep(format!("{name}/linear"), layer.forward(x)?)
    }

    fn conv(&mut self, name: &str, x: &Tensor, config: Conv2dConfig) -> Result<Tensor> {
        let weight = self.parameter(&format!("{name}.weight"))?;
        let bias = self.parameter(&format!("{name}.bias"))?;
        let layer = Conv2d::new(weight, Some(bias), config);
        self.keep(format!("{name}/conv2d"), layer.forward(x)?)
    }

    fn layer_norm(&mut self, name: &str, stage: &str, x: &Tensor) -> Result<Tensor> {
        let weight = self.parameter(&format!("{name}.weight"))?;
        let layer = LayerNorm::new(weight, self.parameter(&format!("{name}.bias"))?, 1e-5);
        self.keep(stage, layer.forward(x)?)
    }

    fn rms_norm(&mut self, name: &str, x: &Tensor) -> Result<Tensor> {
        let layer = RmsNorm::new(self.parameter(&format!("{name}.weight"))?, 1e-6);
        // `forward` has no gradient.
        let output = if self.is_training {
            layer.forward_diff(x)?
        } else {
            layer.forward(x)?
        };
        self.keep(format!("{name}/rms_norm"), output)
    }

    fn attention(&mut self, heads: [&Tensor; 3], mask: Option<&Tensor>) -> Result<Tensor> {
        let output = attend(heads, mask)?;
        let output = self.keep("scaled_dot_product_attention", output)?;
        join_heads(&output)
    }

    fn cross_entropy(&mut self, logits: &Tensor, target: &Tensor) -> Result<Tensor> {
        // candle has no index to ignore.
        let target = target.flatten_all()?;
        let classes = target.to_vec1::<i64>()?;
        let counted = (0_u32..).zip(&classes).filter(|(_, &class)| class >= 0);
        let counted: Vec<u32> = counted.map(|(place, _)| place).collect();
        let counted = Tensor::new(counted, &Device::Cpu)?;
        let logits = logits.reshape(((), logits.dim(D::Minus1)?))?;
        let output = loss::cross_entropy(
            &logits.index_select(&counted, 0)?,
            &target.index_select(&counted, 0)?,
        )?;
        self.keep("cross_entropy_loss", output)
    }

    fn mlp(&mut self) -> Result<Tensor> {
        let hidden = self.linear("fc1", &self.input("x")?)?;
        let hidden = self.keep("relu", hidden.relu()?)?;
        let hidden = self.linear("fc2", &hidden)?;
        let hidden = self.keep("tanh", hidden.tanh()?)?;
        let output = self.linear("fc3", &hidden)?;
        let output = loss::mse(&output, &self.input("target")?)?;
        self.keep("mse_loss", output)
    }

    fn cnn(&mut self) -> Result<Tensor> {
        let config = Conv2dConfig {
            padding: 1,
            ..Conv2dConfig::default()
        };
        let hidden = self.conv("conv1", &self.input("x")?, config)?;
        let norm = BatchNorm::new(
            4,
            self.parameter("norm.running_mean")?,
            self.parameter("norm.running_var")?,
            self.parameter("norm.weight")?,
            self.parameter("norm.bias")?,
            1e-5,
        )?;
        let hidden = self.keep("norm/batch_norm", norm.forward_t(&hidden, false)?)?;
        let hidden = self.keep("leaky_relu", leaky_relu(&hidden, 0.05)?)?;
        // Pooling has no padding: a repeated edge never changes the maximum of its window.
        let padded = hidden.pad_with_same(2, 1, 1)?.pad_with_same(3, 1, 1)?;
        let hidden = self.keep("pool1/max_pool2d", padded.max_pool2d_with_stride(3, 2)?)?;
        let config = Conv2dConfig {
            padding: 2,
            dilation: 2,
            groups: 2,
            ..Conv2dConfig::default()
        };
        let hidden = self.conv("conv2", &hidden, config)?;
        let padded = hidden.pad_with_zeros(2, 1, 1)?.pad_with_zeros(3, 1, 1)?;
        let hidden = self.keep("pool2/avg_pool2d", padded.avg_pool2d_with_stride(2, 1)?)?;
        // An adaptive pooling of 5 elements to 2 has windows of 3.
        let hidden = hidden.avg_pool2d_with_stride(3, 2)?;
        let hidden = self.keep("pool3/adaptive_avg_pool2d", hidden)?;
        let output = self.linear("fc", &hidden.flatten_from(1)?)?;
        self.cross_entropy(&output, &self.input("target")?)
    }

    fn encoder(&mut self) -> Result<Tensor> {
        let x = self.input("x")?;
        let query = split_heads(&self.linear("q", &x)?, 2)?;
        let key = split_heads(&self.linear("k", &x)?, 2)?;
        let value = split_heads(&self.linear("v", &x)?, 2)?;
        let mixed = self.attention([&query, &key, &value], None)?;
        let mixed = self.linear("out", &mixed)?;
        let sum = self.keep("add", (x + mixed)?)?;
        let x = self.layer_norm("norm1", "norm1/layer_norm", &sum)?;
        let hidden = self.linear("fc1", &x)?;
        let hidden = self.keep("gelu", hidden.gelu_erf()?)?;
        let hidden = self.linear("fc2", &hidden)?;
        let sum = self.keep("add#2", (x + hidden)?)?;
        let output = self.layer_norm("norm2", "norm2/layer_norm", &sum)?;
        // Huber's loss is the smooth L1 loss times beta.
        let output = (loss::huber(&output, &self.input("target")?, 0.5)? / 0.5)?;
        self.keep("smooth_l1_loss", output)
    }

    fn decoder(&mut self) -> Result<Tensor> {
        let tokens = self.input("tokens")?;
        let x = Embedding::new(self.parameter("embed.weight")?, 8).forward(&tokens)?;
        let x = self.keep("embed/embedding", x)?;
        let normed = self.rms_norm("norm1", &x)?;
        let query = split_heads(&self.linear("q", &normed)?, 4)?;
        let key = split_heads(&self.linear("k", &normed)?, 2)?;
        let value = split_heads(&self.linear("v", &normed)?, 2)?;
        let (cos, sin) = angles(5, 4, 10_000.0, 0)?;
        // `rope` has no gradient.
        let rotate = if self.is_training { rope_slow } else { rope };
        let query = self.keep("rotary", rotate(&query, &cos, &sin)?)?;
        let key = self.keep("rotary#2", rotate(&key, &cos, &sin)?)?;
        let (key, value) = (repeat_heads(&key, 2)?, repeat_heads(&value, 2)?);
        let mixed = self.attention([&query, &key, &value], Some(&causal_mask(5)?))?;
        let mixed = self.linear("out", &mixed)?;
        let x = self.keep("add", (x + mixed)?)?;
        let normed = self.rms_norm("norm2", &x)?;
        let gate = self.linear("gate", &normed)?;
        let gate = self.keep("silu", silu(&gate)?)?;
        let up = self.linear("up", &normed)?;
        let hidden = self.keep("mul", (gate * up)?)?;
        let hidden = self.linear("down", &hidden)?;
        let x = self.keep("add#2", (x + hidden)?)?;
        let output = self.linear("head", &x)?;
        self.cross_entropy(&output, &self.input("target")?)
    }

    fn lstm(&mut self) -> Result<Tensor> {
        let names = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"];
        let weights =
            names.map(|name| Ok((name.to_owned(), self.parameter(&format!("lstm.{name}"))?)));
        let weights = weights.into_iter().collect::<Result<_>>()?;
        let vars = VarBuilder::from_tensors(weights, DType::F32, &Device::Cpu);
        let layer = LSTM::new(3, 4, LSTMConfig::default(), vars)?;
        let states = layer.seq(&self.input("x")?)?;
        let hidden = self.keep("lstm/lstm", layer.states_to_tensor(&states)?)?;
        let output = self.linear("fc", &hidden)?;
        // candle has no L1 loss.
        let output = (output - self.input("target")?)?.abs()?.mean_all()?;
        self.keep("l1_loss", output)
    }

    fn mixer(&mut self) -> Result<()> {
        let (cos, sin) = angles(5, 8, 1000.0, 1)?;
        let x = rope_i(&self.input("x")?.unsqueeze(1)?, &cos, &sin)?.squeeze(1)?;
        let x = self.keep("rotary", x)?;
        let (weight, bias) = (
            self.parameter("attention.in_proj_weight")?,
            self.parameter("attention.in_proj_bias")?,
        );
        let part = |at: usize| {
            let rows = 8 * at..8 * (at + 1);
            let layer = Linear::new(weight.i(rows.clone())?, Some(bias.i(rows)?));
            split_heads(&layer.forward(&x)?, 2)
        };
        let heads = [&part(0)?, &part(1)?, &part(2)?];
        let mixed = join_heads(&attend(heads, Some(&self.input("mask")?))?)?;
        let layer = Linear::new(
            self.parameter("attention.out_proj.weight")?,
            Some(self.parameter("attention.out_proj.bias")?),
        );
        let mixed = self.keep("attention", layer.forward(&mixed)?)?;
        self.layer_norm("norm", "norm", &mixed)?;
        Ok(())
    }
}

/// Attention by products and a softmax: `ops::sdpa` runs on Metal alone.
fn attend([query, key, value]: [&Tensor; 3], mask: Option<&Tensor>) -> Result<Tensor> {
    let width = query.dim(D::Minus1)?;
    let scores = (query.matmul(&key.t()?.contiguous()?)? / (width as f64).sqrt())?;
    let scores = match mask {
        Some(mask) => scores.broadcast_add(mask)?,
        None => scores,
    };
    softmax(&scores, D::Minus1)?.matmul(value)
}

fn split_heads(x: &Tensor, heads: usize) -> Result<Tensor> {
    let (batch, length, width) = x.dims3()?;
    x.reshape((batch, length, heads, width / heads))?
        .transpose(1, 2)?
        .contiguous()
}

fn join_heads(x: &Tensor) -> Result<Tensor> {
    x.transpose(1, 2)?.contiguous()?.flatten_from(2)
}

/// Each head `times` times, one after another.
fn repeat_heads(x: &Tensor, times: usize) -> Result<Tensor> {
    let (batch, heads, length, width) = x.dims4()?;
    Tensor::cat(&vec![x; times], 2)?.reshape((batch, heads * times, length, width))
}

fn causal_mask(length: usize) -> Result<Tensor> {
    let hidden = |row, column| if column > row { f32::NEG_INFINITY } else { 0.0 };
    let rows = (0..length).flat_map(|row| (0..length).map(move |column| hidden(row, column)));
    Tensor::from_iter(rows, &Device::Cpu)?.reshape((length, length))
}

/// Cosines and sines of a rotary embedding, [length, width / 2].
fn angles(length: usize, width: usize, base: f64, first: usize) -> Result<(Tensor, Tensor)> {
    let place = |at: usize| (first + at) as f64;
    let power = |pair: usize| base.powf(-((2 * pair) as f64) / width as f64);
    let angles = (0..length).flat_map(|at| (0..width / 2).map(move |pair| place(at) * power(pair)));
    let angles = Tensor::from_iter(angles, &Device::Cpu)?.reshape((length, width / 2))?;
    let angles = angles.to_dtype(DType::F32)?;
    Ok((angles.cos()?, angles.sin()?))
}
