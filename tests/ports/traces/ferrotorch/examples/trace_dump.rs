//! ferrotorch-nn on the models of `model-traces-v1`: `trace_dump CASE FIXTURE_DIR OUTPUT_DIR`.

use ferrotorch_core::{from_slice, FerrotorchError, FerrotorchResult as Result};
use ferrotorch_nn::functional::{
    gelu, leaky_relu, relu, scaled_dot_product_attention, silu, softmax, tanh,
};
use ferrotorch_nn::{
    repeat_kv, AdaptiveAvgPool2d, AvgPool2d, BatchNorm2d, Conv2d, CrossEntropyLoss, Embedding,
    EmbeddingBag, EmbeddingBagMode, HuberLoss, L1Loss, LayerNorm, Linear, MSELoss, MaxPool2d,
    Module, Parameter, RMSNorm, Reduction, RoPEConvention, RotaryPositionEmbedding, LSTM,
};
use ferrotorch_optim::{Adam, AdamConfig, AdamW, AdamWConfig, Optimizer, Sgd, SgdConfig};
use ferrotorch_serialize::save_safetensors;
use safetensors::{Dtype, SafeTensors};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::ExitCode;

type Tensor = ferrotorch_core::Tensor<f32>;

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
            eprintln!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dump(case: &str, fixtures: &Path, output: &Path) -> Result<()> {
    let mut run = Run::read(fixtures)?;
    match case.split_once("-train-") {
        None => drop(run.forward(case)?),
        Some((model, optimizer)) => run.train(model, optimizer)?,
    }
    save_safetensors(&run.stages, output)
}

fn fail<T>(message: String) -> Result<T> {
    Err(FerrotorchError::InvalidArgument { message })
}

/// One run of a model: inputs, parameters, and the stages that it computed.
struct Run {
    inputs: HashMap<String, Tensor>,
    parameters: BTreeMap<String, Parameter<f32>>,
    /// Buffers of normalisation and class weights, which are not trained.
    buffers: HashMap<String, Tensor>,
    stages: HashMap<String, Tensor>,
    is_training: bool,
}

