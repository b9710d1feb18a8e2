"""Row 2: densities, entropies, moments and divergences of torch.distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.distributions as td


def make() -> dict[str, Any]:
    """Return the points, log densities, entropies and exact moments of each configuration."""
    files: dict[str, Any] = {}
    for name, (distribution, points) in list_distributions().items():
        values = torch.tensor(np.asarray(points, np.float32))
        files[f"{name}/test_points.bin"] = values
        files[f"{name}/log_prob.bin"] = distribution.log_prob(values)
        moments = (distribution.base_dist if name.startswith("transformed") else distribution)
        mean, variance = moments.mean.reshape(-1), moments.variance.reshape(-1)
        if name.startswith("transformed"):
            mean, variance = 2 + 3 * mean, 9 * variance
        if torch.isfinite(mean).all():
            files[f"{name}/mean.bin"], files[f"{name}/var.bin"] = mean, variance
        if (entropy := find_entropy(name, distribution)) is not None:
            files[f"{name}/entropy.bin"] = entropy.reshape(1)
    for name, (p, q) in list_pairs().items():
        files[f"{name}/kl.bin"] = td.kl_divergence(p, q).reshape(1)
    return files


def find_entropy(name: str, distribution: td.Distribution) -> torch.Tensor | None:
    """Return torch's entropy; the affine transform's follows from its base; None for Poisson's."""
    if name.startswith("transformed"):
        return td.Normal(2.0, 3.0).entropy()
    if name == "multinomial_k3_n20":
        return sum_multinomial_entropy(20, [0.2, 0.3, 0.5])
    try:
        return distribution.entropy()
    except NotImplementedError:
        return None


def sum_multinomial_entropy(n: int, probs: list[float]) -> torch.Tensor:
    """Sum a multinomial's entropy of three categories over all its outcomes, in f64."""
    p = torch.tensor(probs, dtype=torch.float64)
    counts = [(a, b, n - a - b) for a in range(n + 1) for b in range(n + 1 - a)]
    x = torch.tensor(counts, dtype=torch.float64)
    log_p = torch.lgamma(torch.tensor(n + 1.0)) - torch.lgamma(x + 1).sum(1) + (x * p.log()).sum(1)
    return -(log_p.exp() * log_p).sum()


def list_distributions() -> dict[str, tuple[td.Distribution, Any]]:
    """List distribution and points by the name that the example knows."""

    def span(low: float, high: float) -> Any:
        return np.linspace(low, high, 100)

    affine = td.TransformedDistribution(td.Normal(0.0, 1.0), [td.AffineTransform(2.0, 3.0)])
    covariance = torch.tensor([[1, 0.5, 0.2], [0.5, 1, 0.3], [0.2, 0.3, 1]])
    simplex = [[0.25] * 4, [0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.05, 0.45, 0.4, 0.1]]
    corners = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]]
    counts = [[4, 6, 10], [4, 4, 12], [6, 6, 8], [2, 8, 10]]
    return {
        "normal_standard": (td.Normal(0.0, 1.0), span(-4, 4)),
        "normal_shifted": (td.Normal(2.0, 0.5), span(0, 4)),
        "beta_25": (td.Beta(2.0, 5.0), span(0.01, 0.99)),
        "gamma_21": (td.Gamma(2.0, 1.0), span(0.1, 10)),
        "cauchy_standard": (td.Cauchy(0.0, 1.0), span(-5, 5)),
        "exponential_1p5": (td.Exponential(1.5), span(0.01, 5)),
        "uniform_neg2_3": (td.Uniform(-2.0, 3.0), span(-1.9, 2.9)),
        "lognormal_0_p5": (td.LogNormal(0.0, 0.5), span(0.1, 5)),
        "laplace_0_1": (td.Laplace(0.0, 1.0), span(-4, 4)),
        "halfnormal_1": (td.HalfNormal(1.0), span(0.01, 4)),
        "studentt_df5": (td.StudentT(5.0), span(-4, 4)),
        "bernoulli_p3": (td.Bernoulli(0.3), [0, 1]),
        "poisson_3": (td.Poisson(3.0), range(15)),
        "categorical_k4": (td.Categorical(torch.tensor([0.1, 0.3, 0.4, 0.2])), range(4)),
        "dirichlet_k4": (td.Dirichlet(torch.tensor([1.0, 2, 3, 4])), simplex),
        "mvn_3d": (td.MultivariateNormal(torch.zeros(3), covariance), corners),
        "transformed_normal_affine": (affine, span(-4, 8)),
        "multinomial_k3_n20": (td.Multinomial(20, torch.tensor([0.2, 0.3, 0.5])), counts),
    }


def list_pairs() -> dict[str, tuple[td.Distribution, td.Distribution]]:
    """List the two distributions of each divergence."""
    p = torch.tensor([0.1, 0.3, 0.4, 0.2])
    return {
        "kl_normal_normal": (td.Normal(0.0, 1.0), td.Normal(1.0, 2.0)),
        "kl_bernoulli_bernoulli": (td.Bernoulli(0.3), td.Bernoulli(0.5)),
        "kl_uniform_uniform": (td.Uniform(-1.0, 1.0), td.Uniform(-2.0, 2.0)),
        "kl_categorical_categorical": (td.Categorical(p), td.Categorical(torch.ones(4) / 4)),
        "kl_laplace_laplace": (td.Laplace(0.0, 1.0), td.Laplace(0.5, 2.0)),
        "kl_exponential_exponential": (td.Exponential(1.5), td.Exponential(1.0)),
        "kl_gamma_gamma": (td.Gamma(2.0, 1.0), td.Gamma(3.0, 2.0)),
        "kl_poisson_poisson": (td.Poisson(3.0), td.Poisson(5.0)),
    }
