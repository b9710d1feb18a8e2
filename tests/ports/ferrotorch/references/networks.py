"""Rows 6, 10 to 13 and 15 to 17: tiny models of the same architectures, with seeded weights.

What the examples download lies under ``files/``, by its address without the scheme; the lockfile
names each as an extra file.
"""

from __future__ import annotations

import json
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
import transformers

from .seeded import draw, fill
from .text import train_bert, train_bytes

SENTENCE = "The lazy dog does not mind."


def place(model: str, files: dict[str, Any]) -> dict[str, Any]:
    """Place the files of ``ferrotorch/MODEL`` where the example looks for them."""
    return {f"files/{model}/{name}": value for name, value in files.items()}


def write_config(config: transformers.PretrainedConfig, architecture: str) -> dict[str, Any]:
    """Return a model's `config.json` as `save_pretrained` writes it, with every default."""
    return {**json.loads(config.to_json_string(use_diff=False)), "architectures": [architecture]}


def make_jit() -> dict[str, Any]:
    """Row 6: two linear layers with a relu between; eager, traced and compiled."""
    weights = {
        "l1_weight": draw("l1", 16, 8, scale=0.3),
        "l1_bias": draw("b1", 16, scale=0.1),
        "l2_weight": draw("l2", 4, 16, scale=0.3),
        "l2_bias": draw("b2", 4, scale=0.1),
    }
    x = draw("jit", 5, 8)
    hidden = F.relu(F.linear(x, weights["l1_weight"], weights["l1_bias"]))
    out = F.linear(hidden, weights["l2_weight"], weights["l2_bias"])
    return {
        "mlp/_value_parity_input.bin": x,
        "mlp/_value_parity_output.bin": out,
        "files/jit-trace-parity-v1.safetensors": weights,
    }


def make_gcn() -> dict[str, Any]:
    """Row 10: two graph convolutions, by the normalised adjacency with self-loops."""
    nodes, features, hidden, classes = 60, 12, 16, 7
    x = draw("nodes", nodes, features)
    pairs = draw("pairs", nodes, nodes).triu(1) > 1.8  # noqa: PLR2004 - about 60 edges
    edges = torch.cat([pairs.nonzero(), pairs.nonzero().flip(1)]).T.contiguous()
    adjacency = (pairs | pairs.T).float() + torch.eye(nodes)
    scale = adjacency.sum(1).rsqrt()
    adjacency = scale[:, None] * adjacency * scale
    weights = {
        "conv1.bias": draw("bias1", hidden),
        "conv1.lin.weight": draw("lin1", hidden, features),
        "conv2.bias": draw("bias2", classes),
        "conv2.lin.weight": draw("lin2", classes, hidden),
    }
    inner = F.relu(adjacency @ (x @ weights["conv1.lin.weight"].T) + weights["conv1.bias"])
    logits = adjacency @ (inner @ weights["conv2.lin.weight"].T) + weights["conv2.bias"]
    return {
        "gcn/_value_parity_x.bin": x,
        "gcn/_value_parity_edge_index.bin": edges,
        "gcn/_value_parity_logits.bin": logits,
        **place("gcn-cora", {"config.json": {}, "model.safetensors": weights}),
    }


def make_ppo() -> dict[str, Any]:
    """Row 11: policy and value networks of two tanh layers each."""
    sizes, weights = {"0": (64, 4), "2": (64, 64)}, {}
    for net in ("policy_net", "value_net"):
        for layer, shape in sizes.items():
            prefix = f"mlp_extractor.{net}.{layer}"
            weights[f"{prefix}.weight"] = draw(f"{prefix}.weight", *shape, scale=0.3)
            weights[f"{prefix}.bias"] = draw(f"{prefix}.bias", shape[0], scale=0.1)
    for head, rows in (("action_net", 2), ("value_net", 1)):
        weights[f"{head}.weight"] = draw(f"{head}.weight", rows, 64)
        weights[f"{head}.bias"] = draw(f"{head}.bias", rows)
    x = draw("observations", 5, 4)

    def run(net: str, head: str) -> torch.Tensor:
        inner = x
        for layer in sizes:
            prefix = f"mlp_extractor.{net}.{layer}"
            inner = torch.tanh(
                F.linear(inner, weights[f"{prefix}.weight"], weights[f"{prefix}.bias"])
            )
        return F.linear(inner, weights[f"{head}.weight"], weights[f"{head}.bias"])

    return {
        "ppo/obs.bin": x,
        "ppo/reference/policy_action_logits.bin": run("policy_net", "action_net"),
        "ppo/reference/policy_value.bin": run("value_net", "value_net"),
        **place("ppo-cartpole-v1", {"config.json": {}, "model.safetensors": weights}),
    }


