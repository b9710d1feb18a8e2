"""Make the bundles of ferrotorch's family anew: `python tests/ports/ferrotorch/pin.py [BUNDLE…]`.

Needs torch, transformers, tokenizers, scikit-learn, diffusers and jinja2. Other versions of these
give other last bits, so the bundles are part of the repo, and lockfiles name their digests.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from parity.lab.array_files import encode_file
from parity.lab.bundle_writer import BundleWriter

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from references import autograd, distributions, ml, networks, optimizer, text, training  # noqa: E402 - beside this file

BUNDLES = {
    "autograd-parity-v1": autograd.make,
    "distributions-parity-v1": distributions.make,
    "optimizer-trajectories-v1": optimizer.make,
    "training-trajectory-v1": training.make,
    "ml-sklearn-parity-v1": ml.make,
    "tokenizer-parity-v1": text.make,
    "jit-trace-parity-v1": networks.make_jit,
    "gcn-cora-v1": networks.make_gcn,
    "ppo-cartpole-v1": networks.make_ppo,
    "text-embedding-v1": networks.make_bert,
    "causal-lm-v1": networks.make_llama,
    "whisper-encoder-v1": networks.make_whisper,
    "diffusion-v1": networks.make_diffusion,
    "diffusion-pipeline-v1": networks.make_pipeline,
}


def main() -> None:
    """Make the bundles that are named, else all."""
    for name in sys.argv[1:] or BUNDLES:
        make = BUNDLES[name]
        with torch.set_grad_enabled(make.__module__ != networks.__name__):
            files = make()
        writer = BundleWriter(name)
        for path, value in files.items():
            if path.startswith("files/"):
                place = HERE / "models" / path.removeprefix("files/")
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(encode_file(path, value))
            else:
                writer.add_file(path, value)
        print(writer.pack(HERE / "bundles"))  # noqa: T201 - its output


if __name__ == "__main__":
    main()