impl Run {
    fn read(folder: &Path) -> Result<Self> {
        let mut inputs = HashMap::new();
        let entries = std::fs::read_dir(folder.join("inputs"));
        for path in entries
            .into_iter()
            .flatten()
            .flatten()
            .map(|one| one.path())
        {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            inputs.insert(name.into_owned(), read_npy(&path)?);
        }
        let state = read_floats(&folder.join("model.safetensors"))?;
        let is_buffer = |name: &str| name.contains("running_") || name == "class_weight";
        let (buffers, trained): (HashMap<_, _>, HashMap<_, _>) =
            state.into_iter().partition(|(name, _)| is_buffer(name));
        let trained = trained.into_iter();
        Ok(Self {
            inputs,
            parameters: trained
                .map(|(name, one)| (name, Parameter::new(one)))
                .collect(),
            buffers,
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
            "bag" => self.bag().map(|()| None),
            "mixer" => self.mixer().map(|()| None),
            _ => fail(format!("not supported: {model}")),
        }
    }

    /// Trains all parameters; keeps gradients, parameters, states and losses instead of stages.
    fn train(&mut self, model: &str, optimizer: &str) -> Result<()> {
        self.is_training = true;
        let mut optimizer = make_optimizer(optimizer, self.parameters.values().cloned().collect())?;
        let (mut losses, mut steps) = (Vec::new(), HashMap::new());
        for step in 1..=STEPS {
            optimizer.zero_grad()?;
            let Some(loss) = self.forward(model)? else {
                return fail(format!("not supported: training of {model}"));
            };
            losses.push(loss.item()?);
            loss.backward()?;
            for (name, parameter) in &self.parameters {
                if let Some(gradient) = parameter.grad()? {
                    steps.insert(format!("step_{step}/grad/{name}"), gradient.contiguous()?);
                }
            }
            optimizer.step()?;
            let state = optimizer.state_dict()?;
            for (at, (name, parameter)) in self.parameters.iter().enumerate() {
                let shape = parameter.shape();
                for key in ["momentum_buffer", "exp_avg", "exp_avg_sq"] {
                    // AdamW's name of a parameter, and Sgd's.
                    let own = state.get(&format!("g0_p{at}"));
                    let own = own.or_else(|| state.get(&format!("0_{at}")));
                    if let Some(values) = own.and_then(|own| own.get(key)) {
                        let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
                        steps.insert(
                            format!("step_{step}/{key}/{name}"),
                            from_slice(&values, shape)?,
                        );
                    }
                }
                let copy = from_slice(&parameter.data_vec()?, shape)?;
                steps.insert(format!("step_{step}/{name}"), copy);
            }
        }
        steps.insert("loss".to_owned(), from_slice(&losses, &[losses.len()])?);
        self.stages = steps;
        Ok(())
    }

    fn input(&self, name: &str) -> Result<Tensor> {
        let found = self.inputs.get(name).cloned();
        found.map_or_else(|| fail(format!("the trace has no input {name}")), Ok)
    }

    fn keep(&mut self, name: impl Into<String>, output: Tensor) -> Result<Tensor> {
        self.stages
            .insert(name.into(), output.contiguous()?.detach());
        Ok(output)
    }

    /// Puts the trace's parameters into a layer, in its own order.
    fn fill<M: Module<f32>>(&self, mut layer: M, module: &str, names: &[&str]) -> Result<M> {
        for (slot, name) in layer.parameters_mut().into_iter().zip(names) {
            let name = format!("{module}.{name}");
            let Some(parameter) = self.parameters.get(&name) else {
                return fail(format!("the trace has no parameter {name}"));
            };
            *slot = parameter.clone();
        }
        if self.is_training {
            layer.train();
        } else {
            layer.eval();
        }
        Ok(layer)
    }

    fn linear(&mut self, name: &str, x: &Tensor) -> Result<Tensor> {
        let output = self.run_linear(name, &["weight", "bias"], x)?;
        self.keep(format!("{name}/linear"), output)
    }

    fn run_linear(&self, module: &str, names: &[&str; 2], x: &Tensor) -> Result<Tensor> {
        let weight = self.parameters.get(&format!("{module}.{}", names[0]));
        let shape = weight.map_or_else(Vec::new, |weight| weight.shape().to_vec());
        let &[rows, columns] = &shape[..] else {
            return fail(format!("the trace has no matrix {module}.{}", names[0]));
        };
        let has_bias = self
            .parameters
            .contains_key(&format!("{module}.{}", names[1]));
        let layer = Linear::new(columns, rows, has_bias)?;
        self.fill(layer, module, names)?.forward(x)
    }

    fn mlp(&mut self) -> Result<Tensor> {
        let hidden = self.linear("fc1", &self.input("x")?)?;
        let hidden = self.keep("relu", relu(&hidden)?)?;
        let hidden = self.linear("fc2", &hidden)?;
        let hidden = self.keep("tanh", tanh(&hidden)?)?;
        let output = self.linear("fc3", &hidden)?;
        let loss = MSELoss::new(Reduction::Mean).forward(&output, &self.input("target")?)?;
        self.keep("mse_loss", loss)
    }

    fn cnn(&mut self) -> Result<Tensor> {
        let names = ["weight", "bias"];
        let conv1 = Conv2d::new(2, 4, (3, 3), (1, 1), (1, 1), true)?;
        let conv1 = self.fill(conv1, "conv1", &names)?;
        let hidden = self.keep("conv1/conv2d", conv1.forward(&self.input("x")?)?)?;
        let norm = self.fill(BatchNorm2d::new(4, 1e-5, 0.1, true)?, "norm", &names)?;
        norm.set_running_mean(&self.buffers["norm.running_mean"].data_vec()?)?;
        norm.set_running_var(&self.buffers["norm.running_var"].data_vec()?)?;
        let hidden = self.keep("norm/batch_norm", norm.forward(&hidden)?)?;
        let hidden = self.keep("leaky_relu", leaky_relu(&hidden, 0.05)?)?;
        let pooled = MaxPool2d::new([3, 3], [2, 2], [1, 1]).forward(&hidden)?;
        let hidden = self.keep("pool1/max_pool2d", pooled)?;
        let conv2 = Conv2d::new_full(4, 4, (3, 3), (1, 1), (2, 2), (2, 2), 2, true)?;
        let conv2 = self.fill(conv2, "conv2", &names)?;
        let hidden = self.keep("conv2/conv2d", conv2.forward(&hidden)?)?;
        let pooled = AvgPool2d::new([2, 2], [1, 1], [1, 1]).forward(&hidden)?;
        let hidden = self.keep("pool2/avg_pool2d", pooled)?;
        let pooled = AdaptiveAvgPool2d::new((2, 2)).forward(&hidden)?;
        let hidden = self.keep("pool3/adaptive_avg_pool2d", pooled)?;
        let output = self.linear("fc", &hidden.reshape_t(&[2, -1])?)?;
        self.cross_entropy(&output, 0.0)
    }

    fn cross_entropy(&mut self, logits: &Tensor, smoothing: f64) -> Result<Tensor> {
        let target = self.input("target")?.reshape_t(&[-1])?;
        let loss = CrossEntropyLoss::new(Reduction::Mean, smoothing);
        let output = loss.forward(logits, &target)?;
        self.keep("cross_entropy_loss", output)
    }

    fn encoder(&mut self) -> Result<Tensor> {
        let x = self.input("x")?;
        let query = split_heads(&self.linear("q", &x)?, 2)?;
        let key = split_heads(&self.linear("k", &x)?, 2)?;
        let value = split_heads(&self.linear("v", &x)?, 2)?;
        let mixed = scaled_dot_product_attention(&query, &key, &value, false)?;
        let mixed = self.keep_heads(&mixed, 2)?;
        let mixed = self.linear("out", &mixed)?;
        let sum = self.keep("add", x.add_t(&mixed)?)?;
        let x = self.layer_norm("norm1", "norm1/layer_norm", &sum)?;
        let hidden = self.linear("fc1", &x)?;
        let hidden = self.keep("gelu", gelu(&hidden)?)?;
        let hidden = self.linear("fc2", &hidden)?;
        let sum = self.keep("add#2", x.add_t(&hidden)?)?;
        let output = self.layer_norm("norm2", "norm2/layer_norm", &sum)?;
        // SmoothL1Loss has no beta; Huber's loss is the smooth L1 loss times beta.
        let huber = HuberLoss::new(Reduction::Mean, 0.5);
        let loss = huber.forward(&output, &self.input("target")?)?;
        let loss = loss.mul_t(&from_slice(&[2.0], &[])?)?;
        self.keep("smooth_l1_loss", loss)
    }

    fn layer_norm(&mut self, module: &str, stage: &str, x: &Tensor) -> Result<Tensor> {
        let layer = LayerNorm::new(vec![8], 1e-5, true)?;
        let layer = self.fill(layer, module, &["weight", "bias"])?;
        self.keep(stage, layer.forward(x)?)
    }

    /// Keeps the output of attention by heads, and joins them.
    fn keep_heads(&mut self, mixed: &Tensor, heads: isize) -> Result<Tensor> {
        let mixed = mixed.reshape_t(&[2, heads, 5, -1])?;
        let mixed = self.keep("scaled_dot_product_attention", mixed)?;
        join_heads(&mixed)
    }

    fn decoder(&mut self) -> Result<Tensor> {
        let layer = self.fill(Embedding::new(7, 8, None)?, "embed", &["weight"])?;
        let x = self.keep("embed/embedding", layer.forward(&self.input("tokens")?)?)?;
        let normed = self.rms_norm("norm1", &x)?;
        let query = split_heads(&self.linear("q", &normed)?, 4)?;
        let key = split_heads(&self.linear("k", &normed)?, 2)?;
        let value = split_heads(&self.linear("v", &normed)?, 2)?;
        let convention = RoPEConvention::HalfRotation;
        let rotary = RotaryPositionEmbedding::with_convention(4, 5, 10_000.0, convention)?;
        let (query, key) = (rotary.apply(&query, 0)?, rotary.apply(&key, 0)?);
        self.keep("rotary", query.reshape_t(&[2, 4, 5, 4])?)?;
        self.keep("rotary#2", key.reshape_t(&[2, 2, 5, 4])?)?;
        let (key, value) = (repeat_kv(&key, 2)?, repeat_kv(&value, 2)?);
        let mixed = scaled_dot_product_attention(&query, &key, &value, true)?;
        let mixed = self.keep_heads(&mixed, 4)?;
        let mixed = self.linear("out", &mixed)?;
        let x = self.keep("add", x.add_t(&mixed)?)?;
        let normed = self.rms_norm("norm2", &x)?;
        let gate = self.linear("gate", &normed)?;
        let gate = self.keep("silu", silu(&gate)?)?;
        let up = self.linear("up", &normed)?;
        let hidden = self.keep("mul", gate.mul_t(&up)?)?;
        let hidden = self.linear("down", &hidden)?;
        let x = self.keep("add#2", x.add_t(&hidden)?)?;
        let output = self.linear("head", &x)?;
        self.cross_entropy(&output.reshape_t(&[10, 7])?, 0.0)
    }

    fn rms_norm(&mut self, module: &str, x: &Tensor) -> Result<Tensor> {
        let layer = self.fill(RMSNorm::new(vec![8], 1e-6)?, module, &["weight"])?;
        self.keep(format!("{module}/rms_norm"), layer.forward(x)?)
    }

    fn lstm(&mut self) -> Result<Tensor> {
        let names = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"];
        let layer = self.fill(LSTM::new(3, 4, 1)?, "lstm", &names)?;
        let hidden = self.keep("lstm/lstm", layer.forward(&self.input("x")?)?)?;
        let output = self.linear("fc", &hidden)?;
        let loss = L1Loss::new(Reduction::Mean).forward(&output, &self.input("target")?)?;
        self.keep("l1_loss", loss)
    }

    /// CrossEntropyLoss has no weights of classes: the loss is left out.
    fn bag(&mut self) -> Result<()> {
        let layer = EmbeddingBag::new_with(9, 4, EmbeddingBagMode::Mean, Some(2))?;
        let layer = self.fill(layer, "embed", &["weight"])?;
        let tokens = self.input("tokens")?.reshape_t(&[-1])?;
        let means = layer.forward_bag(&tokens, &[0, 3, 6, 9])?;
        let means = self.keep("embed/embedding_bag", means)?;
        self.linear("fc", &means)?;
        Ok(())
    }

    /// MultiheadAttention takes no mask but the causal one: attention is made of products.
    fn mixer(&mut self) -> Result<()> {
        let rotary = RotaryPositionEmbedding::new(8, 6, 1000.0)?;
        let x = self.keep("rotary", rotary.apply(&self.input("x")?, 1)?)?;
        let names = ["in_proj_weight", "in_proj_bias"];
        let projected = self.run_linear("attention", &names, &x)?;
        let part = |at: usize| split_heads(&projected.narrow(2, 8 * at, 8)?.contiguous()?, 2);
        let (query, key, value) = (part(0)?, part(1)?, part(2)?);
        let scores = query.bmm(&key.transpose(1, 2)?.contiguous()?)?;
        let scores = scores.mul_t(&from_slice(&[0.5], &[])?)?;
        let shares = softmax(&scores.add_t(&self.input("mask")?)?)?;
        let mixed = join_heads(&shares.bmm(&value)?.reshape_t(&[2, 2, 5, 4])?)?;
        let names = ["out_proj.weight", "out_proj.bias"];
        let mixed = self.run_linear("attention", &names, &mixed)?;
        let mixed = self.keep("attention", mixed)?;
        self.layer_norm("norm", "norm", &mixed)?;
        Ok(())
    }
}

/// The optimizers of the trace, with its settings.
fn make_optimizer(name: &str, parameters: Vec<Parameter<f32>>) -> Result<Box<dyn Optimizer<f32>>> {
    let (betas, eps, decay) = ((0.8, 0.95), 1e-3, 0.05);
    let sgd = SgdConfig::new(0.05).momentum(0.9).dampening(0.1);
    let adam = AdamConfig::default().with_lr(0.01).with_betas(betas);
    let adamw = AdamWConfig::default().with_lr(0.01).with_betas(betas);
    Ok(match name {
        "sgd" => Box::new(Sgd::new(parameters, sgd.weight_decay(0.02))),
        "adam" => Box::new(Adam::new(
            parameters,
            adam.with_eps(eps).with_weight_decay(decay),
        )),
        "adamw" => Box::new(AdamW::new(
            parameters,
            adamw.with_eps(eps).with_weight_decay(decay),
        )),
        _ => return fail(format!("not supported: {name}")),
    })
}

/// [batch, length, heads · d] becomes [batch · heads, length, d].
fn split_heads(x: &Tensor, heads: isize) -> Result<Tensor> {
    let &[batch, length, _] = x.shape() else {
        return fail(format!("{:?} is not [batch, length, width]", x.shape()));
    };
    let (batch, length) = (batch as isize, length as isize);
    let split = x
        .reshape_t(&[batch, length, heads, -1])?
        .permute(&[0, 2, 1, 3])?;
    split.contiguous()?.reshape_t(&[batch * heads, length, -1])
}

/// [batch, heads, length, d] becomes [batch, length, heads · d].
fn join_heads(x: &Tensor) -> Result<Tensor> {
    x.permute(&[0, 2, 1, 3])?
        .contiguous()?
        .reshape_t(&[2, 5, -1])
}

/// Reads the tensors of f32: `load_safetensors` rejects a file that also has an integer, such as
/// BatchNorm's `num_batches_tracked`.
fn read_floats(path: &Path) -> Result<HashMap<String, Tensor>> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let file = match SafeTensors::deserialize(&bytes) {
        Ok(file) => file,
        Err(error) => return fail(format!("{}: {error}", path.display())),
    };
    let floats = file.tensors().into_iter();
    let floats = floats.filter(|(_, view)| view.dtype() == Dtype::F32);
    let read = floats
        .map(|(name, view)| Ok((name, from_slice(&decode_floats(view.data()), view.shape())?)));
    read.collect()
}

fn decode_floats(data: &[u8]) -> Vec<f32> {
    let items = data.chunks_exact(4);
    items
        .map(|item| f32::from_le_bytes(item.try_into().unwrap_or_default()))
        .collect()
}

/// Reads a `.npy` of the trace's inputs: version 1, row-major, `<f4` or `<i8`, which becomes f32.
fn read_npy(path: &Path) -> Result<Tensor> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let Some(&[low, high]) = bytes.get(8..10) else {
        return fail(format!("{} is not .npy", path.display()));
    };
    let start = 10 + usize::from(u16::from_le_bytes([low, high]));
    let header = String::from_utf8_lossy(&bytes[10..start]);
    let shape = header.split(['(', ')']).nth(1).unwrap_or_default();
    let shape: Vec<usize> = shape
        .split(',')
        .filter_map(|one| one.trim().parse().ok())
        .collect();
    let data = &bytes[start..];
    let values: Vec<f32> = if header.contains("<i8") {
        let items = data.chunks_exact(8);
        items
            .map(|item| i64::from_le_bytes(item.try_into().unwrap_or_default()) as f32)
            .collect()
    } else {
        decode_floats(data)
    };
    from_slice(&values, &shape)
}