def make_bert() -> dict[str, Any]:
    """Row 12: a sentence's embedding: BERT, mean over the tokens, unit length."""
    tokenizer = train_bert(pad_to=32)
    config = transformers.BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    model = fill(transformers.BertModel(config, add_pooling_layer=False), scale=0.3)
    ids = [one for one in tokenizer.encode(SENTENCE).ids if one]
    hidden = model(torch.tensor([ids])).last_hidden_state
    return {
        "sentence/reference/stdout.json": {
            "shape": [1, 32],
            "normalize": True,
            "kept": len(ids),
            "token_ids": ids,
            "sentence": SENTENCE,
        },
        "sentence/reference/embedding.bin": F.normalize(hidden.mean(1), dim=-1),
        **place(
            "all-MiniLM-L6-v2",
            {
                "config.json": write_config(config, "BertModel"),
                "model.safetensors": dict(model.state_dict()),
                "tokenizer.json": json.loads(tokenizer.to_str()),
            },
        ),
    }


def make_llama() -> dict[str, Any]:
    """Row 13: logits of a causal language model with grouped queries."""
    tokenizer = train_bytes(["<|endoftext|>"])
    config = transformers.LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        tie_word_embeddings=True,
    )
    model = fill(transformers.LlamaForCausalLM(config), scale=0.3)
    ids = tokenizer.encode(SENTENCE).ids
    logits = model(torch.tensor([ids]), use_cache=False).logits
    written = {**write_config(config, "LlamaForCausalLM"), "rope_theta": 10000.0}
    weights = {name: one for name, one in model.state_dict().items() if name != "lm_head.weight"}
    return {
        "prompt/reference/logits.bin": logits,
        "prompt/reference/stdout.json": {
            "device": "cpu",
            "shape": list(logits.shape),
            "seq_len": logits.shape[1],
            "vocab": logits.shape[2],
            "argmax_last": int(logits[0, -1].argmax()),
            "argmax_per_pos": logits[0].argmax(-1).tolist(),
            "token_ids": ids,
        },
        **place(
            "smollm-135m",
            {
                "config.json": written,
                "model.safetensors": weights,
                "tokenizer.json": json.loads(tokenizer.to_str()),
            },
        ),
    }


def make_whisper() -> dict[str, Any]:
    """Row 15: hidden states of Whisper's encoder."""
    config = transformers.WhisperConfig(
        vocab_size=64,
        d_model=32,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_layers=1,
        decoder_attention_heads=4,
        decoder_ffn_dim=64,
        max_source_positions=50,
        max_target_positions=16,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    model = fill(transformers.WhisperModel(config).encoder, scale=0.2)
    mel = draw("mel", 1, 80, 100)
    state = {f"model.encoder.{name}": one for name, one in model.state_dict().items()}
    return {
        "mel/mel.bin": mel,
        "mel/reference/hidden.bin": model(mel).last_hidden_state,
        **place(
            "whisper-tiny-encoder",
            {"config.json": write_config(config, "WhisperModel"), "model.safetensors": state},
        ),
    }


def build_clip(hidden_act: str) -> tuple[transformers.CLIPTextModel, dict[str, Any]]:
    """Build a text encoder of CLIP, and the files of its model."""
    config = transformers.CLIPTextConfig(
        vocab_size=100,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=4,
        num_hidden_layers=2,
        max_position_embeddings=16,
        bos_token_id=98,
        eos_token_id=99,
        hidden_act=hidden_act,
    )
    clip = fill(transformers.CLIPTextModel(config), scale=0.2)
    state = {
        name if name.startswith("text_model.") else f"text_model.{name}": one
        for name, one in clip.state_dict().items()
    }
    written = write_config(config, "CLIPTextModel")
    return clip, {"config.json": written, "model.safetensors": state}


def build_unet() -> tuple[torch.nn.Module, dict[str, Any]]:
    """Build a network that predicts noise, and the files of its model."""
    import diffusers

    config = {
        "in_channels": 4,
        "out_channels": 4,
        "sample_size": 8,
        "block_out_channels": [8, 16],
        "layers_per_block": 1,
        "norm_num_groups": 4,
        "attention_head_dim": 2,
        "cross_attention_dim": 32,
        "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
        "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
    }
    unet = fill(diffusers.UNet2DConditionModel(**config), scale=0.1)
    return unet, {"config.json": config, "model.safetensors": dict(unet.state_dict())}


def build_vae() -> tuple[torch.nn.Module, dict[str, Any]]:
    """Build an autoencoder, and the files of its decoder."""
    import diffusers

    config = {
        "latent_channels": 4,
        "out_channels": 3,
        "block_out_channels": [8, 16],
        "layers_per_block": 1,
        "norm_num_groups": 4,
        "sample_size": 16,
        "scaling_factor": 0.18215,
    }
    blocks = {"down_block_types": ["DownEncoderBlock2D"] * 2}
    blocks["up_block_types"] = ["UpDecoderBlock2D"] * 2
    vae = fill(diffusers.AutoencoderKL(**config, **blocks), scale=0.1)
    state = {
        name: one
        for name, one in vae.state_dict().items()
        if name.startswith(("decoder.", "post_quant_conv."))
    }
    return vae, {"config.json": config, "model.safetensors": state}


def make_diffusion() -> dict[str, Any]:
    """Row 16: the three networks of a diffusion pipeline.

    Stable Diffusion 1 has the activation `quick_gelu` in its text encoder, 2 has `gelu`.
    """
    ids = torch.arange(16)[None] * 6 + 1
    files: dict[str, Any] = {}
    for case, model, hidden_act in (
        ("clip", "sd-v1-5-clip-text-encoder", "quick_gelu"),
        ("clip_gelu", "sd-v2-clip-text-encoder", "gelu"),
    ):
        clip, placed = build_clip(hidden_act)
        files |= {
            f"{case}/input_ids.bin": ids.float(),
            f"{case}/reference/out.bin": clip(ids).last_hidden_state,
            **place(model, placed),
        }
    latent, timestep, text = draw("latent", 1, 4, 8, 8), torch.tensor([500.0]), draw("text", 1, 16, 32)
    (unet, unet_files), (vae, vae_files) = build_unet(), build_vae()
    scale = vae_files["config.json"]["scaling_factor"]
    return {
        **files,
        "unet/latent.bin": latent,
        "unet/timestep.bin": timestep,
        "unet/text.bin": text,
        "unet/reference/out.bin": unet(latent, timestep, encoder_hidden_states=text).sample,
        **place("sd-v1-5-unet", unet_files),
        "vae/latent.bin": latent,
        "vae/reference/out.bin": vae.decode(latent / scale).sample,
        **place("sd-v1-5-vae-decoder", vae_files),
    }


def make_pipeline() -> dict[str, Any]:
    """Row 17: four steps of a diffusion pipeline with guidance, each stage; row 16's networks."""
    import diffusers

    scheduler = diffusers.DDIMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        clip_sample=False,
        set_alpha_to_one=False,
        steps_offset=1,
    )
    scheduler.set_timesteps(4)
    (clip, _), (unet, _), (vae, vae_files) = build_clip("quick_gelu"), build_unet(), build_vae()
    ids = {"prompt": torch.arange(16)[None] * 6 + 1, "uncond": torch.full((1, 16), 99)}
    prompt, uncond = (clip(one).last_hidden_state for one in ids.values())
    latent = draw("initial", 1, 4, 8, 8)
    stages = {"cond_embeds": prompt, "uncond_embeds": uncond, "init_latent": latent}
    for step, time in enumerate(scheduler.timesteps):
        without, with_prompt = (
            unet(latent, time, encoder_hidden_states=text).sample for text in (uncond, prompt)
        )
        guided = without + 7.5 * (with_prompt - without)
        latent = scheduler.step(guided, time, latent).prev_sample
        stages |= {
            f"step_{step}_noise_pred_uncond": without,
            f"step_{step}_noise_pred_cond": with_prompt,
            f"step_{step}_guided_noise": guided,
            f"step_{step}_latent_after": latent,
        }
    image = vae.decode(latent / vae_files["config.json"]["scaling_factor"]).sample
    return {
        "pipeline/init_latent.bin": stages["init_latent"],
        **{f"pipeline/{name}_input_ids.bin": one.float() for name, one in ids.items()},
        **{f"pipeline/reference/{name}.bin": one for name, one in stages.items()},
        "pipeline/reference/final_image.bin": image,
    }
